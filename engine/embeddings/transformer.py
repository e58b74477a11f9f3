"""Forward pass of the encoders of language models, compiled: BERT (Devlin et al. 2019) and MPNet (Song et al. 2020).

Both are stacks of the same layer (Vaswani et al. 2017, section 3), with a normalisation after each sum. MPNet adds to
the attention a bias by the distance of two pieces, and has no token types. Sentences follow each other without padding.
All sums of a row are computed in the same order whatever the other rows are, so a sentence's vectors do not depend on
its batch to the last digit.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from engine.embeddings.custom_model import LANES, Shape
from engine.embeddings.int8_matrix import add_affine, int8_matrix
from engine.embeddings.word_pieces import Pieces, batches
from engine.gemm import ROWS, add_product, packed
from engine.hardware import processor

CASE_VECTORS = "embeddings.case_embeddings.weight"
DISTANCE_BIAS = "encoder.relative_attention_bias.weight"
_FUSED = {"contract"}
"""Fast-math flags: a product and a sum may be rounded together, but sums keep their order."""
_FEW = 16
"""Tiles of rows that are processed at a time by the inner layer, whose values then stay in the second-level cache."""
_BATCH_PIECES = 512
"""Pieces that one thread processes at a time, at least one sentence: their attention stays in the cache."""


class Encoder:
    """An encoder with some weights, up to the last layer that is used.

    If the weights include spelling vectors, each piece also gets its word's spelling class, since pieces are in lower
    case.

    Args:
        values: Weights by name, as in BERT's files; matrices are [outputs, inputs].
        shape: Sizes.
        layers: Layers that are used, ascending; 0 for the embeddings.
        matrix: Returns a matrix as :func:`engine.embeddings.int8_matrix.add_affine` reads it, from its name and its
            weights, float32 [inputs, outputs]. The name of query, key and value together ends in ``attention.self``.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        shape: Shape,
        layers: Sequence[int],
        matrix: Callable[[str, np.ndarray], Any] = lambda name, weights: packed(weights),
    ) -> None:
        self.layers, self.size = tuple(layers), shape.size
        self._shape = shape
        self._values = {name: values[name] for name in values if name.startswith("embeddings.")}
        self._stack = [_layer_weights(values, f"encoder.layer.{number}.", matrix) for number in range(max(layers))]
        places = len(values["embeddings.position_embeddings.weight"]) - shape.first_position
        self._bias = distance_bias(values.get(DISTANCE_BIAS), shape.heads, places)

    def vectors(self, pieces: Sequence[Pieces], cases: np.ndarray) -> np.ndarray:
        """Return the used layers' vectors of some sentences: float32 [pieces of all, layers, size].

        Args:
            pieces: The sentences in word pieces.
            cases: Spelling class of each word, int32 [words].
        """
        shape, values = self._shape, self._values
        ids = np.concatenate([each.ids for each in pieces])
        lengths = np.array([len(each.ids) for each in pieces])
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(len(ids)) - np.repeat(offsets[:-1], lengths) + shape.first_position
        here = (
            values["embeddings.word_embeddings.weight"][ids] + values["embeddings.position_embeddings.weight"][places]
        )
        if shape.kind == "bert":
            here += values["embeddings.token_type_embeddings.weight"][0]
        if CASE_VECTORS in values:
            words = np.concatenate([each.words for each in pieces])
            here += values[CASE_VECTORS][np.where(words >= 0, cases[np.maximum(words, 0)], 0)]
        scale, shift = (values[f"embeddings.LayerNorm.{name}"] for name in ("weight", "bias"))
        _normalise(here, scale, shift, shape.epsilon)
        found = np.empty((len(ids), len(self.layers), shape.size), np.float32)
        for number in range(max(self.layers) + 1):
            if number:
                _layer(here, offsets, shape.heads, self._bias, shape.epsilon, *self._stack[number - 1])
            if number in self.layers:
                found[:, self.layers.index(number)] = here
        return found


