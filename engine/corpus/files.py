"""Where the files of a corpus lie, and which part each is.

A named corpus is taken from the data folder (EPSILON_DATA_DIR), from the user's own folder of corpora, or from what
was fetched, in this order, and only if its files are exactly those that the name promises. Anything else is a path.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath

from engine.config import JOIN
from engine.corpus import brat, rel
from engine.corpus.catalogue import NAMED, NAMES, Entry
from engine.corpus.text_decoding import LARGEST_FILE
from engine.errors import CorpusError
from engine.settings import Settings

READING = 1
"""Raised when the same files would be read or split differently: it is part of every checksum."""
MOST_FILES = 5_000
"""Of one corpus that are read."""
COLUMNS, REL, BRAT = "columns", "rel", "brat"
"""Forms of files."""
OWN = "my-"
"""How the names of the user's own corpora begin."""
SPLIT = "@"
"""Between a corpus and the number of a split of all its sentences: ``ade@3``."""
_MOST_SPLITS = 2**32 - 1

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
"""What files in a folder are called, without their extension; the last three are CoNLL-2003's own names."""


@dataclass(frozen=True)
class Source:
    """A file of a corpus and the part it holds ("whole": to be split). title: what it is called in the corpus, with
    folders. form: of columns, or one of those whose names tell what is in them. section: its natural client."""

    path: Path
    part: str
    title: str
    form: str = COLUMNS
    section: str | None = None


@dataclass(frozen=True)
class Located:
    """A corpus that is here. where: as in CorpusInfo. split: number of the split of all its sentences, None where its
    files say what is in which part."""

    name: str
    where: str
    files: tuple[Source, ...]
    entry: Entry | None = None
    split: int | None = None


def base_name_and_split(name: str) -> tuple[str, int | None]:
    """A corpus's name, and the number of the split that stands behind it, if any: ``ade@3`` → ``ade``, 3."""
    base, mark, number = name.rpartition(SPLIT)
    known = mark and (base in NAMED or base.startswith(OWN)) and number.isascii() and number.isdigit()
    return (base, int(number)) if known and int(number) <= _MOST_SPLITS else (name, None)


def corpus_names(corpus: str) -> frozenset[str]:
    """Names of the corpora that a run trains on, each without its split: ``ade@3 + btc`` → ``ade``, ``btc``."""
    return frozenset(base_name_and_split(part)[0] for part in corpus.split(JOIN))


def locate(name_or_path: str, settings: Settings) -> Located:
    """The files of a name, with or without a split, or of a path. Raises CorpusError when they are not here or not what
    the name promises."""
    name, split = base_name_and_split(name_or_path)
    found = _locate(name, settings)
    return found if split is None else replace(found, name=name_or_path, split=split)


def _locate(name_or_path: str, settings: Settings) -> Located:
    if entry := NAMED.get(name_or_path):
        found = find_named(entry, settings)
        if found is None:
            raise CorpusError(_how_to_get(entry))
        for source, promised in zip(found.files, entry.files, strict=True):
            if digest(source.path) != promised.sha256:
                raise CorpusError(
                    f"{source.path} is not the file that the name {entry.name} promises: "
                    f"its SHA-256 is {digest(source.path)[:12]}…, expected {promised.sha256[:12]}…"
                )
        return found
    own = name_or_path.startswith(OWN) or settings.own is not None  # then no path is anybody's
    path = own_files(settings).get(name_or_path) if own else Path(name_or_path).expanduser()
    if path is None or not path.exists():
        raise CorpusError(
            f"corpus={name_or_path!r} is neither a known corpus ({', '.join(NAMES)}) nor a file or folder that exists"
        )
    return located_at(path, name_or_path if own else None)


def located_at(path: Path, name: str | None = None) -> Located:
    """The corpus of a file or a folder, by default called as it is. Raises CorpusError."""
    return Located(name or path.name, "your files", tuple(_sources(path)))


