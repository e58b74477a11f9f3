"""Where the files of a corpus lie, which part each is, and how they become one Corpus.

A named corpus is taken from the data folder (EPSILON_DATA_DIR), from the user's own folder of corpora, or from what
was fetched, in this order, and only if its files are exactly those that the name promises. Anything else is a path.
"""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine.corpus import conll
from engine.corpus.catalogue import NAMED, NAMES, Entry
from engine.corpus.sentences import Corpus, Sentence
from engine.errors import CorpusError, StoreError
from engine.seeds import Seeds
from engine.settings import Settings

READING = 1
"""Raised when the same files would be read or split differently: it is part of every checksum."""
SMALLEST = 10
"""Fewest sentences that can be split in three."""
OWN = "my-"
"""How the names of the user's own corpora begin."""

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
    """A file of a corpus and the part it holds ("whole": to be split); section: its natural client."""

    path: Path
    part: str
    section: str | None = None


@dataclass(frozen=True)
class Located:
    """A corpus that is here. where: as in CorpusInfo."""

    name: str
    where: str
    files: tuple[Source, ...]
    entry: Entry | None = None


def locate(name_or_path: str, settings: Settings) -> Located:
    """The files of a name or a path. Raises CorpusError when they are not here or not what the name promises."""
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
    own = name_or_path.startswith(OWN)
    path = own_files(settings).get(name_or_path) if own else Path(name_or_path).expanduser()
    if path is None or not path.exists():
        raise CorpusError(
            f"corpus={name_or_path!r} is neither a known corpus ({', '.join(NAMES)}) nor a file or folder that exists"
        )
    return Located(name_or_path if own else path.name, "your files", tuple(_sources(path)))


def find_named(entry: Entry, settings: Settings) -> Located | None:
    """The first place that has all files of a named corpus, by name and size."""
    places = [("fetched", fetched_folder(entry.name, settings)), ("your files", settings.home / "corpora" / entry.name)]
    if settings.data_dir:
        places.append(("data folder", settings.data_dir / entry.name))
    for where, folder in reversed(places):
        paths = [folder / file.name for file in entry.files]
        if all(_size(path) == file.size for path, file in zip(paths, entry.files, strict=True)):
            sources = (Source(path, file.part, file.section) for path, file in zip(paths, entry.files, strict=True))
            return Located(entry.name, where, tuple(sources), entry)
    return None


def fetched_folder(name: str, settings: Settings) -> Path:
    """Where the files of a fetched corpus go."""
    return settings.home / "fetched" / name


