"""Overlap between a corpus and the sentences that public parts of the features, or initial weights, were fitted on.

A public part may be learned from public text, but not from the sentences that ε protects. What it learned from such a
sentence is in the features without noise, and a tagger tested on it has an advantage. The checksums of all fitted
sentences are therefore stored with each part (``public/fitted-on.npz``, made by ``python -m
benchmarks.train_public_adapter``). Each corpus is compared with them once. Light to import, for pages.

It cannot detect a sentence that was cut or reworded. Nor does it cover the texts on which MiniLM, spaCy's vectors and
its NER model (OntoNotes 5) were trained, which are not available.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from engine.config import FEATURE_SETS, SimulationConfig
from engine.config.feature_registry import FITTED_ON
from engine.config.head_registry import HEAD, HEADS
from engine.corpus import AnyCorpus
from engine.corpus.deduplication import LEAST_WORDS, checksum, checksums, words
from engine.corpus.files import corpus_names
from engine.corpus.handle import CorpusHandle
from engine.corpus.sentences import Corpus, Sentence
from engine.embeddings.features import PUBLIC
from engine.records import PrivacySpent

CHECKSUMS = PUBLIC / "fitted-on.npz"
_SPLITS = ("train", "validation", "test")
_COUNTS = ("sentences", "shared", "short")
_WITH_HEAD = f"+{HEAD}"
"""End of the name of features with which a run also starts from public weights."""
_FITTED_CORPUS = "wikigold"
"""Name of the corpus that all public parts were fitted on."""
_FORMAT = 1
"""Version of the comparison; increase it when sentences are compared differently."""


@dataclass(frozen=True)
class Overlap:
    """Number of a corpus's sentences that public parts were fitted on, each as (train, validation, test).

    Attributes:
        sentences: All sentences.
        shared: Those among the fitted sentences, of at least ``LEAST_WORDS`` words.
        short: Shorter ones among them, which may coincide by accident and do not count.
        with_head: Whether the initial weights of the run were fitted on these sentences too.
        unread: Whether this is known from the corpus's name alone, without its sentences.
    """

    sentences: tuple[int, int, int] = (0, 0, 0)
    shared: tuple[int, int, int] = (0, 0, 0)
    short: tuple[int, int, int] = (0, 0, 0)
    with_head: bool = False
    unread: bool = False

    def share(self, split: str) -> float:
        """Return the shared fraction of a split, from 0 to 1; short sentences count if longer ones are shared too."""
        place = _SPLITS.index(split)
        found = self.shared[place] + self.short[place] if self.shared[place] else 0
        return found / self.sentences[place] if self.sentences[place] else 0.0

    @property
    def breaks_privacy(self) -> bool:
        """Whether no ε holds: it protects each training sentence, so one shared sentence suffices."""
        return self.unread or self.shared[0] > 0

    @property
    def privacy_text(self) -> str:
        """The consequence for ε, as a sentence."""
        if self.unread:
            return (
                f"The corpus has training sentences of {FITTED_ON}, on which {self._parts} were fitted without noise: "
                "ε is ∞ with them, even if the run adds noise."
            )
        return (
            f"{self._counted('train')} training sentences ({self.share('train'):.1%}) are among those of {FITTED_ON} "
            f"that {self._parts} were fitted on without noise: ε is ∞ with them, even if the run adds noise."
        )

    def optimism_bias(self, split: str = "test") -> str:
        """Return the consequence for F1 on a split as a sentence, or "" without any."""
        if not self.shared[_SPLITS.index(split)]:
            return ""
        return (
            f"{self._counted(split)} {split} sentences ({self.share(split):.1%}) are among those of {FITTED_ON} that "
            f"{self._parts} were fitted on: F1 is higher than on new sentences."
        )

    @property
    def _parts(self) -> str:
        return "these features and initial weights" if self.with_head else "these features"

    def _counted(self, split: str) -> str:
        place = _SPLITS.index(split)
        return f"{self.shared[place] + self.short[place]:,} of {self.sentences[place]:,}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for readers of ε and F1, one sentence each."""
        return tuple(filter(None, (self.privacy_text if self.breaks_privacy else "", self.optimism_bias())))


NONE = Overlap()


def kind_of(config: SimulationConfig) -> str:
    """Return the name of the public parts of a run: its features, and the public weights from which it starts."""
    return f"{config.features}{_WITH_HEAD}" if config.tagger.pretrained else config.features


def _fitted(kind: str) -> tuple[str, ...]:
    """Return the names of all that was fitted on public sentences, of the parts that :func:`kind_of` names."""
    features = FEATURE_SETS[kind.removesuffix(_WITH_HEAD)].fitted
    return (*features, HEAD) if kind.endswith(_WITH_HEAD) else features


def overlap(corpus: AnyCorpus, kind: str) -> Overlap:
    """Return the overlap of a corpus, or of all clients' corpora, with the sentences that public parts were fitted on.

    It is computed once for each content and cached.

    Args:
        corpus: The corpus.
        kind: The public parts: a feature set, or the name from :func:`kind_of`.

    Raises:
        CorpusError: If a corpus is not available.
        StoreError: If the cache cannot be read or written.
    """
    if not _fitted(kind):
        return NONE
    each = [_of_one(part, kind) for part in corpus.parts]
    sums = ([sum(column) for column in zip(*rows, strict=True)] for rows in zip(*map(_counts, each), strict=True))
    return replace(_of_counts(sums), with_head=kind.endswith(_WITH_HEAD))


def _counts(overlap: Overlap) -> tuple[tuple[int, int, int], ...]:
    return overlap.sentences, overlap.shared, overlap.short