def token_vectors(
    encoder: Encoder,
    pieces: Sequence[Pieces],
    cases: np.ndarray,
    progress: Callable[[float], None] = lambda share: None,
) -> np.ndarray:
    """Return the encoder's layers at each word: float32 [words, layers, size].

    A word's vector is the mean over its word pieces; zero for a word without pieces. Each core processes a batch.

    Args:
        encoder: The encoder.
        pieces: All sentences in word pieces.
        cases: Spelling class of each word, int32 [words].
        progress: Called with the share of pieces done, 0 to 1; it may raise to stop.
    """
    total = np.zeros((len(cases), len(encoder.layers), encoder.size), np.float32)
    count = np.zeros(len(cases), np.float32)
    done, every = 0, sum(len(each.ids) for each in pieces)

    def read(batch: Sequence[Pieces]) -> np.ndarray:
        return encoder.vectors(batch, cases)

    with ThreadPoolExecutor(processor().cores) as cores:
        chosen = list(batches(pieces, _BATCH_PIECES))
        try:
            for batch, found in zip(chosen, cores.map(read, chosen), strict=True):
                words = np.concatenate([each.words for each in batch])
                inside = words >= 0
                places = words[inside]
                starts = np.flatnonzero(np.diff(places, prepend=-1))  # the pieces of a word are adjacent
                if len(starts):
                    np.add.at(total, places[starts], np.add.reduceat(found[inside], starts))
                    np.add.at(count, places, 1)
                done += len(words)
                progress(done / every)
        except BaseException:
            cores.shutdown(cancel_futures=True)
            raise
    total /= np.maximum(count, 1)[:, None, None]
    return total


def distance_bias(table: np.ndarray | None, heads: int, places: int) -> np.ndarray:
    """Return what the attention of two pieces gets by their distance: float32 [heads, 2 · places − 1].

    The middle column is for a piece itself, those after it for later pieces. MPNet reads a row of its table: one for
    each distance below 8, and then for each factor of √2 up to 128 (Raffel et al. 2020, section 2.1), apart for both
    directions. The comparison is in whole numbers, since a logarithm may be rounded below a border.

    Args:
        table: MPNet's table, [32, heads], or None for zeros.
        heads: Attention heads.
        places: Largest number of pieces of a sentence.
    """
    if table is None:
        return np.zeros((heads, 2 * places - 1), np.float32)
    half = len(table) // 2
    exact = half // 2
    rows = []
    for distance in range(places):
        row = distance
        if distance >= exact:
            row = exact + sum(distance**exact >= exact**exact * 16**step for step in range(1, half - exact))
        rows.append(row)
    later = half + np.array(rows[1:], int)  # the table's second half is for later pieces
    return np.ascontiguousarray(table[np.concatenate([rows[::-1], later])].T, np.float32)


def _layer_weights(
    values: Mapping[str, Any], name: str, matrix: Callable[[str, np.ndarray], Any]
) -> tuple[tuple[Any, ...], ...]:
    """Return the weights of a layer as :func:`_layer` reads them."""
    kinds = [f"{name}attention.self.{kind}" for kind in ("query", "key", "value")]
    matrices = {f"{name}attention.self": np.concatenate([values[f"{kind}.weight"] for kind in kinds])}
    biases = [np.concatenate([values[f"{kind}.bias"] for kind in kinds])]
    for part in ("attention.output.dense", "intermediate.dense", "output.dense"):
        matrices[f"{name}{part}"] = values[f"{name}{part}.weight"]
        biases.append(values[f"{name}{part}.bias"])
    normal = [
        values[f"{name}{part}LayerNorm.{each}"]
        for part in ("attention.output.", "output.")
        for each in ("weight", "bias")
    ]
    read = [matrix(key, np.ascontiguousarray(weights).T) for key, weights in matrices.items()]
    return tuple(read), tuple(map(np.ascontiguousarray, biases)), tuple(map(np.ascontiguousarray, normal))


