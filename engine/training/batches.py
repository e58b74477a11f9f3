"""Sentences → arrays without padding. Physical batching never changes what was sampled."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from engine.embeddings.encoding import EncodedSplit, token_positions
from engine.training.dropout import chances_of, draw_kept
from engine.training.row_lookup import rows_of

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

    characters: int32 [V, L], of the distinct spellings, 0 after a word's end; spellings: int64 [N], which of them
    stands at each token; both are empty where no part of the tagger reads them. Words that the vectors do not know have
    one vector and many spellings. chances: uint64 [B], from which is drawn what dropout leaves out of each sentence
    (:meth:`kept`); None in prediction, where it leaves out nothing.
    """

    sentences: np.ndarray
    words: np.ndarray
    places: np.ndarray
    tags: np.ndarray
    lengths: np.ndarray
    characters: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.int32))
    spellings: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    chances: np.ndarray | None = None

    @property
    def drops(self) -> bool:
        """Whether dropout draws what it leaves out; a gradient may be asked for without, too."""
        return self.chances is not None

    @cached_property
    def spelt(self) -> np.ndarray:
        """The characters at each token, int32 [N, L]."""
        return self.characters[self.spellings] if len(self.characters) else np.zeros((len(self.tags), 0), np.int32)

    def kept(self, number: int, width: int, rate: float, dtype: Any = np.float32) -> np.ndarray:
        """What dropout in part ``number`` of a tagger multiplies [N, width] with: 0 with chance ``rate``, else what
        keeps the mean (Srivastava et al. 2014, section 10). Equal for a sentence in whatever batch it stands."""
        found = np.ones((len(self.tags), width), dtype)
        if self.chances is not None and rate:
            draw_kept(self.chances + np.uint64(number), self.offsets, self.lengths, rate, found)
        return found

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
        return replace(
            self,
            sentences=self.sentences[keep],
            places=self.places[tokens],
            tags=self.tags[tokens],
            lengths=self.lengths[keep],
            spellings=self.spellings[tokens] if len(self.spellings) else self.spellings,
            chances=None if self.chances is None else self.chances[keep],
        )

    def padded(self, tokens: np.ndarray) -> np.ndarray:
        """[N, …] → [B, longest, …], zero after the end of each sentence."""
        result = np.zeros((len(self.lengths), int(self.lengths[0]), *tokens.shape[1:]), tokens.dtype)
        result[np.arange(result.shape[1]) < self.lengths[:, None]] = tokens
        return result


def batch_of(split: EncodedSplit, table: np.ndarray, sentences: np.ndarray, chance: int | None = None) -> Batch:
    """The chosen sentences (int [B], at least one, any order, repeats allowed) of ``split``. chance: of the step, from
    64 bits, for what dropout draws; None where it leaves out nothing."""
    order = sentences[np.argsort(-split.lengths[sentences], kind="stable")]
    tokens = token_positions(split, order)
    rows, places = split.rows[tokens], np.arange(len(tokens))
    if table.dtype != np.uint16:  # else a row for each token: no word comes twice
        rows, places = np.unique(rows, return_inverse=True)
    spelt = {}
    if split.forms is not None and split.spelling is not None:
        forms, spellings = np.unique(split.forms[tokens], return_inverse=True)
        spelt = {"characters": split.spelling[forms].astype(np.int32), "spellings": spellings}
    return Batch(
        sentences=order,
        words=rows_of(table, rows),
        places=places,
        tags=split.tags[tokens].astype(np.int32),
        lengths=split.lengths[order],
        **spelt,
        chances=None if chance is None else chances_of(chance, order),
    )


def physical_batches(
    split: EncodedSplit, table: np.ndarray, sentences: np.ndarray, chance: int | None = None
) -> Iterator[Batch]:
    """The chosen sentences by length, cut at ``MAX_TOKENS``; nothing if none was chosen. chance: as in a batch."""
    return _cut(split, table, sentences, _cached(table, MAX_TOKENS), chance)


def batches_of_few(
    split: EncodedSplit, table: np.ndarray, sentences: np.ndarray, chance: int | None = None
) -> Iterator[Batch]:
    """The same for a few dozen sentences, long ones among short ones: these have so few tokens that they stay in the
    cache together, though sentences · longest is above the bound for wide features."""
    return _cut(split, table, sentences, MAX_TOKENS, chance)


def prediction_batches(split: EncodedSplit, table: np.ndarray) -> Iterator[Batch]:
    """All sentences by length, cut at ``CACHED_TOKENS``."""
    return _cut(split, table, np.arange(len(split)), _cached(table, CACHED_TOKENS), None)


def _cached(table: np.ndarray, tokens: int) -> int:
    return min(tokens, WIDE_VALUES // table.shape[1]) if table.dtype == np.uint16 else tokens


def _cut(
    split: EncodedSplit, table: np.ndarray, sentences: np.ndarray, tokens: int, chance: int | None
) -> Iterator[Batch]:
    order = sentences[np.argsort(split.lengths[sentences], kind="stable")]
    lengths = split.lengths[order].tolist()
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and (end + 1 - start) * lengths[end] <= tokens:
            end += 1
        yield batch_of(split, table, order[start:end], chance)
        start = end
