"""Location of a corpus's files, and the part that each holds.

A named corpus is searched in three folders, in this order: the data folder (EPSILON_DATA_DIR), the user's own folder of
corpora, and the folder of downloads. It is used only if its files are exactly those of the catalogue. Any other name is
a path.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePosixPath

from engine.config import JOIN, OWN
from engine.corpus import brat, declared_types, rel
from engine.corpus.catalogue import NAMED, NAMES, Entry
from engine.corpus.declared_types import DeclaredTypes
from engine.corpus.text_decoding import LARGEST_FILE, decode_text
from engine.errors import CorpusError
from engine.settings import Settings

READING = 1
"""Version of the readers; part of every checksum. Increase it when the same files are read or split differently."""
MOST_FILES = 5_000
"""Largest number of files in one corpus."""
COLUMNS, REL, BRAT = "columns", "rel", "brat"
"""Forms of files."""
WHOLE = "whole.conll"
"""Name of the only column file of a folder, which is split."""
SPLIT = "@"
"""Separator between a corpus and the number of a split of all its sentences: ``ade@3``."""
_MOST_SPLITS = 2**32 - 1
_MOST_HEAD_LINES = 10_000
"""Most lines before the first token in which a declaration is searched; the server itself reads them."""
_LONGEST_LINE = 20_000
"""Longest line of a declaration in bytes: 200 names of 60 characters and more."""

_PARTS = {
    "train": "train",
    "test": "test",
    "dev": "validation",
    "devel": "validation",
    "valid": "validation",
    "validation": "validation",
    "eng.train": "train",
    "eng.testa": "validation",
    "eng.testb": "test",
}
"""Part by file name without extension; the last three are CoNLL-2003's own names."""


@dataclass(frozen=True)
class Source:
    """A file of a corpus.

    Attributes:
        path: Where it is stored.
        part: The part it holds: "train", "validation", "test", or "whole" for a file to be split.
        title: Its name in the corpus, with folders.
        form: ``COLUMNS``, or a form whose file names determine the content.
        section: The natural client of its sentences, or None.
    """

    path: Path
    part: str
    title: str
    form: str = COLUMNS
    section: str | None = None


@dataclass(frozen=True)
class Located:
    """A corpus whose files were found.

    Attributes:
        name: Name in configurations.
        where: As in :class:`engine.corpus.catalogue.CorpusInfo`.
        files: Its files.
        entry: Its entry in the catalogue, or None.
        split: Number of the split of all its sentences, or None if its files define the parts.
        declared: The entity types that its files declare, or None.
    """

    name: str
    where: str
    files: tuple[Source, ...]
    entry: Entry | None = None
    split: int | None = None
    declared: DeclaredTypes | None = None

    @property
    def types_are_declared(self) -> bool:
        """Whether the entity types are those of the catalogue or of a declaration, not read from the sentences."""
        return self.entry is not None or self.declared is not None


def base_name_and_split(name: str) -> tuple[str, int | None]:
    """Return a corpus's name and the number of its split, if any: ``ade@3`` → ``ade``, 3."""
    base, mark, number = name.rpartition(SPLIT)
    has_split = mark and (base in NAMED or base.startswith(OWN)) and number.isascii() and number.isdigit()
    return (base, int(number)) if has_split and int(number) <= _MOST_SPLITS else (name, None)


def corpus_names(corpus: str) -> frozenset[str]:
    """Return the names of the corpora that a run trains on, without splits: ``ade@3 + btc`` → ``ade``, ``btc``."""
    return frozenset(base_name_and_split(part)[0] for part in corpus.split(JOIN))


def locate(name_or_path: str, settings: Settings) -> Located:
    """Locate the files of a name, with or without a split, or of a path.

    Raises:
        CorpusError: If the files are not available, or have other checksums than the catalogue.
    """
    name, split = base_name_and_split(name_or_path)
    located = _locate(name, settings)
    return located if split is None else replace(located, name=name_or_path, split=split)


