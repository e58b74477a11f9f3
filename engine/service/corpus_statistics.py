"""What a corpus holds, part by part, and what of it others hold too."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from engine import corpus as corpora
from engine.corpus.sentences import Corpus, Sentence
from engine.embeddings import contamination
from engine.settings import Settings

PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class Part:
    """sentences, tokens: how many. names: how many of each type."""

    sentences: int
    tokens: int
    names: Mapping[str, int]


@dataclass(frozen=True)
class CorpusStatistics:
    """parts: train, validation, test. left_out: mentions without tags, by reason. shared: how many of its sentences, of
    ``apart.LEAST_WORDS`` words at least, stand in each of the other corpora that are here; those with none are left
    out. repeated: how many of its test sentences stand in its training part too."""

    parts: Mapping[str, Part]
    left_out: Mapping[str, int]
    shared: Mapping[str, int]
    repeated: int


def compute_statistics(name: str, settings: Settings) -> CorpusStatistics:
    """Read a corpus and all others that are here. Raises CorpusError."""
    whole = corpora.resolve(name, settings).load()
    long = [
        each
        for part in _parts(whole).values()
        for each in part
        if contamination.words(each.tokens) >= contamination.LEAST_WORDS
    ]
    own = [contamination.checksum(each.tokens) for each in long]
    shared = {}
    for info in corpora.catalogue(settings):
        if info.available and info.name != name:
            other = _parts(corpora.resolve(info.name, settings).load())
            there = {contamination.checksum(each.tokens) for part in other.values() for each in part}
            shared[info.name] = sum(each in there for each in own)
    trained = {contamination.checksum(each.tokens) for each in whole.train}
    tested = [each for each in whole.test if contamination.words(each.tokens) >= contamination.LEAST_WORDS]
    return CorpusStatistics(
        parts={part: _counted(sentences) for part, sentences in _parts(whole).items()},
        left_out=whole.left_out,
        shared={other: number for other, number in shared.items() if number},
        repeated=sum(contamination.checksum(each.tokens) in trained for each in tested),
    )


def _parts(whole: Corpus) -> dict[str, tuple[Sentence, ...]]:
    return {part: getattr(whole, part) for part in PARTS}


def _counted(sentences: tuple[Sentence, ...]) -> Part:
    names = Counter(tag[2:] for each in sentences for tag in each.tags if tag.startswith("B-"))
    return Part(len(sentences), sum(len(each.tokens) for each in sentences), dict(sorted(names.items())))
