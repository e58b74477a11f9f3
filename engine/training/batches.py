"""Sentences → arrays without padding. Physical batching never changes what was sampled."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from engine.embeddings.encoded import EncodedSplit, token_positions
from engine.training.gathering import rows_of

MAX_TOKENS = 8192
"""Bound on sentences · longest in one batch: what a step keeps of each token then stays under 64 MB,
and the Gram matrices of sentences of 1,000 tokens, in the reference back end, under 32 MB each."""
CACHED_TOKENS = 4096
"""The same for prediction, which keeps less: what it has stays in the processor's cache, five times as fast."""
WIDE_VALUES = 2**20
"""Bound on sentences · longest · features where each token has features of its own: more does not stay in the cache
between a layer's forward pass and its gradient."""


@dataclass(frozen=True)
class Batch:
    """Sentences one after another, the longest first.

    sentences: int [B], their numbers in the split. words: float32 [U, D], the distinct word vectors; places: int64 [N],
    which of them stands at each of the N tokens. Half of the words of 32 sentences of news are repeats, and 93 of 100
    of a whole corpus's: what depends on a word alone is computed once. tags: int32 [N]. lengths: int64 [B], descending.
    characters: int32 [U, L], of each of these words, 0 after its end, for taggers that read them.
    """

    sentences: np.ndarray
    words: np.ndarray
    places: np.ndarray
    tags: np.ndarray
    lengths: np.ndarray
    characters: np.ndarray | None = None

    @cached_property
    def spelt(self) -> np.ndarray:
        """The characters at each token, int32 [N, L]; L is 0 where there are none."""
        return np.zeros((len(self.places), 0), np.int32) if self.characters is None else self.characters[self.places]

    @cached_property
    def vectors(self) -> np.ndarray:
        """The word vector at each token, float32 [N, D]."""
        found: np.ndarray = self.words[self.places]
        return found

    @cached_property
    def each(self) -> np.ndarray:
        """0 … N − 1: the places in something that differs at each token."""
        return np.arange(len(self.tags))

    @cached_property
    def offsets(self) -> np.ndarray:
        """Where each sentence begins, int64 [B]."""
        found: np.ndarray = np.cumsum(self.lengths) - self.lengths
        return found

    @cached_property
    def live(self) -> np.ndarray:
        """How many sentences are longer than each time step, int64 [longest]: the first so many."""
        return len(self.lengths) - np.searchsorted(self.lengths[::-1], np.arange(self.lengths[0]), side="right")

    def where(self, keep: np.ndarray) -> "Batch":
        """The sentences that ``keep`` (bool [B]) marks."""
        tokens = np.repeat(keep, self.lengths)
        places, tags = self.places[tokens], self.tags[tokens]
        return Batch(self.sentences[keep], self.words, places, tags, self.lengths[keep], self.characters)

    def padded(self, tokens: np.ndarray) -> np.ndarray:
        """[N, …] → [B, longest, …], zero after the end of each sentence."""
        result = np.zeros((len(self.lengths), int(self.lengths[0]), *tokens.shape[1:]), tokens.dtype)
        result[np.arange(result.shape[1]) < self.lengths[:, None]] = tokens
        return result


def batch_of(split: EncodedSplit, table: np.ndarray, sentences: np.ndarray) -> Batch:
    """The chosen sentences (int [B], at least one, any order, repeats allowed) of ``split``."""
    order = sentences[np.argsort(-split.lengths[sentences], kind="stable")]
    tokens = token_positions(split, order)
    own = table.dtype == np.uint16  # a row for each token: no word comes twice
    rows, places, characters = split.rows[tokens], np.arange(len(tokens)), None
    if split.forms is not None and split.spelling is not None:
        forms = split.forms[tokens]
        if not own:  # two words that the vectors do not know have one row, but are spelt in two ways
            forms, first, places = np.unique(forms, return_index=True, return_inverse=True)
            rows = rows[first]
        characters = split.spelling[forms].astype(np.int32)
    elif not own:
        rows, places = np.unique(rows, return_inverse=True)
    tags = split.tags[tokens].astype(np.int32)
    return Batch(order, rows_of(table, rows), places, tags, split.lengths[order], characters)


def physical_batches(split: EncodedSplit, table: np.ndarray, sentences: np.ndarray) -> Iterator[Batch]:
    """The chosen sentences by length, cut at ``MAX_TOKENS``; nothing if none was chosen."""
    return _cut(split, table, sentences, MAX_TOKENS)


def prediction_batches(split: EncodedSplit, table: np.ndarray) -> Iterator[Batch]:
    """All sentences by length, cut at ``CACHED_TOKENS``."""
    return _cut(split, table, np.arange(len(split)), CACHED_TOKENS)


def _cut(split: EncodedSplit, table: np.ndarray, sentences: np.ndarray, tokens: int) -> Iterator[Batch]:
    if table.dtype == np.uint16:
        tokens = min(tokens, WIDE_VALUES // table.shape[1])
    order = sentences[np.argsort(split.lengths[sentences], kind="stable")]
    lengths = split.lengths[order].tolist()
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and (end + 1 - start) * lengths[end] <= tokens:
            end += 1
        yield batch_of(split, table, order[start:end])
        start = end