def _locate(name_or_path: str, settings: Settings) -> Located:
    if entry := NAMED.get(name_or_path):
        located = find_named(entry, settings)
        if located is None:
            raise CorpusError(_how_to_get(entry))
        for source, expected in zip(located.files, entry.files, strict=True):
            if digest(source.path) != expected.sha256:
                raise CorpusError(
                    f"{source.path} is not the expected file of {entry.name}: "
                    f"its SHA-256 is {digest(source.path)[:12]}…, expected {expected.sha256[:12]}…"
                )
        return located
    # Users with their own corpora may not read arbitrary paths.
    own = name_or_path.startswith(OWN) or settings.own is not None
    path = own_files(settings).get(name_or_path) if own else Path(name_or_path).expanduser()
    if path is None or not path.exists():
        raise CorpusError(
            f"corpus={name_or_path!r} is neither a known corpus ({', '.join(NAMES)}) nor a file or folder that exists"
        )
    return located_at(path, name_or_path if own else None)


def located_at(path: Path, name: str | None = None) -> Located:
    """Return the corpus of a file or a folder, by default under the name of the file.

    Raises:
        CorpusError: If it is neither a file nor a folder with a corpus.
    """
    return Located(name or path.name, "your files", tuple(_sources(path)), declared=declaration(path))


def declaration(path: Path) -> DeclaredTypes | None:
    """Return the entity types that the files of a corpus declare; a separate file has precedence.

    Args:
        path: A file or a folder, of which only the first lines are read.

    Raises:
        CorpusError: If a declaration is not valid, or two column files differ.
    """
    separate = path / declared_types.FILE
    if separate.is_file():
        lines = decode_text(content(separate), declared_types.FILE).splitlines()
        return declared_types.from_lines(lines, declared_types.FILE)
    columns = [path] if path.is_file() and _form(path.name) == COLUMNS else []
    if path.is_dir():
        names = [file.name for file in path.iterdir() if file.is_file() and not file.is_symlink()]
        columns = [path / name for name in _column_files(names, str(path)) or {WHOLE} & set(names)]
    found = {declared: file.name for file in columns if (declared := _in_head(file))}
    if len(found) > 1:
        raise CorpusError(f"{' and '.join(found.values())} declare different entity types, expected the same")
    return next(iter(found), None)


def _in_head(path: Path) -> DeclaredTypes | None:
    """Return the declaration before the first token of a column file."""
    try:
        with path.open("rb") as file:
            head = islice(iter(lambda: file.readline(_LONGEST_LINE), b""), _MOST_HEAD_LINES)
            lines = (line.decode(errors="replace") for line in head)
            return declared_types.from_lines(declared_types.head(lines), path.name)
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}") from error


def find_named(entry: Entry, settings: Settings) -> Located | None:
    """Return the first location that has all files of a named corpus, by name and size, or None."""
    locations = [
        ("fetched", fetched_folder(entry.name, settings)),
        ("your files", settings.home / "corpora" / entry.folder),
    ]
    if settings.data_dir:
        locations.append(("data folder", settings.data_dir / entry.folder))
    for where, folder in reversed(locations):
        paths = [folder / file.name for file in entry.files]
        if all(_size(path) == file.size for path, file in zip(paths, entry.files, strict=True)):
            sources = (
                Source(path, file.part, file.name, _form(file.name), file.section)
                for path, file in zip(paths, entry.files, strict=True)
            )
            return Located(entry.name, where, tuple(sources), entry)
    return None


def fetched_folder(name: str, settings: Settings) -> Path:
    """Return the folder of a downloaded corpus."""
    return settings.home / "fetched" / name


def unrestricted(settings: Settings) -> Settings:
    """Return settings that give access to the corpora of all users."""
    return replace(settings, own=None)


def own_files(settings: Settings) -> dict[str, Path]:
    """Return the uploaded corpora by name, and folders placed beside them.

    Only corpora that the user of these settings may use are included.
    """
    usable = None if settings.own is None else settings.own()
    try:
        paths = sorted((settings.home / "corpora").iterdir())
    except OSError:
        return {}
    return {
        path.stem if path.is_file() else path.name: path
        for path in paths
        if path.name.startswith(OWN) and not path.is_symlink()
        if usable is None or (path.stem if path.is_file() else path.name) in usable
    }


def _how_to_get(entry: Entry) -> str:
    if entry.base:
        return f"corpus={entry.name!r} is not available yet: download it first (python -m engine fetch {entry.name})"
    return f"corpus={entry.name!r} is not available. {entry.note} Put that folder into EPSILON_DATA_DIR."


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


