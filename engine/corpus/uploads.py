"""Uploaded corpora: save, rename, delete."""

import errno
import io
import lzma
import os
import re
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from engine.config import OWN
from engine.corpus import declared_types, derived_files, rel
from engine.corpus.declared_types import DeclaredTypes
from engine.corpus.files import MOST_FILES, WHOLE, checksum, located_at, own_files, parts_of, unrestricted
from engine.corpus.loader import read
from engine.corpus.text_decoding import MAX_BYTES, quote
from engine.errors import CorpusError, NotAllowed, StoreError
from engine.settings import Settings

ARCHIVE = ".zip"
_MAX_SAME_NAME = 10_000
"""Largest number of corpora of one name, which are distinguished by a number."""
_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, OSError, RuntimeError, EOFError, ValueError)
"""Errors raised while reading a zip file in memory.

OSError comes from bzip2, ValueError from an invalid name or offset.
"""
_UNWRITABLE = re.compile(r"[\x00-\x1f\ud800-\udfff]")
"""Characters that file names may not contain."""
_ODD = re.compile(r"[\\:\x00-\x1f]|.{200}")


def add_upload(
    filename: str,
    data: bytes,
    settings: Settings,
    check: Callable[[Path, str], None] | None = None,
    keep: Callable[[Callable[[], str]], str] = lambda save: save(),
    declared: DeclaredTypes | None = None,
) -> str:
    """Save an uploaded corpus completely or not at all, and return its name.

    The same content under the same file name keeps its name, even if another user owns it. Other content gets a number.

    Args:
        filename: Name of the file on the user's machine.
        data: A column file, a ``.rel`` file, or a zip of a corpus (see :func:`engine.corpus.files.parts_of`).
        settings: Folders of this machine.
        check: Reads the temporary file, given its path and its name in messages; by default it is read here.
        keep: Called with a function that saves the corpus and returns its name. It calls this function, or raises
            NotAllowed; then everything is removed.
        declared: The entity types that the corpus declares, in place of those that its files declare, if any.

    Raises:
        CorpusError: If the file cannot be read as a corpus.
        NotAllowed: If ``keep`` raises it.
        StoreError: If the corpus cannot be written.
    """
    title, folder = _title(filename), settings.home / "corpora"
    with written(filename, data, settings, declared) as made:
        (check or _check_readable)(made, title)
        content = checksum(located_at(made))
        try:
            return keep(lambda: _save(made, content, folder, _slug(Path(title).stem), title, settings))
        except NotAllowed:
            derived_files.forget(content, settings.artefacts, copies=False)  # others may have the same content
            raise


@contextmanager
def written(filename: str, data: bytes, settings: Settings, declared: DeclaredTypes | None = None) -> Iterator[Path]:
    """Write an upload to a temporary file or folder, which is removed at the end; see :func:`add_upload`."""
    title, folder = _title(filename), settings.home / "corpora"
    if len(data) > MAX_BYTES:
        raise CorpusError(f"{title} has more than {MAX_BYTES:,} bytes, the largest upload that is read")
    with _storage_errors(title, folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".upload-") as temporary:
            yield _write_upload(Path(temporary), _slug(Path(title).stem), title, data, declared)


def _title(filename: str) -> str:
    return _UNWRITABLE.sub("_", Path(filename.replace("\\", "/")).name) or "upload"