def find_named(entry: Entry, settings: Settings) -> Located | None:
    """The first place that has all files of a named corpus, by name and size."""
    places = [
        ("fetched", fetched_folder(entry.name, settings)),
        ("your files", settings.home / "corpora" / entry.folder),
    ]
    if settings.data_dir:
        places.append(("data folder", settings.data_dir / entry.folder))
    for where, folder in reversed(places):
        paths = [folder / file.name for file in entry.files]
        if all(_size(path) == file.size for path, file in zip(paths, entry.files, strict=True)):
            sources = (
                Source(path, file.part, file.name, _form(file.name), file.section)
                for path, file in zip(paths, entry.files, strict=True)
            )
            return Located(entry.name, where, tuple(sources), entry)
    return None


def fetched_folder(name: str, settings: Settings) -> Path:
    """Where the files of a fetched corpus go."""
    return settings.home / "fetched" / name


def unrestricted(settings: Settings) -> Settings:
    """The same with the corpora of everybody."""
    return replace(settings, own=None)


def own_files(settings: Settings) -> dict[str, Path]:
    """The user's own corpora by name: what was uploaded, and folders that were put beside it; only those that whoever
    these settings are for may use."""
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
        return f"corpus={entry.name!r} is not here yet: fetch it first (python -m engine fetch {entry.name})"
    return f"corpus={entry.name!r} is not here. {entry.note} Its place is the folder that EPSILON_DATA_DIR names."


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
    """The form of a folder's corpus, the files that make it, and the part that each holds: brat's, in folders called by
    their parts or else whole; column files called by their parts; or ``.rel`` files. Raises CorpusError, with ``name``,
    if there are none of these, or two of one part."""
    if any(PurePosixPath(title).suffix == brat.MENTIONS for title in titles):
        used = [title for pair in brat.pairs(titles) for title in pair]
        folders = {title: _PARTS.get(PurePosixPath(title).parts[0].lower()) for title in used}
        whole = not {"train", "test"} <= set(folders.values()) or None in folders.values()
        return BRAT, {title: "whole" if whole else part or "whole" for title, part in folders.items()}
    files = [title for title in titles if "/" not in title]
    if columns := _column_files(files, name):
        return COLUMNS, columns
    relations = {title: "whole" for title in files if _form(title) == REL}
    if not relations:
        raise CorpusError(
            f"{name} has no file train.*, expected train.*, test.* and perhaps dev.* or valid.*, or brat's .txt and "
            ".ann, or .rel"
        )
    return REL, relations


def _column_files(files: Sequence[str], name: str) -> dict[str, str]:
    """Empty where none is called by a part."""
    found: dict[str, str] = {}
    for file in files:
        part = _PARTS.get(file.lower()) or _PARTS.get(file.lower().split(".")[0])
        if part in found:
            raise CorpusError(f"{name} has two files for the {part} part, {found[part]} and {file}")
        if part:
            found[part] = file
    for part in ("train", "test") if found else ():
        if part not in found:
            raise CorpusError(f"{name} has no file {part}.*, expected train.*, test.* and perhaps dev.* or valid.*")
    return {found[part]: part for part in ("train", "validation", "test") if part in found}


def checksum(located: Located) -> str:
    """SHA-256 in hexadecimal over what the files hold and how they are read; where they lie does not matter."""
    whole = hashlib.sha256(f"reading {READING}\n".encode())
    if located.split is not None:
        whole.update(f"split {located.split}\n".encode())
    for source in located.files:
        called = "" if source.form == COLUMNS else f" {source.title}"
        whole.update(f"{source.part} {source.section or '-'} {digest(source.path)}{called}\n".encode())
    return whole.hexdigest()


def digest(path: Path) -> str:
    """SHA-256 of a file in hexadecimal; it is read again only when its size or time of change differ."""
    try:
        status = path.stat()
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}") from error
    return _digest(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=2 * MOST_FILES)
def _digest(path: Path, size: int, changed: int) -> str:
    return hashlib.sha256(content(path)).hexdigest()


def content(path: Path) -> bytes:
    """A file's content. Raises CorpusError when it is too large or cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > LARGEST_FILE:
        raise CorpusError(f"{path} has more than {LARGEST_FILE:,} bytes, the largest file that is read")
    return data
