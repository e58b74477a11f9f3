"""Batches of sentences as arrays without padding. Physical batching never changes the sample."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from engine.embeddings.encoding import EncodedSplit, token_positions
from engine.training.dropout import chances_of, draw_kept
from engine.training.row_lookup import rows_of

MAX_TOKENS = 8192
"""Largest number of sentences × tokens of the longest sentence in a physical batch.

The data that a step keeps of each token then stays under 64 MB. In the reference back end, the Gram matrices of
sentences of 1,000 tokens stay under 32 MB each.
"""
CACHED_TOKENS = 4096
"""The same limit for prediction, whose data stay in the processor's cache, which is five times as fast."""
WIDE_VALUES = 2**20
"""Largest number of sentences × longest sentence × features, where each token has its own features.

More values do not stay in the cache between a layer's forward pass and its gradient.
"""


@dataclass(frozen=True)
class Batch:
    """Concatenated sentences, the longest first.

    Half of the words in 32 sentences of news are repeats, and 93 of 100 words in a whole corpus. Values that depend on
    a word only are therefore computed once for each distinct word.

    Attributes:
        sentences: numbers of the sentences in the split, int [B].
        words: distinct word vectors, float32 [U, D].
        places: index into ``words`` of each of the N tokens, int64 [N].
        tags: tag indices, int32 [N].
        lengths: sentence lengths, descending, int64 [B].
        characters: characters of the distinct spellings, 0 after the end of a word, int32 [V, L]; empty if the tagger
            does not read characters.
        spellings: index into ``characters`` of each token, int64 [N]; empty likewise. Unknown words share one vector
            but have many spellings.
        chances: random state of dropout for each sentence (:meth:`kept`), uint64 [B]; None in prediction.
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
        """Whether dropout is active; gradients can also be computed without it."""
        return self.chances is not None

    @cached_property
    def spelt(self) -> np.ndarray:
        """The characters at each token, int32 [N, L]."""
        return self.characters[self.spellings] if len(self.characters) else np.zeros((len(self.tags), 0), np.int32)

    def kept(self, number: int, width: int, rate: float, dtype: Any = np.float32) -> np.ndarray:
        """Return the dropout factors of a part of the tagger; those of a sentence are the same in every batch.

        Args:
            number: index of the part.
            width: number of features.
            rate: probability of a factor 0; other factors are 1 ÷ (1 − rate), which keeps the mean (Srivastava et al.
                2014, section 10).
            dtype: type of the factors.

        Returns:
            Factors [N, width].
        """
        factors = np.ones((len(self.tags), width), dtype)
        if self.chances is not None and rate:
            draw_kept(self.chances + np.uint64(number), self.offsets, self.lengths, rate, factors)
        return factors

    @cached_property
    def vectors(self) -> np.ndarray:
        """The word vector at each token, float32 [N, D]."""
        vectors: np.ndarray = self.words[self.places]
        return vectors

    @cached_property
    def each(self) -> np.ndarray:
        """The indices 0 … N − 1, for values that differ at each token."""
        return np.arange(len(self.tags))

    @cached_property
    def offsets(self) -> np.ndarray:
        """The index of the first token of each sentence, int64 [B]."""
        offsets: np.ndarray = np.cumsum(self.lengths) - self.lengths
        return offsets

    @cached_property
    def live(self) -> np.ndarray:
        """The number of sentences longer than each time step, which are the first ones, int64 [longest]."""
        return len(self.lengths) - np.searchsorted(self.lengths[::-1], np.arange(self.lengths[0]), side="right")

    def where(self, keep: np.ndarray) -> "Batch":
        """Return the batch of the sentences marked by ``keep`` (bool [B])."""
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
        """Return values [N, …] padded as [B, longest, …], with zeros after the end of each sentence."""
        result = np.zeros((len(self.lengths), int(self.lengths[0]), *tokens.shape[1:]), tokens.dtype)
        result[np.arange(result.shape[1]) < self.lengths[:, None]] = tokens
        return result


def batch_of(split: EncodedSplit, table: np.ndarray, sentences: np.ndarray, chance: int | None = None) -> Batch:
    """Return a batch of sentences.

    Args:
        split: the sentences.
        table: features, float32 or uint16 [rows, D].
        sentences: numbers of the sentences, int [B], at least one, in any order, repeats allowed.
        chance: random state of dropout at the step, 64 bits; None without dropout.
    """
    order = sentences[np.argsort(-split.lengths[sentences], kind="stable")]
    tokens = token_positions(split, order)
    rows, places = split.rows[tokens], np.arange(len(tokens))
    if table.dtype != np.uint16:  # uint16 tables have a row for each token, so no row repeats
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
    """Yield the sentences by length in batches of at most ``MAX_TOKENS``; nothing without a sentence.

    Args:
        split: the sentences.
        table: features.
        sentences: numbers of the sentences.
        chance: as in :func:`batch_of`.
    """
    return _cut(split, table, sentences, _cached(table, MAX_TOKENS), chance)


def batches_of_few(
    split: EncodedSplit, table: np.ndarray, sentences: np.ndarray, chance: int | None = None
) -> Iterator[Batch]:
    """Yield batches of a few dozen sentences of mixed lengths.

    These have so few tokens that they stay in the cache together, although sentences × longest exceeds the limit for
    wide features.

    Args:
        split: the sentences.
        table: features.
        sentences: numbers of the sentences.
        chance: as in :func:`batch_of`.
    """
    return _cut(split, table, sentences, MAX_TOKENS, chance)


def prediction_batches(split: EncodedSplit, table: np.ndarray) -> Iterator[Batch]:
    """Yield all sentences by length in batches of at most ``CACHED_TOKENS``."""
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
