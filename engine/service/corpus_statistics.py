"""Statistics of a corpus by part, and its overlap with other corpora."""

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
    """Statistics of one part of a corpus.

    Attributes:
        sentences: Number of sentences.
        tokens: Number of tokens.
        names: Number of entities by type.
    """

    sentences: int
    tokens: int
    names: Mapping[str, int]


@dataclass(frozen=True)
class CorpusStatistics:
    """Statistics of a corpus. Overlaps count sentences of at least ``contamination.LEAST_WORDS`` words.

    Attributes:
        parts: Statistics by part: train, validation, test.
        left_out: Number of mentions without tags, by reason.
        shared: Number of its sentences that are also in another available corpus, by corpus; zeros are omitted.
        repeated: Number of its test sentences that are also in its training set.
    """

    parts: Mapping[str, Part]
    left_out: Mapping[str, int]
    shared: Mapping[str, int]
    repeated: int


def compute_statistics(name: str, settings: Settings) -> CorpusStatistics:
    """Read a corpus and all other available corpora.

    Raises:
        CorpusError: If a corpus cannot be read.
    """
    whole = corpora.resolve(name, settings).load()
    long = [
        sentence
        for part in _parts(whole).values()
        for sentence in part
        if contamination.words(sentence.tokens) >= contamination.LEAST_WORDS
    ]
    own = [contamination.checksum(sentence.tokens) for sentence in long]
    shared = {}
    for info in corpora.catalogue(settings):
        if info.available and info.name != name:
            other = _parts(corpora.resolve(info.name, settings).load())
            checksums = {contamination.checksum(sentence.tokens) for part in other.values() for sentence in part}
            shared[info.name] = sum(checksum in checksums for checksum in own)
    trained = {contamination.checksum(sentence.tokens) for sentence in whole.train}
    tested = [sentence for sentence in whole.test if contamination.words(sentence.tokens) >= contamination.LEAST_WORDS]
    return CorpusStatistics(
        parts={part: _counted(sentences) for part, sentences in _parts(whole).items()},
        left_out=whole.left_out,
        shared={other: number for other, number in shared.items() if number},
        repeated=sum(contamination.checksum(sentence.tokens) in trained for sentence in tested),
    )


def _parts(whole: Corpus) -> dict[str, tuple[Sentence, ...]]:
    return {part: getattr(whole, part) for part in PARTS}


def _counted(sentences: tuple[Sentence, ...]) -> Part:
    names = Counter(tag[2:] for sentence in sentences for tag in sentence.tags if tag.startswith("B-"))
    return Part(len(sentences), sum(len(sentence.tokens) for sentence in sentences), dict(sorted(names.items())))
