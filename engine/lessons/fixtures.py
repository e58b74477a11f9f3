"""The model and data of the lessons on training: the paper's tagger at its initial weights, and the built-in corpus.

Loading the compiled code takes some seconds once in each process; after that, a step takes milliseconds.
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
"""Lock for computing gradients in the dashboard's process: some thread pools cannot be shared between threads."""


@dataclass(frozen=True, eq=False)
class LessonModel:
    """The paper's tagger with the sentences of the built-in corpus.

    Attributes:
        tagger: The tagger, as in a run.
        backend: Its back end, as in a run.
        weights: Initial weights, float32 [size].
        split: The training sentences.
        known: The attacker's own sentences: the validation set.
        table: Word vectors, float32 [rows, 300].
        words: Words of each training sentence.
    """

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
        """Distinct word vectors, float32 [V, 300]; several words can share one vector."""
        return self._distinct[0]

    @property
    def place(self) -> np.ndarray:
        """Index in ``vocabulary`` of each row of ``table``, int64 [rows]."""
        return self._distinct[1].reshape(-1)

    @cached_property
    def empty(self) -> np.ndarray:
        """Mask of the zero vector of unknown words in ``vocabulary``, bool [V]."""
        return np.asarray(~self.vocabulary.any(1))

    def vocabulary_mask(self, split: "EncodedSplit", sentences: np.ndarray) -> np.ndarray:
        """Return the mask of ``vocabulary`` that these sentences contain, without unknown words, bool [V]."""
        mask = np.zeros(len(self.vocabulary), dtype=bool)
        for sentence in sentences:
            mask[self.place[split.rows[split.offsets[sentence] : split.offsets[sentence + 1]]]] = True
        return np.asarray(mask & ~self.empty)


def load(settings: Settings, on_progress: Callable[[str], None] = lambda stage: None) -> LessonModel:
    """Return the model of this process.

    Args:
        settings: Folders of this machine.
        on_progress: Called with the current activity, in words.

    Raises:
        CorpusError: If the corpus cannot be read.
        VectorsMissing: If the word vectors are not installed.
        StoreError: If files of the store cannot be read.
    """
    from engine import setup_status
    from engine.training import compile_cache

    setup_status.wait_for({setup_status.VECTORS, setup_status.TRAINING}, on_progress)
    if not compile_cache.is_fresh():
        from engine.training.compilation import compile_what_is_missing

        compile_what_is_missing(on_progress)
    with GRADIENT_LOCK:
        return _model(settings)


@lru_cache(maxsize=1)
def _model(settings: Settings) -> LessonModel:
    from engine import corpus, embeddings
    from engine.seeds import Seeds
    from engine.taggers import build
    from engine.training.backends import backend_of

    config, handle = SimulationConfig(), corpus.resolve(SYNTHETIC, settings)
    encoded = embeddings.encode(handle.parts[0], config.embeddings, config.features)
    tagger = build(config.tagger, encoded.vectors.shape[1], len(encoded.tags), encoded.copied)
    model = LessonModel(
        tagger=tagger,
        backend=backend_of(tagger, config.training.loss, "compiled"),
        weights=tagger.initial_weights(Seeds(config.seed).stream("initial weights")),
        split=encoded.train,
        known=encoded.validation,
        table=np.asarray(encoded.vectors),
        words=tuple(tuple(sentence.tokens) for sentence in handle.parts[0].load().train),
    )
    _ = model.vocabulary
    return model
