"""Corpora as sentences: the embedded one, named public ones, and your own files.

Light to import: modules that generate or download are imported on demand.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from engine.config import JOIN, OWN, SYNTHETIC, SimulationConfig
from engine.corpus import files
from engine.corpus.catalogue import ENTRIES, CorpusInfo, Entry
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
    "declared_types",
    "delete",
    "fetch",
    "of_run",
    "rename",
    "resolve",
]

AnyCorpus = CorpusHandle | JoinedCorpora


def resolve(name_or_path: str, settings: Settings, expected: str | None = None) -> AnyCorpus:
    """Return the corpus with this name or path as one handle.

    Args:
        name_or_path: Name or path of a corpus, see :class:`CorpusHandle`; several joined by ``JOIN`` are the corpora of
            a federation's clients, see :class:`JoinedCorpora`.
        settings: Folders in which corpora are searched.
        expected: Checksum that the corpus must have, or None for any.
    """
    kind = JoinedCorpora if JOIN in name_or_path else CorpusHandle
    return kind(name_or_path, settings, expected)


def of_run(config: SimulationConfig, settings: Settings, expected: str | None = None) -> AnyCorpus:
    """Return the corpus that a configuration trains on.

    Args:
        config: The configuration.
        settings: Folders in which corpora are searched.
        expected: Checksum that the corpus must have, or None for any.
    """
    if config.platforms:
        name, masked, deduplicated = variant(config)
        return JoinedCorpora(name, settings, expected, masked, deduplicated)
    return CorpusHandle(config.corpus, settings, expected)


def variant(config: SimulationConfig) -> tuple[str, float, bool]:
    """Return all that determines the training sentences of a configuration's corpora.

    Returns:
        The corpus, the share of masked entities, and whether sentences are excluded that another silo has.
    """
    return config.corpus, config.federation.masked, not config.privacy.protects_clients


def checksums_of(name: str, config: SimulationConfig, settings: Settings) -> set[str]:
    """Return the checksums under which runs cache what they derive from the sentences of the corpus ``name``.

    They cover each of its splits that the run uses, and each combination with other corpora. A checksum is included
    only if all of its files are available, for any owner. For clients with masked entities the result includes the
    checksums of all clients: the masked entities depend on every corpus.

    Args:
        name: Name of a corpus.
        config: Configuration of a run that trains on it.
        settings: Folders in which corpora are searched.
    """
    all_settings = files.unrestricted(settings)
    run_corpus = of_run(config, all_settings)
    splits = [
        CorpusHandle(part, all_settings) for part in config.corpus.split(JOIN) if name in files.corpus_names(part)
    ]
    checksums = set()
    for handle in (run_corpus, *splits, *(run_corpus.parts if config.federation.masked else ())):
        with suppress(CorpusError):
            checksums.add(handle.checksum)
    return checksums


def fetch(name: str, settings: Settings, progress: Callable[[float], None] = lambda share: None) -> Path:
    """Download a named corpus and return its folder; see :func:`engine.corpus.download.fetch`."""
    from engine.corpus import download

    return download.fetch(name, settings, progress)


def catalogue(settings: Settings) -> list[CorpusInfo]:
    """Return all corpora: the embedded one, the named ones, and your own."""
    own = (_own(name, path) for name, path in files.own_files(settings).items())
    return [_embedded(), *(_named(entry, settings) for entry in ENTRIES), *own]


def declared_types(name: str, infos: Iterable[CorpusInfo]) -> set[str]:
    """Return the entity types that are public: those of the catalogue, and declared ones of your own corpora.

    Args:
        name: Name of a corpus, or of several joined ones, with a split or without.
        infos: The catalogue.
    """
    names = files.corpus_names(name)
    return {entity_type for info in infos if info.name in names for entity_type in info.entity_types}


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
        note="Generated: always available, contains no personal data.",
    )


def _named(entry: Entry, settings: Settings) -> CorpusInfo:
    located = files.find_named(entry, settings)
    return CorpusInfo(
        name=entry.name,
        title=entry.title,
        licence=entry.licence,
        source=entry.source,
        size=entry.size,
        sentences=entry.sentences,
        entity_types=entry.entity_types,
        synthetic=False,
        available=located is not None,
        where=located.where if located else "not here",
        fetchable=entry.base is not None,
        note=entry.note,
    )


def _own(name: str, path: Path) -> CorpusInfo:
    inside = path.iterdir() if path.is_dir() else [path]
    declared = None
    with suppress(CorpusError):
        declared = files.declaration(path)
    return CorpusInfo(
        name=name,
        title=name.removeprefix(OWN),
        licence="your own",
        source="your files",
        size=sum(file.stat().st_size for file in inside if file.is_file()),
        sentences=None,
        entity_types=declared.types if declared else (),
        synthetic=False,
        available=True,
        where="your files",
        fetchable=False,
    )