def _sources(path: Path) -> Iterator[Source]:
    if path.is_file():
        yield Source(path, "whole", path.name, _form(path.name))
        return
    if not path.is_dir():
        raise CorpusError(f"{path} is neither a file nor a folder")
    inside = sorted(file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    if len(inside) > MOST_FILES:
        raise CorpusError(f"{path} has {len(inside):,} files, expected at most {MOST_FILES:,}")
    titles = {file.relative_to(path).as_posix(): file for file in inside}
    form, parts = parts_of(list(titles), str(path))
    for title, part in parts.items():
        yield Source(titles[title], part, title, form)


def _form(name: str) -> str:
    return REL if PurePosixPath(name).suffix == rel.SUFFIX else COLUMNS


def parts_of(titles: Sequence[str], name: str) -> tuple[str, dict[str, str]]:
    """Return the form of a folder's corpus, and the part of each file that it uses.

    There are three forms, tried in this order. brat files may lie in folders named after their parts, otherwise they
    are split. Column files are named after their parts. ``.rel`` files are always split.

    Args:
        titles: Names of the files in the folder, with subfolders.
        name: Name of the corpus in error messages.

    Raises:
        CorpusError: If there are no such files, or two files for one part.
    """
    if any(PurePosixPath(title).suffix == brat.MENTIONS for title in titles):
        used = [title for pair in brat.pairs(titles) for title in pair]
        folders = {title: _PARTS.get(PurePosixPath(title).parts[0].lower()) for title in used}
        whole = not {"train", "test"} <= set(folders.values()) or None in folders.values()
        return BRAT, {title: "whole" if whole else part or "whole" for title, part in folders.items()}
    files = [title for title in titles if "/" not in title]
    if columns := _column_files(files, name):
        return COLUMNS, columns
    if WHOLE in files:
        return COLUMNS, {WHOLE: "whole"}
    relations = {title: "whole" for title in files if _form(title) == REL}
    if not relations:
        raise CorpusError(
            f"{name} has no file train.*, expected train.*, test.* and perhaps dev.* or valid.*, or brat's .txt and "
            ".ann, or .rel"
        )
    return REL, relations


def _column_files(files: Sequence[str], name: str) -> dict[str, str]:
    """Return the part of each column file; empty if no file is named after a part."""
    file_of: dict[str, str] = {}
    for file in files:
        part = _PARTS.get(file.lower()) or _PARTS.get(file.lower().split(".")[0])
        if part in file_of:
            raise CorpusError(f"{name} has two files for the {part} part, {file_of[part]} and {file}")
        if part:
            file_of[part] = file
    for part in ("train", "test") if file_of else ():
        if part not in file_of:
            raise CorpusError(f"{name} has no file {part}.*, expected train.*, test.* and perhaps dev.* or valid.*")
    return {file_of[part]: part for part in ("train", "validation", "test") if part in file_of}


def checksum(located: Located) -> str:
    """Return SHA-256 over the files' content and how they are read, in hexadecimal; their location does not matter."""
    whole = hashlib.sha256(f"reading {READING}\n".encode())
    if located.split is not None:
        whole.update(f"split {located.split}\n".encode())
    if located.declared is not None:
        whole.update("".join(f"{line}\n" for line in located.declared.lines).encode())
    for source in located.files:
        title = "" if source.form == COLUMNS else f" {source.title}"
        whole.update(f"{source.part} {source.section or '-'} {digest(source.path)}{title}\n".encode())
    return whole.hexdigest()


def digest(path: Path) -> str:
    """Return SHA-256 of a file in hexadecimal.

    The file is read again only when its size or modification time changes.

    Raises:
        CorpusError: If the file is too large or cannot be read.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}") from error
    return _digest(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=2 * MOST_FILES)
def _digest(path: Path, size: int, changed: int) -> str:
    return hashlib.sha256(content(path)).hexdigest()


def content(path: Path) -> bytes:
    """Return a file's content.

    Raises:
        CorpusError: If the file is too large or cannot be read.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > LARGEST_FILE:
        raise CorpusError(f"{path} has more than {LARGEST_FILE:,} bytes, the largest file that is read")
    return data