def _of_counts(counts: Iterable[Sequence[int]]) -> Overlap:
    sentences, shared, short = map(_three, counts)
    return Overlap(sentences, shared, short)


def _of_one(corpus: CorpusHandle, kind: str) -> Overlap:
    name = f"overlaps/{corpus.checksum[:16]}-{_digest(CHECKSUMS)[:8]}-{_FORMAT}.json"
    path = corpus.artefacts.get(name)
    try:
        if path:
            return _read(path)[kind]
    except (OSError, ValueError, KeyError, TypeError):
        _read.cache_clear()
    whole = corpus.load()
    kinds = [name for name, entry in FEATURE_SETS.items() if entry.fitted]
    kinds += dict.fromkeys(f"{head.features}{_WITH_HEAD}" for head in HEADS)
    overlaps = {
        name: dict(zip(_COUNTS, _counts(found), strict=True)) for name, found in of_corpus(whole, kinds).items()
    }
    with corpus.artefacts.write(name, "What the corpus shares") as made:
        made.write_text(json.dumps(overlaps), encoding="utf-8")
    return _read(corpus.artefacts.local_path(name))[kind]


def of_corpus(whole: Corpus, kinds: Iterable[str]) -> dict[str, Overlap]:
    """Compute the overlap of a loaded corpus with the fitted sentences of each of these kinds, see :func:`overlap`."""
    splits = [_with_checksums(getattr(whole, split)) for split in _SPLITS]
    overlaps = {}
    for kind in kinds:
        fitted = {int(value) for part in _fitted(kind) for value in fitted_on(part)}
        counted = [_counted(split, fitted) for split in splits]
        overlaps[kind] = Overlap(
            sentences=_three([len(split) for split in splits]),
            shared=_three([shared for shared, _ in counted]),
            short=_three([short for _, short in counted]),
        )
    return overlaps


def in_both(private: AnyCorpus, development: AnyCorpus) -> int:
    """Return how many training sentences of one corpus are in any part of another.

    Only sentences of at least ``LEAST_WORDS`` words count.

    Raises:
        CorpusError: If a corpus is not available.
    """
    if private.checksum == development.checksum:
        return private.train_sentences
    corpus = development.load()
    fitted = {int(value) for split in _SPLITS for value in checksums(s.tokens for s in getattr(corpus, split))}
    return _counted(_with_checksums(private.load().train), fitted)[0]


def _with_checksums(sentences: Iterable[Sentence]) -> list[tuple[int | None, tuple[str, ...]]]:
    return [(checksum(s.tokens), s.tokens) for s in sentences]


def _counted(sentences: Iterable[tuple[int | None, tuple[str, ...]]], known: set[int]) -> tuple[int, int]:
    """Return the number of sentences with a known checksum: with at least ``LEAST_WORDS`` words, and shorter."""
    found = [tokens for value, tokens in sentences if value in known]
    long = sum(words(tokens) >= LEAST_WORDS for tokens in found)
    return long, len(found) - long


def _three(numbers: Sequence[int]) -> tuple[int, int, int]:
    train, validation, test = numbers
    return train, validation, test


@lru_cache(maxsize=4)
def fitted_on(part: str) -> np.ndarray:
    """Return the checksums of the sentences that a part was fitted on, such as "adapter": uint64, ascending."""
    with np.load(CHECKSUMS, allow_pickle=False) as file:
        return np.asarray(file[part])


def rests_on_corpus(config: SimulationConfig, corpus_checksum: str | None = None) -> bool:
    """Return whether public parts of a run were fitted on its corpus, or on one of its corpora.

    No corpus need be available: their names count, and the checksum.

    Args:
        config: The configuration.
        corpus_checksum: Checksum of its corpus, if known.
    """
    named = _FITTED_CORPUS in corpus_names(config.corpus)
    return bool(_fitted(kind_of(config))) and (named or corpus_checksum in _corpora())


@lru_cache(maxsize=1)
def _corpora() -> frozenset[str]:
    with np.load(CHECKSUMS, allow_pickle=False) as file:
        return frozenset(file["corpora"].tolist())


def write_checksums(whole: Corpus, parts: Iterable[str]) -> None:
    """Store the checksums of all sentences of a corpus that parts were fitted on."""
    values = checksums(s.tokens for split in _SPLITS for s in getattr(whole, split))
    arrays = {"corpora": np.array([whole.checksum]), **dict.fromkeys(parts, values)}
    np.savez_compressed(CHECKSUMS, allow_pickle=False, **arrays)


def by_name(config: SimulationConfig) -> Overlap:
    """Return the overlap of a corpus that is not available, as far as its name shows one."""
    return Overlap(unread=True, with_head=config.tagger.pretrained) if rests_on_corpus(config) else NONE


def apply_contamination(privacy: PrivacySpent, found: Overlap) -> PrivacySpent:
    """Return the privacy guarantee: none where the features were fitted on training sentences."""
    promised = math.isfinite(privacy.epsilon) or privacy.assumptions  # without noise there is no guarantee to remove
    if not (found.breaks_privacy and promised):
        return privacy
    return PrivacySpent(epsilon=math.inf, delta=privacy.delta, assumptions=(found.privacy_text,))


@lru_cache(maxsize=4)
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@lru_cache(maxsize=64)
def _read(path: Path) -> dict[str, Overlap]:
    known = json.loads(path.read_text(encoding="utf-8"))
    return {
        kind: _of_counts([int(number) for number in values[name]] for name in _COUNTS) for kind, values in known.items()
    }