def own_files(settings: Settings) -> dict[str, Path]:
    """The user's own corpora by name: what was uploaded, and folders that were put beside it."""
    try:
        paths = sorted((settings.home / "corpora").iterdir())
    except OSError:
        return {}
    return {
        path.stem if path.is_file() else path.name: path
        for path in paths
        if path.name.startswith(OWN) and not path.is_symlink()
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
        yield Source(path, "whole")
        return
    if not path.is_dir():
        raise CorpusError(f"{path} is neither a file nor a folder")
    parts: dict[str, Path] = {}
    for file in sorted(path.iterdir()):
        name = file.name.lower()
        part = _PARTS.get(name) or _PARTS.get(name.split(".")[0])
        if part is None or not file.is_file():
            continue
        if part in parts:
            raise CorpusError(f"{path} has two files for the {part} part, {parts[part].name} and {file.name}")
        parts[part] = file
    for part in ("train", "test"):
        if part not in parts:
            raise CorpusError(f"{path} has no file {part}.*, expected train.*, test.* and perhaps dev.* or valid.*")
    yield from (Source(parts[part], part) for part in ("train", "validation", "test") if part in parts)


def checksum(located: Located) -> str:
    """SHA-256 in hexadecimal over what the files hold and how they are read; where they lie does not matter."""
    whole = hashlib.sha256(f"reading {READING}\n".encode())
    for source in located.files:
        whole.update(f"{source.part} {source.section or '-'} {digest(source.path)}\n".encode())
    return whole.hexdigest()


def digest(path: Path) -> str:
    """SHA-256 of a file in hexadecimal; it is read again only when its size or time of change differ."""
    try:
        status = path.stat()
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}") from error
    return _digest(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def _digest(path: Path, size: int, changed: int) -> str:
    return hashlib.sha256(content(path)).hexdigest()


def content(path: Path) -> bytes:
    """A file's content. Raises CorpusError when it is too large or cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(conll.MAX_BYTES + 1)
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > conll.MAX_BYTES:
        raise CorpusError(f"{path} has more than {conll.MAX_BYTES:,} bytes, the largest file that is read")
    return data


def read(located: Located) -> Corpus:
    """The corpus with its three parts; the last ones read are kept. Raises CorpusError with the file and the line."""
    return _read(located, checksum(located))


@lru_cache(maxsize=2)
def _read(located: Located, content_checksum: str) -> Corpus:
    parts: dict[str, list[Sentence]] = {"train": [], "validation": [], "test": []}
    sections: list[str] = []
    for source in located.files:
        sentences = conll.read(content(source.path), source.path.name)
        split = split_in_three(sentences, source.path.name) if source.part == "whole" else {source.part: sentences}
        for part, some in split.items():
            parts[part] += some
        sections += [source.section or ""] * len(split.get("train", ()))
    if not parts["validation"]:
        train = located.files[0].path.name
        parts["train"], parts["validation"] = hold_out(parts["train"], train)
    entry = located.entry
    types = {tag[2:] for some in parts.values() for sentence in some for tag in sentence.tags if tag != "O"}
    return Corpus(
        name=located.name,
        title=entry.title if entry else located.name,
        licence=entry.licence if entry else "your own",
        synthetic=False,
        train=tuple(parts["train"]),
        validation=tuple(parts["validation"]),
        test=tuple(parts["test"]),
        entity_types=tuple(sorted(types)),
        checksum=content_checksum,
        sections=tuple(sections) if any(sections) else None,
    )


def split_in_three(sentences: tuple[Sentence, ...], name: str) -> dict[str, list[Sentence]]:
    """80 % train, 10 % validation, 10 % test, drawn with a fixed seed; each part keeps the order of the file."""
    _enough(len(sentences), name)
    order = Seeds(0).stream("corpus split").permutation(len(sentences))
    tenth = max(1, round(0.1 * len(sentences)))
    cuts = {"test": order[:tenth], "validation": order[tenth : 2 * tenth], "train": order[2 * tenth :]}
    return {part: [sentences[i] for i in sorted(cuts[part])] for part in ("train", "validation", "test")}


def hold_out(train: list[Sentence], name: str) -> tuple[list[Sentence], list[Sentence]]:
    """Training sentences without a tenth of them, and that tenth, drawn with a fixed seed."""
    _enough(len(train), name)
    held = set(Seeds(0).stream("corpus split").permutation(len(train))[: max(1, round(0.1 * len(train)))].tolist())
    return [s for i, s in enumerate(train) if i not in held], [s for i, s in enumerate(train) if i in held]


def _enough(sentences: int, name: str) -> None:
    if sentences < SMALLEST:
        raise CorpusError(f"{name} has {sentences} sentences, expected at least {SMALLEST} to split")


def add_upload(filename: str, data: bytes, settings: Settings, check: Callable[[Path, str], None] | None = None) -> str:
    """Keep a column file among the user's own corpora, whole or not at all, and return its name there.

    The same content under the same file name keeps its name; other content gets a number. check: reads the file before
    it is kept, and is told what it is called in messages; by default it is read here. Raises CorpusError when it cannot
    be read as a corpus, StoreError when it cannot be written.
    """
    shown = Path(filename.replace("\\", "/")).name or "upload"
    if len(data) > conll.MAX_BYTES:
        raise CorpusError(f"{shown} has more than {conll.MAX_BYTES:,} bytes, the largest file that is read")
    folder, slug = settings.home / "corpora", _slug(Path(shown).stem)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".upload-") as passing:
            whole = Path(passing) / f"{slug}.conll"
            whole.write_bytes(data)
            (check or _checked)(whole, shown)
            for number in range(1, 10_000):
                name = f"{OWN}{slug}" + (f"-{number}" if number > 1 else "")
                path = folder / f"{name}.conll"
                try:
                    os.link(whole, path)  # fails if the name is taken, so nothing is ever written over
                except FileExistsError:
                    if path.read_bytes() != data:
                        continue
                return name
    except OSError as error:
        raise StoreError(f"{shown} cannot be kept in {folder}: {error.strerror}") from error
    raise StoreError(f"{shown} cannot be kept in {folder}: too many corpora have this name")


def _checked(path: Path, shown: str) -> None:
    split_in_three(conll.read(content(path), shown), shown)


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40] or "corpus"


def rename(name: str, title: str, settings: Settings) -> str:
    """Give one of the user's own corpora another name, made from ``title``; returns it. Raises CorpusError,
    StoreError."""
    path, new = _own_file(name, settings), f"{OWN}{_slug(title)}"
    target = path.with_name(f"{new}{path.suffix}" if path.is_file() else new)
    if new in own_files(settings):
        raise CorpusError(f"name={title!r}, expected one that no corpus has: {new.removeprefix(OWN)} is there")
    try:
        path.rename(target)
    except OSError as error:
        raise StoreError(f"{name} cannot be renamed: {error.strerror}") from error
    return new


def delete(name: str, settings: Settings) -> None:
    """Remove one of the user's own corpora. Raises CorpusError, StoreError."""
    path = _own_file(name, settings)
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        raise StoreError(f"{name} cannot be deleted: {error.strerror}") from error


def _own_file(name: str, settings: Settings) -> Path:
    path = own_files(settings).get(name)
    if path is None:
        raise CorpusError(f"corpus={name!r} is none of your own corpora")
    return path
