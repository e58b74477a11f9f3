"""Files → sentences: the embedded corpus, named public ones, and the user's own.

Light to import: what generates or downloads is imported when it is asked for.
"""

from collections.abc import Callable
from pathlib import Path

from engine.config import SYNTHETIC
from engine.corpus import files
from engine.corpus.catalogue import ENTRIES, NAMED, CorpusInfo, Entry
from engine.corpus.files import OWN, add_upload
from engine.corpus.sentences import Corpus, Sentence
from engine.settings import Settings

__all__ = [
    "Corpus",
    "CorpusInfo",
    "Sentence",
    "add_upload",
    "catalogue",
    "checksum",
    "fetch",
    "load",
    "train_sentences",
]


def load(name_or_path: str, settings: Settings) -> Corpus:
    """The corpus of a name, a file (split 80/10/10 by a fixed seed) or a folder. Raises CorpusError."""
    if name_or_path == SYNTHETIC:
        from engine.corpus import synthetic

        return synthetic.corpus()
    return files.read(files.locate(name_or_path, settings))


def checksum(name_or_path: str, settings: Settings) -> str:
    """``load(…).checksum`` without reading the sentences. Raises CorpusError."""
    if name_or_path == SYNTHETIC:
        from engine.corpus import synthetic

        return synthetic.CHECKSUM
    return files.checksum(files.locate(name_or_path, settings))


def train_sentences(name_or_path: str, settings: Settings) -> int:
    """How many training sentences the corpus has; known of named corpora that are not here too. Raises CorpusError."""
    if name_or_path == SYNTHETIC:
        from engine.corpus import synthetic

        return synthetic.SIZES["train"]
    entry = NAMED.get(name_or_path)
    return entry.train_sentences if entry else len(load(name_or_path, settings).train)


def fetch(name: str, settings: Settings, progress: Callable[[float], None] = lambda share: None) -> Path:
    """Download a named corpus: see :func:`engine.corpus.fetching.fetch`."""
    from engine.corpus import fetching

    return fetching.fetch(name, settings, progress)


def catalogue(settings: Settings) -> list[CorpusInfo]:
    """All corpora: the embedded one, the named ones, the user's own."""
    own = (_own(name, path) for name, path in files.own_files(settings).items())
    return [_embedded(), *(_named(entry, settings) for entry in ENTRIES), *own]


def _embedded() -> CorpusInfo:
    from engine.corpus import synthetic

    return CorpusInfo(
        name=SYNTHETIC,
        title=synthetic.TITLE,
        licence=synthetic.LICENCE,
        source="templates of this project, names by Faker",
        size=0,
        sentences=synthetic.SENTENCES,
        entity_types=synthetic.ENTITY_TYPES,
        synthetic=True,
        available=True,
        where="embedded",
        fetchable=False,
        note="Generated: always here, never anybody's data.",
    )


def _named(entry: Entry, settings: Settings) -> CorpusInfo:
    found = files.find_named(entry, settings)
    return CorpusInfo(
        name=entry.name,
        title=entry.title,
        licence=entry.licence,
        source=entry.source,
        size=entry.size,
        sentences=entry.sentences,
        entity_types=entry.entity_types,
        synthetic=False,
        available=found is not None,
        where=found.where if found else "not here",
        fetchable=entry.base is not None,
        note=entry.note,
    )


def _own(name: str, path: Path) -> CorpusInfo:
    inside = path.iterdir() if path.is_dir() else [path]
    return CorpusInfo(
        name=name,
        title=name.removeprefix(OWN),
        licence="your own",
        source="your files",
        size=sum(file.stat().st_size for file in inside if file.is_file()),
        sentences=None,
        entity_types=(),
        synthetic=False,
        available=True,
        where="your files",
        fetchable=False,
    )
