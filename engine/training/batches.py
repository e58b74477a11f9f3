"""Sentences → padded arrays. Physical batching never changes what was sampled."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from engine.embeddings.encoded import EncodedSplit

MAX_CELLS = 1 << 21
"""Bound on sentences · longest² in one padded batch: the Gram matrices of the ghost norms then stay under 8 MB each."""


CACHED_TOKENS = 4096
"""Tokens whose hidden states stay in the processor's cache; larger batches took five times as long to predict."""


@dataclass(frozen=True)
class Batch:
    """Padded sentences. sentences: int [B], their numbers in the split. vectors: float32 [B, T, D], zero where padded.
    tags: int32 [B, T], 0 where padded. lengths: int32 [B]."""

    sentences: np.ndarray
    vectors: np.ndarray
    tags: np.ndarray
    lengths: np.ndarray

    def without(self, bad: np.ndarray) -> "Batch":
        """The batch less the sentences that ``bad`` (bool [B]) marks."""
        keep = ~bad
        return Batch(self.sentences[keep], self.vectors[keep], self.tags[keep], self.lengths[keep])


def padded(split: EncodedSplit, table: np.ndarray, sentences: np.ndarray) -> Batch:
    """The chosen sentences (int [B], any order, repeats allowed) of ``split``, padded to the longest of them."""
    lengths = split.lengths[sentences].astype(np.int32)
    longest = int(lengths.max(initial=1))
    column = np.arange(longest)
    real = column < lengths[:, None]
    position = np.where(real, split.offsets[sentences][:, None] + column, 0)
    vectors = np.where(real[..., None], table[split.rows[position]], np.float32(0))
    return Batch(sentences, vectors, np.where(real, split.tags[position], 0).astype(np.int32), lengths)


def physical_batches(split: EncodedSplit, table: np.ndarray, sentences: np.ndarray) -> Iterator[Batch]:
    """The chosen sentences sorted by length and cut so that no batch exceeds ``MAX_CELLS``; nothing if none."""
    return _cut(split, table, sentences, lambda number, longest: number * longest**2 <= MAX_CELLS)


def prediction_batches(split: EncodedSplit, table: np.ndarray) -> Iterator[Batch]:
    """All sentences sorted by length and cut so that no batch has more than ``CACHED_TOKENS``, padding included."""
    return _cut(split, table, np.arange(len(split)), lambda number, longest: number * longest <= CACHED_TOKENS)


def _cut(
    split: EncodedSplit, table: np.ndarray, sentences: np.ndarray, fits: Callable[[int, int], bool]
) -> Iterator[Batch]:
    order = sentences[np.argsort(split.lengths[sentences], kind="stable")]
    lengths = split.lengths[order]
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and fits(end + 1 - start, int(lengths[end])):
            end += 1
        yield padded(split, table, order[start:end])
        start = end
