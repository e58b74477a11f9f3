"""A character CNN with max-pooling over each word, computed once for each distinct spelling.

There are few characters, so their contributions to neighbours are precomputed: the embedding is folded into each tap of
the convolution, [characters, outputs]. The convolution at a position of a word is then a sum of such rows. tanh is
increasing, so max-pooling comes before it.

In the backward pass a value belongs to one position of its word, and so to one character for each tap. A sentence's
gradient is computed unit by unit from the embeddings of a few characters, that of the batch by two matrix products.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit, prange

from engine.taggers.layers import CharacterPool
from engine.training.batches import Batch
from engine.training.compiled.arithmetic import ARITHMETIC, PARTS, product, tanh

_BESIDE = 4
"""Sentences whose squared norms are summed at the same time: the number of sums in :func:`_squared_norms`."""


@dataclass
class CharacterTape:
    """Values of a forward pass that the backward pass needs.

    Attributes:
        weights: Flat weights.
        pooled: Output of each spelling, [V, O].
        where: Position in the word of each pooled value, int16 [V, O]; −1 in a word without characters.
        slopes: dL/d(convolution at that position), [N, O]; empty before the backward pass.
    """

    weights: np.ndarray
    pooled: np.ndarray
    where: np.ndarray
    slopes: np.ndarray


class CharacterLayer:
    """Character CNN, see :class:`engine.training.compiled.backend.Layer`.

    Its inputs are the characters of the distinct spellings, int32 [V, L].
    """

    def __init__(self, shape: CharacterPool) -> None:
        self.shape = shape
        self._taps = np.array([0, *(side for near in range(1, shape.reach + 1) for side in (-near, near))])
        """Offset of the character that each tap of the kernel reads."""

    def forward(
        self, weights: np.ndarray, inputs: np.ndarray, places: np.ndarray, batch: Batch
    ) -> tuple[np.ndarray, np.ndarray, CharacterTape]:
        """Return the outputs of characters [V, L] at places [N]: [N, O], or [V, O] without dropout."""
        embedding, kernels, bias = self._parts(weights)
        rows = np.stack([product(embedding, kernel) for kernel in kernels])
        values = np.zeros((len(inputs), self.shape.outputs), weights.dtype)
        where = np.full(values.shape, -1, np.int16)
        _pool(inputs, rows, bias, self._taps, values, where)
        tape = CharacterTape(weights, values, where, values[:0])
        return (values[places], batch.each, tape) if batch.drops else (values, places, tape)

    def learning(self, inputs: np.ndarray) -> np.ndarray:
        """Return True for each output: all depend on weights."""
        return np.ones(self.shape.outputs, bool)

    def backward(
        self, weights: np.ndarray, tape: CharacterTape, slope: np.ndarray, batch: Batch, wanted: np.ndarray
    ) -> None:
        """Store the derivatives of the convolution from dL/doutputs [N, O]; no layer is below."""
        tape.slopes = slope * ((1 - tape.pooled * tape.pooled) * (tape.where >= 0))[batch.spellings]

    def add_squared_norms(self, tape: CharacterTape, batch: Batch, squares: np.ndarray) -> None:
        """Add each sentence's squared gradient norm to ``squares`` [B]."""
        embedding, kernels, _ = self._parts(tape.weights)
        by_unit = np.ascontiguousarray(kernels.transpose(0, 2, 1))
        _squared_norms(
            batch.characters,
            batch.spellings,
            tape.where,
            tape.slopes,
            self._taps,
            embedding,
            by_unit,
            batch.offsets,
            batch.lengths,
            squares,
        )

    def weighted_gradient(self, tape: CharacterTape, factors: np.ndarray, batch: Batch, total: np.ndarray) -> None:
        """Write Σ_i factor_i · G_i to ``total``, flat like the weights."""
        embedding, kernels, _ = self._parts(tape.weights)
        of_embedding, of_kernels, of_bias = self._parts(total)
        slopes = tape.slopes * np.repeat(factors, batch.lengths)[:, None]
        of_bias[:] = slopes.sum(0)
        rows = np.zeros((len(kernels), self.shape.characters, self.shape.outputs), total.dtype)
        _scatter(batch.characters, batch.spellings, tape.where, slopes, self._taps, rows)
        of_embedding[:] = 0
        for row, kernel, of_kernel in zip(rows, kernels, of_kernels, strict=True):
            of_kernel[:] = product(embedding.T, row)
            of_embedding += product(row, kernel.T)

    def _parts(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return embedding [characters, size], kernel of each tap [taps, size, outputs] and bias [outputs]."""
        shape, taps = self.shape, len(self._taps)
        first = shape.characters * shape.size
        second = first + taps * shape.size * shape.outputs
        return (
            flat[:first].reshape(shape.characters, shape.size),
            flat[first:second].reshape(taps, shape.size, shape.outputs),
            flat[second:],
        )


@njit(cache=True, nogil=True, parallel=True, fastmath=ARITHMETIC)
def _pool(characters, rows, bias, taps, values, where):  # type: ignore[no-untyped-def]
    longest, units = characters.shape[1], bias.size
    for v in prange(characters.shape[0]):
        here = np.empty(units, rows.dtype)
        for place in range(longest):
            if characters[v, place] == 0:
                break
            here[:] = bias
            for tap in range(taps.size):
                at = place + taps[tap]
                if 0 <= at < longest and characters[v, at] > 0:
                    row = rows[tap, characters[v, at]]
                    for o in range(units):
                        here[o] += row[o]
            for o in range(units):
                if place == 0 or here[o] > values[v, o]:
                    values[v, o] = here[o]
                    where[v, o] = place
        for o in range(units):
            values[v, o] = tanh(values[v, o])  # 0 stays 0 where the word has no characters


@njit(cache=True, nogil=True, parallel=True, fastmath=ARITHMETIC)
def _squared_norms(  # type: ignore[no-untyped-def]
    characters, spellings, where, slopes, taps, embedding, by_unit, offsets, lengths, squares
):
    """Add each sentence's squared gradient norm to ``squares`` [B].

    ``embedding`` is [C, E]; ``by_unit`` [taps, O, E] is the kernel of each tap, unit by unit. Squares are added in a
    fixed order, since rounding affects the results of runs. Each addition depends on the one before, so four sentences
    are processed in parallel.
    """
    size, units = embedding.shape[1], slopes.shape[1]
    for part in prange(PARTS):
        tokens = lengths[part] if part < lengths.size else 0  # of the longest sentence of this part
        read = np.empty((_BESIDE, units, taps.size, tokens), np.uint16)  # by each tap of each unit at each token
        given = np.empty((_BESIDE, units, tokens), slopes.dtype)
        tables = np.empty((_BESIDE, *embedding.shape), embedding.dtype)  # dL/dembedding of each sentence
        kernel = np.empty(size, embedding.dtype)  # dL/dkernel of one tap of one unit
        biases, squared = np.empty(_BESIDE), np.empty((_BESIDE, taps.size * size))
        weight = np.zeros(embedding.shape[0], embedding.dtype)  # slopes of that unit at each character
        which, factors = np.empty(tokens, np.uint64), np.empty(tokens, embedding.dtype)  # the characters among them
        for start in range(part, lengths.size, _BESIDE * PARTS):
            number = min(_BESIDE, (lengths.size - start + PARTS - 1) // PARTS)
            tables[:], biases[:], squared[:] = 0, 0, 0
            for s in range(number):
                k = start + s * PARTS
                _read_of(characters, spellings, where, slopes, taps, offsets[k], lengths[k], read[s], given[s])
            one, two, three, four = 0.0, 0.0, 0.0, 0.0
            for o in range(units):
                for s in range(number):
                    length, values = lengths[start + s * PARTS], given[s, o]
                    bias = 0.0
                    for t in range(length):
                        bias += values[t]
                    biases[s] = bias * bias
                    for tap in range(taps.size):
                        row, there, table = by_unit[tap, o], read[s, o, tap], tables[s]
                        for t in range(length):
                            weight[there[t]] += values[t]
                        distinct = np.uint64(0)
                        for t in range(length):  # without a branch: which characters come twice no processor guesses
                            c = there[t]
                            which[distinct], factors[distinct] = c, weight[c]
                            distinct += np.uint64((c > 0) & (weight[c] != 0))
                            weight[c] = 0  # each character once
                        kernel[:] = 0
                        for j in range(distinct):
                            own, learned, factor = embedding[which[j]], table[which[j]], factors[j]
                            for i in range(size):
                                kernel[i] += factor * own[i]
                            for i in range(size):
                                learned[i] += factor * row[i]
                        result = squared[s, tap * size : (tap + 1) * size]
                        for i in range(size):
                            result[i] = kernel[i] * kernel[i]
                one += biases[0]
                two += biases[1]
                three += biases[2]
                four += biases[3]
                for i in range(squared.shape[1]):
                    one += squared[0, i]
                    two += squared[1, i]
                    three += squared[2, i]
                    four += squared[3, i]
            for c in range(embedding.shape[0]):
                for i in range(size):
                    one += tables[0, c, i] * tables[0, c, i]
                    two += tables[1, c, i] * tables[1, c, i]
                    three += tables[2, c, i] * tables[2, c, i]
                    four += tables[3, c, i] * tables[3, c, i]
            for s, total in enumerate((one, two, three, four)):
                if s < number:
                    squares[start + s * PARTS] += total


@njit(cache=True, nogil=True)
def _read_of(characters, spellings, where, slopes, taps, first, number, read, given):  # type: ignore[no-untyped-def]
    """Write a sentence's characters and slopes.

    ``read`` [O, taps, ≥ L] receives the character that each tap of each unit reads at each token, 0 for none. ``given``
    [O, ≥ L] receives the slopes of each unit.
    """
    longest = np.uint64(characters.shape[1])
    for t in range(number):
        word, places, line = characters[spellings[first + t]], where[spellings[first + t]], slopes[first + t]
        for o in range(line.size):
            given[o, t] = line[o]
            for tap in range(taps.size):
                at = np.uint64(places[o] + taps[tap])  # below 0 it is beyond the longest too
                read[o, tap, t] = word[at] if at < longest else 0


@njit(cache=True, nogil=True, parallel=True, fastmath=ARITHMETIC)
def _scatter(characters, spellings, where, slopes, taps, rows):  # type: ignore[no-untyped-def]
    """Add each slope to ``rows`` [taps, C, O] at the characters that its taps read."""
    longest, units = characters.shape[1], slopes.shape[1]
    for part in prange(PARTS):
        first, stop = part * units // PARTS, (part + 1) * units // PARTS
        for token in range(spellings.size):
            v = spellings[token]
            for o in range(first, stop):
                for tap in range(taps.size):
                    at = where[v, o] + taps[tap]
                    if 0 <= at < longest and characters[v, at] > 0:
                        rows[tap, characters[v, at], o] += slopes[token, o]
