"""What lessons on training work with: the paper's tagger at its first weights, and sentences of the embedded corpus.

Loading what was compiled takes some seconds, once for each process; after that a step takes milliseconds.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from engine.config import SYNTHETIC, SimulationConfig
from engine.settings import Settings

if TYPE_CHECKING:
    from engine.embeddings import EncodedSplit
    from engine.taggers import Tagger
    from engine.training.dpsgd import Backend

GRADIENT_LOCK = threading.Lock()
"""Who computes gradients in the dashboard's process: one at a time, since not every pool of threads can be shared."""


@dataclass(frozen=True, eq=False)
class LessonModel:
    """tagger, backend: as in a run. weights: the first ones, float32 [size]. split: its training sentences; known:
    sentences that an attacker has, of the validation part. table: word vectors, float32 [rows, 300]. words: of each
    sentence of ``split``."""

    tagger: "Tagger"
    backend: "Backend"
    weights: np.ndarray
    split: "EncodedSplit"
    known: "EncodedSplit"
    table: np.ndarray
    words: tuple[tuple[str, ...], ...]

    @cached_property
    def _distinct(self) -> tuple[np.ndarray, np.ndarray]:
        return np.unique(self.table, axis=0, return_inverse=True)

    @property
    def vocabulary(self) -> np.ndarray:
        """The distinct word vectors, float32 [V, 300]: many a word shares its vector with others."""
        return self._distinct[0]

    @property
    def place(self) -> np.ndarray:
        """Where the vector of each row of ``table`` stands in ``vocabulary``, int64 [rows]."""
        return self._distinct[1].reshape(-1)

    @cached_property
    def empty(self) -> np.ndarray:
        """Which of ``vocabulary`` is the zero vector, that of unknown words, bool [V]."""
        return np.asarray(~self.vocabulary.any(1))

    def vocabulary_mask(self, split: "EncodedSplit", sentences: np.ndarray) -> np.ndarray:
        """Which of ``vocabulary`` these sentences have, bool [V]; unknown words are left out."""
        found = np.zeros(len(self.vocabulary), dtype=bool)
        for sentence in sentences:
            found[self.place[split.rows[split.offsets[sentence] : split.offsets[sentence + 1]]]] = True
        return found & ~self.empty


def load(settings: Settings, tell: Callable[[str], None] = lambda stage: None) -> LessonModel:
    """The bench of this process. tell: is told what it waits for. Raises CorpusError, VectorsMissing, StoreError."""
    from engine import setup_status
    from engine.training import compile_cache

    setup_status.wait_for({setup_status.VECTORS, setup_status.TRAINING}, tell)
    if not compile_cache.is_fresh():
        from engine.training.compilation import compile_what_is_missing

        compile_what_is_missing(tell)
    with GRADIENT_LOCK:
        return _bench(settings)


@lru_cache(maxsize=1)
def _bench(settings: Settings) -> LessonModel:
    from engine import corpus, embeddings
    from engine.seeds import Seeds
    from engine.taggers import build
    from engine.training.backends import backend_of

    config, handle = SimulationConfig(), corpus.resolve(SYNTHETIC, settings)
    encoded = embeddings.encode(handle.parts[0], config.embeddings, config.features)
    tagger = build(config.tagger, encoded.vectors.shape[1], len(encoded.tags), encoded.copied)
    made = LessonModel(
        tagger=tagger,
        backend=backend_of(tagger, config.training.loss, "compiled"),
        weights=tagger.initial_weights(Seeds(config.seed).stream("initial weights")),
        split=encoded.train,
        known=encoded.validation,
        table=np.asarray(encoded.vectors),
        words=tuple(tuple(sentence.tokens) for sentence in handle.parts[0].load().train),
    )
    _ = made.vocabulary
    return made
