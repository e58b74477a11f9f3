"""The user's own corpora: kept, renamed, deleted."""

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

from engine.corpus import derived_files, rel
from engine.corpus.files import MOST_FILES, OWN, checksum, located_at, own_files, parts_of, unrestricted
from engine.corpus.loader import read
from engine.corpus.text_decoding import MAX_BYTES
from engine.corpus.text_decoding import quote as text_shown
from engine.errors import CorpusError, NotAllowed, StoreError
from engine.settings import Settings

ARCHIVE = ".zip"
_NAMES = 10_000
"""Corpora of one name that are told apart by a number."""
_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, OSError, RuntimeError, EOFError, ValueError)
"""What reading a zip may raise that lies in memory; OSError is what bzip2 says, ValueError a name or a place that
cannot be."""
_UNWRITABLE = re.compile(r"[\x00-\x1f\ud800-\udfff]")
"""Characters that no file's name has."""
_ODD = re.compile(r"[\\:\x00-\x1f]|.{200}")


def add_upload(
    filename: str,
    data: bytes,
    settings: Settings,
    check: Callable[[Path, str], None] | None = None,
    keep: Callable[[Callable[[], str]], str] = lambda place: place(),
) -> str:
    """Keep a file among the user's own corpora, whole or not at all, and return its name there: a column file, a
    ``.rel`` file, or a zip of what makes a corpus (see :func:`engine.corpus.files.parts_of`).

    The same content under the same file name keeps its name, whoever's it is; other content gets a number. check:
    reads what is about to be kept, and is told what it is called in messages; by default it is read here. keep: is
    given what puts it in its place and returns its name, and does that, or raises NotAllowed: then nothing is left of
    it. Raises CorpusError when it cannot be read as a corpus, StoreError when it cannot be written.
    """
    shown = _UNWRITABLE.sub("_", Path(filename.replace("\\", "/")).name) or "upload"
    if len(data) > MAX_BYTES:
        raise CorpusError(f"{shown} has more than {MAX_BYTES:,} bytes, the largest upload that is read")
    folder, slug = settings.home / "corpora", _slug(Path(shown).stem)
    with _unkept(shown, folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".upload-") as passing:
            made = _written(Path(passing), slug, shown, data)
            (check or _checked)(made, shown)
            content = checksum(located_at(made))
            try:
                return keep(lambda: _called(made, content, folder, slug, shown, settings))
            except NotAllowed:
                derived_files.forget(content, settings.artefacts, copies=False)  # others may have the same content
                raise


@contextmanager
def _unkept(shown: str, folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{shown} cannot be kept in {folder}: {error.strerror}") from error


def _called(made: Path, content: str, folder: Path, slug: str, shown: str, settings: Settings) -> str:
    """Put it where the first name is free, or find it under one that it has already; its name."""
    with _unkept(shown, folder):  # within whatever keeps it, which would take the disk's failure for its own
        for number in range(1, _NAMES):
            name = f"{OWN}{slug}" + (f"-{number}" if number > 1 else "")
            taken = own_files(unrestricted(settings)).get(name)
            if taken is None and _placed(made, folder / f"{name}{made.suffix}"):
                return name
            if taken is not None and checksum(located_at(taken)) == content:
                return name
    raise StoreError(f"{shown} cannot be kept in {folder}: too many corpora have this name")


def _written(folder: Path, slug: str, shown: str, data: bytes) -> Path:
    """The upload as a file, or as a folder where names within it matter."""
    suffix = Path(shown).suffix.lower()
    made = folder / (slug if suffix in (ARCHIVE, rel.SUFFIX) else f"{slug}.conll")
    if suffix == ARCHIVE:
        files = _unpacked(data, shown)
    elif suffix == rel.SUFFIX:
        files = {shown: data}
    else:
        made.write_bytes(data)
        return made
    _, parts = parts_of(list(files), shown)
    for title in parts:
        target = made / title
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(files[title])
    return made


def _unpacked(data: bytes, shown: str) -> dict[str, bytes]:
    """What a zip holds, by name; a folder around all of it is left out. Nothing is written, and no more is read than
    fits. Raises CorpusError for what no honest archive has."""
    found: dict[str, bytes] = {}
    size = 0
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for entry in archive.infolist():
                path = PurePosixPath(entry.filename)
                if entry.is_dir() or path.parts[:1] == ("__MACOSX",) or path.name.startswith("."):
                    continue
                link = stat.S_ISLNK(entry.external_attr >> 16)
                if link or path.is_absolute() or {"..", "."} & set(path.parts) or _ODD.search(entry.filename):
                    raise CorpusError(f"{shown} has {text_shown(entry.filename)}, expected plain files in folders")
                if entry.filename in found or len(found) == MOST_FILES:
                    raise CorpusError(f"{shown} has more than {MOST_FILES:,} files, or two of one name")
                with archive.open(entry) as file:
                    found[entry.filename] = file.read(MAX_BYTES - size + 1)
                size += len(found[entry.filename])
                if size > MAX_BYTES:
                    raise CorpusError(f"{shown} unpacks to more than {MAX_BYTES:,} bytes, the most that is read")
    except _DAMAGED as error:
        raise CorpusError(f"{shown} is no zip file that can be read: {error}") from error
    around = {PurePosixPath(name).parts[0] for name in found if "/" in name}
    if len(around) == 1 and all("/" in name for name in found):
        return {name.partition("/")[2]: content for name, content in found.items()}
    return found


def _placed(made: Path, target: Path) -> bool:
    """Give it its name; false if that is taken by now: nothing is ever written over."""
    try:
        if made.is_dir():
            made.rename(target)  # fails where a folder with files is
        else:
            os.link(made, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        return False
    return True


def _checked(path: Path, shown: str) -> None:
    try:
        read(located_at(path))
    except CorpusError as error:
        raise CorpusError(called(str(error), path, shown)) from error


def called(message: str, path: Path, shown: str) -> str:
    """A message about what lies at ``path`` for a while, with the name that its owner knows."""
    named = message.replace(str(path), shown)
    return shown + named.removeprefix(path.name) if named.startswith(f"{path.name} ") else named


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40] or "corpus"


def rename(name: str, title: str, settings: Settings) -> str:
    """Give one of the user's own corpora another name, made from ``title``; returns it. Raises CorpusError,
    StoreError."""
    path, new = own_file(name, settings), f"{OWN}{_slug(title)}"
    target = path.with_name(f"{new}{path.suffix}" if path.is_file() else new)
    if new in own_files(unrestricted(settings)):
        raise CorpusError(f"name={title!r}, expected one that no corpus has: {new.removeprefix(OWN)} is there")
    try:
        path.rename(target)
    except OSError as error:
        raise StoreError(f"{name} cannot be renamed: {error.strerror}") from error
    return new


def delete(name: str, settings: Settings) -> None:
    """Remove one of the user's own corpora. Raises CorpusError, StoreError."""
    path = own_file(name, settings)
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        raise StoreError(f"{name} cannot be deleted: {error.strerror}") from error


def own_file(name: str, settings: Settings) -> Path:
    """Where one of the user's own corpora lies. Raises CorpusError where it is none."""
    path = own_files(settings).get(name)
    if path is None:
        raise CorpusError(f"corpus={name!r} is none of your own corpora")
    return path