def compile_encoder() -> None:
    """Compile a layer with each kind of matrix, with the functions that it calls."""
    size, inner = 32, 64
    shapes = ((3 * size, size), (size, size), (inner, size), (size, inner))
    weights = [np.zeros(shape, np.float32).T for shape in shapes]
    biases, normal = tuple(np.zeros(rows, np.float32) for rows, _ in shapes), (np.zeros(size, np.float32),) * 4
    bias = distance_bias(None, 2, 3)
    for matrices in (map(packed, weights), (int8_matrix(each, np.ones(len(each))) for each in weights)):
        rows = np.zeros((3, size), np.float32)
        _layer(rows, np.array([0, 3]), 2, bias, 1e-12, tuple(matrices), biases, normal)


@njit(cache=True, nogil=True, fastmath=_FUSED, error_model="numpy")
def _layer(x, offsets, heads, near, epsilon, matrices, biases, normal):  # type: ignore[no-untyped-def]
    """Replace x [N, size] by the output of a layer.

    Args:
        x: Inputs of all pieces, one sentence after another.
        offsets: First piece of each sentence, and the end.
        heads: Attention heads.
        near: Bias of the attention by distance, [heads, 2 · places − 1].
        epsilon: Added to the variance in layer normalisation.
        matrices: Those of query, key and value together, of the attention's output, of the inner layer, and of its
            output.
        biases: Bias of each.
        normal: Scale and shift after the attention, then after the inner layer.
    """
    reading, mixing, widening, narrowing = matrices
    b1, b2, b3, b4 = biases
    g1, c1, g2, c2 = normal
    count, some = x.shape[0], _FEW * ROWS
    read, mixed = _filled(b1, count), np.empty_like(x)
    for first in range(0, count, some):
        add_affine(x[first : first + some], reading, read[first : first + some])
    for k in range(offsets.size - 1):
        _attend(read[offsets[k] : offsets[k + 1]], heads, near, mixed[offsets[k] : offsets[k + 1]])
    for first in range(0, count, some):
        part = x[first : first + some]
        outer = _filled(b2, part.shape[0])
        add_affine(mixed[first : first + some], mixing, outer)
        _add(part, outer)
        _normalise(part, g1, c1, epsilon)
        inner = _filled(b3, part.shape[0])
        add_affine(part, widening, inner)
        for i in range(inner.shape[0]):
            line = inner[i]
            for j in range(line.size):
                line[j] = _gelu(line[j])
        outer = _filled(b4, part.shape[0])
        add_affine(inner, narrowing, outer)
        _add(part, outer)
        _normalise(part, g2, c2, epsilon)


@njit(cache=True, nogil=True)
def _filled(bias, count):  # type: ignore[no-untyped-def]
    """Return ``count`` rows that are all ``bias``."""
    rows = np.empty((count, bias.size), bias.dtype)
    for i in range(count):
        for j in range(bias.size):
            rows[i, j] = bias[j]
    return rows


@njit(cache=True, nogil=True)
def _add(x, more):  # type: ignore[no-untyped-def]
    """Add ``more`` to x.

    A product is not added to x directly: x has a few large values, and each of its hundreds of sums would be rounded.
    """
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] += more[i, j]


@njit(cache=True, nogil=True, fastmath=_FUSED, error_model="numpy")
def _attend(read, heads, near, mixed):  # type: ignore[no-untyped-def]
    """Write to mixed [T, size] the attention of a sentence from queries, keys and values, read [T, 3 · size]."""
    count, size = mixed.shape
    wide, middle = size // heads, near.shape[1] // 2
    scale = np.float32(1 / math.sqrt(wide))
    query, key, value = np.empty((3, count, wide), read.dtype)
    scores, found = np.empty((count, count), read.dtype), np.empty((count, wide), read.dtype)
    for head in range(heads):
        own = head * wide
        for t in range(count):
            for j in range(wide):
                query[t, j] = read[t, own + j] * scale
                key[t, j] = read[t, size + own + j]
                value[t, j] = read[t, 2 * size + own + j]
                found[t, j] = 0
            for s in range(count):
                scores[t, s] = near[head, middle - t + s]
        add_product(query, packed(key.T), scores)
        for t in range(count):
            line = scores[t]
            top, mass = line[0], np.float32(0)
            for s in range(count):
                top = line[s] if line[s] > top else top
            for s in range(count):
                line[s] = _exp(line[s] - top)
            for s in range(count):
                mass += line[s]
            mass = np.float32(1) / mass
            for s in range(count):
                line[s] *= mass
        add_product(scores, packed(value), found)
        for t in range(count):
            for j in range(wide):
                mixed[t, own + j] = found[t, j]


