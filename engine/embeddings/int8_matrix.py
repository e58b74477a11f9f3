"""Products with matrices of whole numbers of 7 bits, for the layers of a language model.

A row x is replaced by whole numbers of 8 bits, a column of the matrix by whole numbers of 7 bits, each with one scale.
Their products are summed exactly, so the result does not depend on the processor, nor on the other rows. Two changes
keep the rounding errors small, both determined on public text:

- Each input is divided by a factor, and the matrix's row is multiplied by it, so that neither has a much larger range
  than the others: √(largest input / largest weight) (Xiao et al. 2023, "SmoothQuant", equation 4, with α = 0.5).
- The few inputs with the largest range are multiplied in float32 (Dettmers et al. 2022, "LLM.int8()", section 3.2).
"""

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from engine.gemm import add_product, packed
from engine.instructions import LARGEST_SIGNED

EXACT = 8
"""Inputs that are multiplied in float32."""
_LARGEST_INPUT = 127
_OFFSET = 128
"""Added to the inputs, since their bytes are unsigned."""
_TO_WHOLE = 12_582_912.0
"""1.5 · 2²³. After it is added to a float32 of small magnitude, the nearest whole number remains, ties to even."""
_SMALLEST = 1e-6
"""Least range of an input or weight, so that none is divided by zero."""

Int8Matrix = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Panels of words of four bytes; then, of each output, the scale and the sum that the offset adds; then, of each input,
the factor, 0 if it is exact; then the exact inputs, and the panels of their weights in float32."""


def int8_matrix(weights: np.ndarray, ranges: np.ndarray) -> Int8Matrix:
    """Return a matrix as :func:`add_affine` reads it.

    Args:
        weights: float32 [inputs, outputs]; the number of inputs is a multiple of 4.
        ranges: Largest magnitude of each input on public text, [inputs].
    """
    ranges = np.maximum(ranges.astype(np.float32), np.float32(_SMALLEST))
    factors = np.sqrt(ranges / np.maximum(np.abs(weights).max(1), np.float32(_SMALLEST)))
    exact = np.sort(np.argsort(-ranges / factors, kind="stable")[:EXACT])
    scaled = weights * factors[:, None]
    scaled[exact] = 0
    steps = np.maximum(np.abs(scaled).max(0), np.float32(_SMALLEST)) / np.float32(LARGEST_SIGNED)
    whole = np.rint(scaled / steps).astype(np.int8)
    words = np.ascontiguousarray(whole.T).view(np.int32).T
    inverse = np.float32(1) / factors
    inverse[exact] = 0
    extra = _OFFSET * whole.sum(0, dtype=np.int32)
    return packed(words), steps, extra, inverse, exact, packed(np.ascontiguousarray(weights[exact]))


def add_affine(x: np.ndarray, matrix: Any, out: np.ndarray) -> None:
    """Add x · matrix to out [N, outputs], in compiled code.

    Args:
        x: float32 [N, inputs].
        matrix: Packed panels in float32, an :data:`Int8Matrix`, or panels with the ranges of the inputs, which are
            then updated.
        out: float32 [N, outputs].
    """
    raise NotImplementedError


@overload(add_affine)
def _add_affine(x, matrix, out):  # type: ignore[no-untyped-def]
    if isinstance(matrix, types.Array):
        return lambda x, matrix, out: add_product(x, matrix, out)
    if len(matrix) == len(("panels", "ranges")):
        return lambda x, matrix, out: _add_product_with_ranges(x, matrix[0], matrix[1], out)
    return lambda x, matrix, out: _add_int8_product(x, matrix, out)


@njit(nogil=True)
def _add_product_with_ranges(x, panels, ranges, out):  # type: ignore[no-untyped-def]
    """Add x · panels to out, and update the largest magnitude of each input."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            ranges[j] = max(ranges[j], np.abs(x[i, j]))
    add_product(x, panels, out)


@njit(cache=True, nogil=True)
def _add_int8_product(x, matrix, out):  # type: ignore[no-untyped-def]
    """Add x [N, inputs] · matrix to out [N, outputs]."""
    panels, steps, extra, inverse, exact, weights = matrix
    count, size = x.shape
    whole, scales = np.empty((count, size), np.uint8), np.empty(count, np.float32)
    beside = np.empty((count, exact.size), np.float32)
    for i in range(count):
        scales[i] = _round_row(x[i], inverse, whole[i])
        for j in range(exact.size):
            beside[i, j] = x[i, exact[j]]
    sums = np.zeros(out.shape, np.int32)
    add_product(whole.view(np.int32), panels, sums)
    for i in range(count):
        line, found, scale = out[i], sums[i], scales[i]
        for j in range(line.size):
            line[j] += np.float32(found[j] - extra[j]) * (scale * steps[j])
    add_product(beside, weights, out)


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"}, error_model="numpy")
def _round_row(line, inverse, whole):  # type: ignore[no-untyped-def]
    """Write the whole numbers of a row, with the offset, and return their scale.

    Products and sums are not fused, so the numbers are the same on any processor. The largest magnitude is found
    in vectors, for which the flags allow another order.
    """
    largest = np.float32(0)
    for j in range(line.size):
        here = np.abs(line[j] * inverse[j])
        largest = here if here > largest else largest
    largest = max(largest, np.float32(_SMALLEST))
    up = np.float32(_LARGEST_INPUT) / largest
    for j in range(line.size):
        nearest = line[j] * inverse[j] * up + np.float32(_TO_WHOLE) - np.float32(_TO_WHOLE)
        whole[j] = np.uint8(np.int32(nearest) + np.int32(_OFFSET))
    return largest / np.float32(_LARGEST_INPUT)