@contextmanager
def _storage_errors(title: str, folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{title} cannot be saved in {folder}: {error.strerror}") from error


def _save(made: Path, content: str, folder: Path, slug: str, title: str, settings: Settings) -> str:
    """Save it under the first free name, or find it under a name that it already has; return that name."""
    with _storage_errors(title, folder):  # inside the transaction, which would report a disk failure as its own
        for number in range(1, _MAX_SAME_NAME):
            name = f"{OWN}{slug}" + (f"-{number}" if number > 1 else "")
            taken = own_files(unrestricted(settings)).get(name)
            if taken is None and _publish(made, folder / f"{name}{made.suffix}"):
                return name
            if taken is not None and checksum(located_at(taken)) == content:
                return name
    raise StoreError(f"{title} cannot be saved in {folder}: too many corpora have this name")


def _write_upload(folder: Path, slug: str, title: str, data: bytes, declared: DeclaredTypes | None) -> Path:
    """Write the upload as a file, or as a folder if it has several files or names with a meaning."""
    suffix = Path(title).suffix.lower()
    if suffix == ARCHIVE:
        files = _unzip(data, title)
    elif suffix == rel.SUFFIX:
        files = {title: data}
    elif declared:
        files = {WHOLE: data}
    else:
        made = folder / f"{slug}.conll"
        made.write_bytes(data)
        return made
    made = folder / slug
    _, parts = parts_of(list(files), title)
    if declared:
        files[declared_types.FILE] = "".join(f"{line}\n" for line in declared.lines).encode()
    for inner in (*parts, *({declared_types.FILE} & files.keys())):
        target = made / inner
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(files[inner])
    return made


def _unzip(data: bytes, title: str) -> dict[str, bytes]:
    """Return the content of a zip by file name, without a folder that encloses all files.

    Nothing is written to disk, and reading stops at the size limit.

    Raises:
        CorpusError: If the archive is damaged, or has links, absolute paths or other suspicious entries.
    """
    files: dict[str, bytes] = {}
    size = 0
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for entry in archive.infolist():
                path = PurePosixPath(entry.filename)
                if entry.is_dir() or path.parts[:1] == ("__MACOSX",) or path.name.startswith("."):
                    continue
                link = stat.S_ISLNK(entry.external_attr >> 16)
                if link or path.is_absolute() or {"..", "."} & set(path.parts) or _ODD.search(entry.filename):
                    raise CorpusError(f"{title} has {quote(entry.filename)}, expected plain files in folders")
                if entry.filename in files or len(files) == MOST_FILES:
                    raise CorpusError(f"{title} has more than {MOST_FILES:,} files, or two of one name")
                with archive.open(entry) as file:
                    files[entry.filename] = file.read(MAX_BYTES - size + 1)
                size += len(files[entry.filename])
                if size > MAX_BYTES:
                    raise CorpusError(f"{title} unpacks to more than {MAX_BYTES:,} bytes, the most that is read")
    except _DAMAGED as error:
        raise CorpusError(f"{title} is not a readable zip file: {error}") from error
    folders = {PurePosixPath(name).parts[0] for name in files if "/" in name}
    if len(folders) == 1 and all("/" in name for name in files):
        return {name.partition("/")[2]: content for name, content in files.items()}
    return files


def _publish(made: Path, target: Path) -> bool:
    """Give it its name, or return False if the name is taken by now; nothing is ever overwritten."""
    try:
        if made.is_dir():
            made.rename(target)  # fails if a folder with files exists there
        else:
            os.link(made, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        return False
    return True


def _check_readable(path: Path, title: str) -> None:
    try:
        read(located_at(path))
    except CorpusError as error:
        raise CorpusError(called(str(error), path, title)) from error


def called(message: str, path: Path, shown: str) -> str:
    """Replace the temporary path in a message by the name that its owner knows."""
    named = message.replace(str(path), shown)
    if named.startswith(f"{WHOLE} "):
        return shown + named.removeprefix(WHOLE)
    return shown + named.removeprefix(path.name) if named.startswith(f"{path.name} ") else named


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40] or "corpus"


def rename(name: str, title: str, settings: Settings) -> str:
    """Rename an uploaded corpus to a name made from ``title``, and return it.

    Args:
        name: Its name.
        title: Its new name, in any characters.
        settings: Folders of this machine.

    Raises:
        CorpusError: If there is no such corpus, or another has the new name.
        StoreError: If it cannot be renamed.
    """
    path, new = own_file(name, settings), f"{OWN}{_slug(title)}"
    target = path.with_name(f"{new}{path.suffix}" if path.is_file() else new)
    if new in own_files(unrestricted(settings)):
        raise CorpusError(f"name={title!r}, expected an unused name: {new.removeprefix(OWN)} exists")
    try:
        path.rename(target)
    except OSError as error:
        raise StoreError(f"{name} cannot be renamed: {error.strerror}") from error
    return new


def delete(name: str, settings: Settings) -> None:
    """Remove an uploaded corpus.

    Raises:
        CorpusError: If there is no such corpus.
        StoreError: If it cannot be removed.
    """
    path = own_file(name, settings)
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        raise StoreError(f"{name} cannot be deleted: {error.strerror}") from error


def own_file(name: str, settings: Settings) -> Path:
    """Return the path of an uploaded corpus.

    Raises:
        CorpusError: If there is no such corpus.
    """
    path = own_files(settings).get(name)
    if path is None:
        raise CorpusError(f"corpus={name!r} is not one of your corpora")
    return path