@njit(cache=True, nogil=True, fastmath=_FUSED, error_model="numpy")
def _normalise(x, scale, shift, epsilon):  # type: ignore[no-untyped-def]
    """Replace each row of x [N, size] by its normalisation (Ba et al. 2016); the size is a multiple of ``LANES``.

    There are as many partial sums, on any processor.
    """
    size = x.shape[1]
    lanes = np.empty(LANES, x.dtype)
    for i in range(x.shape[0]):
        line = x[i]
        lanes[:] = 0
        for j in range(0, size, LANES):
            for lane in range(LANES):
                lanes[lane] += line[j + lane]
        mean = lanes.sum() / np.float32(size)
        lanes[:] = 0
        for j in range(0, size, LANES):
            for lane in range(LANES):
                away = line[j + lane] - mean
                lanes[lane] += away * away
        factor = np.float32(1 / math.sqrt(lanes.sum() / np.float32(size) + epsilon))
        for j in range(size):
            line[j] = (line[j] - mean) * factor * scale[j] + shift[j]


@intrinsic
def _from_bits(typing_context: Any, bits: Any) -> Any:
    """Return the float32 with these bits, an int32."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), codegen


@njit(cache=True, fastmath=_FUSED)
def _exp(x):  # type: ignore[no-untyped-def]
    """Return exp(x) of x ≤ 0 in float32 within 2e-7 of it, without a call, so that loops over it vectorise.

    It is the polynomial of Cephes (expf.c) on ±½ log 2, times a power of two; 0 counts as exp(−87).
    """
    x = np.float32(-87) if x < np.float32(-87) else x
    power = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    x = x - power * np.float32(0.693359375)
    x = x + power * np.float32(2.12194440e-4)
    y = np.float32(1.9875691500e-4)
    y = y * x + np.float32(1.3981999507e-3)
    y = y * x + np.float32(8.3334519073e-3)
    y = y * x + np.float32(4.1665795894e-2)
    y = y * x + np.float32(1.6666665459e-1)
    y = y * x + np.float32(5.0000001201e-1)
    y = y * x * x + x + np.float32(1)
    return y * _from_bits((np.int32(power) + np.int32(127)) * np.int32(1 << 23))  # type: ignore[call-arg]


@njit(cache=True, fastmath=_FUSED, error_model="numpy")
def _gelu(x):  # type: ignore[no-untyped-def]
    """Return x · Φ(x) (Hendrycks and Gimpel 2016) in float32, without a call, so that loops over it vectorise.

    The error function is the rational function of degree 13 over 8 that Eigen uses (MathFunctionsImpl.h), cut at ±4; it
    is within 4e-7.
    """
    y = x * np.float32(0.70710678)
    y = np.float32(4) if y > np.float32(4) else y
    y = np.float32(-4) if y < np.float32(-4) else y
    s = y * y
    up = np.float32(-2.72614225801306e-10)
    up = up * s + np.float32(2.77068142495902e-08)
    up = up * s + np.float32(-2.10102402082508e-06)
    up = up * s + np.float32(-5.69250639462346e-05)
    up = up * s + np.float32(-7.34990630326855e-04)
    up = up * s + np.float32(-2.95459980854025e-03)
    up = up * s + np.float32(-1.60960333262415e-02)
    down = np.float32(-1.45660718464996e-05)
    down = down * s + np.float32(-2.13374055278905e-04)
    down = down * s + np.float32(-1.68282697438203e-03)
    down = down * s + np.float32(-7.37332916720468e-03)
    down = down * s + np.float32(-1.42647390514189e-02)
    return np.float32(0.5) * x * (np.float32(1) + y * up / down)
