"""Files → sentences: the embedded corpus, named public ones, and the user's own.

Light to import: what generates or downloads is imported when it is asked for.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine.config import JOIN, SYNTHETIC, SimulationConfig
from engine.corpus import files
from engine.corpus.catalogue import ENTRIES, CorpusInfo, Entry
from engine.corpus.files import OWN
from engine.corpus.handle import CorpusHandle
from engine.corpus.multi_corpus import JoinedCorpora
from engine.corpus.sentences import Corpus, Sentence
from engine.corpus.uploads import add_upload, delete, rename
from engine.errors import CorpusError
from engine.settings import Settings

__all__ = [
    "AnyCorpus",
    "Corpus",
    "CorpusHandle",
    "CorpusInfo",
    "JoinedCorpora",
    "Sentence",
    "add_upload",
    "catalogue",
    "checksums_of",
    "delete",
    "fetch",
    "of_run",
    "rename",
    "resolve",
]

AnyCorpus = CorpusHandle | JoinedCorpora


def resolve(name_or_path: str, settings: Settings, expected: str | None = None) -> AnyCorpus:
    """The corpus of a name or a path, as one handle; see :class:`CorpusHandle`. Several of them, joined: those of a
    federation's platforms, see :class:`JoinedCorpora`."""
    kind = JoinedCorpora if JOIN in name_or_path else CorpusHandle
    return kind(name_or_path, settings, expected)


def of_run(config: SimulationConfig, settings: Settings, expected: str | None = None) -> AnyCorpus:
    """What a configuration trains on. expected: the checksum that it must have."""
    if config.platforms:
        return JoinedCorpora(config.corpus, settings, expected, config.federation.masked)
    return CorpusHandle(config.corpus, settings, expected)


def checksums_of(name: str, config: SimulationConfig, settings: Settings) -> set[str]:
    """Checksums under which a run keeps what it works out from the sentences of the corpus ``name``, whatever split of
    it the run uses, and with whichever others: as far as all that such a checksum is of is here, whoever's it is.

    Of platforms with masked names these are the checksums of all: which names they are, each corpus decides.
    """
    every = files.unrestricted(settings)
    whole = of_run(config, every)
    splits = [CorpusHandle(part, every) for part in config.corpus.split(JOIN) if name in files.corpus_names(part)]
    found = set()
    for handle in (whole, *splits, *(whole.parts if config.federation.masked else ())):
        with suppress(CorpusError):
            found.add(handle.checksum)
    return found


def fetch(name: str, settings: Settings, progress: Callable[[float], None] = lambda share: None) -> Path:
    """Download a named corpus: see :func:`engine.corpus.download.fetch`."""
    from engine.corpus import download

    return download.fetch(name, settings, progress)


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
