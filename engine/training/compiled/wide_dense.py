"""A dense layer from many inputs to few outputs, as in linear taggers on rich features.

Reading the inputs takes most of the time, so each input is read once for all outputs: a range of the gradient, outputs
by inputs, stays in the first-level cache during the loop over tokens. Sentences, or ranges of inputs, are split between
the cores.
"""

import numpy as np
from numba import njit, prange

from engine.gemm import add_product, packed
from engine.training.compiled.arithmetic import ARITHMETIC, PARTS, square_of_bias

LEAST_INPUTS, MOST_OUTPUTS = 512, 32
_STRETCH = 512
"""Inputs that are processed together: their gradient for up to 32 outputs fills the first-level cache."""
_ROWS = 16


@njit(cache=True, nogil=True, parallel=True, fastmath=ARITHMETIC)
def affine_wide(inputs, kernel, bias, out):  # type: ignore[no-untyped-def]
    """Compute out = inputs · kernel + bias, [N, I] · [I, O] + [O]."""
    panels = packed(kernel)
    for block in prange((inputs.shape[0] + _ROWS - 1) // _ROWS):
        first, stop = block * _ROWS, min(inputs.shape[0], (block + 1) * _ROWS)
        for row in range(first, stop):
            for j in range(out.shape[1]):
                out[row, j] = bias[j]
        add_product(inputs[first:stop], panels, out[first:stop])


@njit(cache=True, nogil=True, fastmath=ARITHMETIC)
def _gather(inputs, slopes, first, end, start, stop, gradient):  # type: ignore[no-untyped-def]
    """Add Σ_t slopes[t, o] · inputs[t, i] to gradient[o, i − start], over tokens first … end − 1, for inputs start …
    stop − 1.
    """
    width, t = stop - start, first
    while t + 4 <= end:  # four tokens at once: the gradient is read and written a fourth as often
        one, two = inputs[t, start:stop], inputs[t + 1, start:stop]
        three, four = inputs[t + 2, start:stop], inputs[t + 3, start:stop]
        for o in range(slopes.shape[1]):
            p, q, r, s = slopes[t, o], slopes[t + 1, o], slopes[t + 2, o], slopes[t + 3, o]
            target = gradient[o]
            for i in range(width):
                target[i] += p * one[i] + q * two[i] + r * three[i] + s * four[i]
        t += 4
    for rest in range(t, end):
        row = inputs[rest, start:stop]
        for o in range(slopes.shape[1]):
            slope, target = slopes[rest, o], gradient[o]
            for i in range(width):
                target[i] += slope * row[i]


@njit(cache=True, nogil=True, parallel=True, fastmath=ARITHMETIC)
def squared_norms_wide(inputs, slopes, offsets, lengths, squares):  # type: ignore[no-untyped-def]
    """Add each sentence's squared gradient norm, including the bias, to squares [B]."""
    size, outputs = inputs.shape[1], slopes.shape[1]
    for part in prange(PARTS):  # each with long sentences and short ones
        gradient = np.empty((outputs, _STRETCH), inputs.dtype)
        for k in range(part, lengths.size, PARTS):
            first, end = offsets[k], offsets[k] + lengths[k]
            total = square_of_bias(slopes[first:end])
            for start in range(0, size, _STRETCH):
                stop = min(size, start + _STRETCH)
                gradient[:] = 0
                _gather(inputs, slopes, first, end, start, stop, gradient)
                for o in range(outputs):
                    for i in range(stop - start):
                        total += gradient[o, i] * gradient[o, i]
            squares[k] += total


@njit(cache=True, nogil=True, parallel=True, fastmath=ARITHMETIC)
def weighted_gradient_wide(inputs, slopes, factors, offsets, lengths, kernel, bias):  # type: ignore[no-untyped-def]
    """Write Σ_i factor_i · G_i to kernel [I, O] and bias [O]; overwrites the slopes."""
    size, outputs = inputs.shape[1], slopes.shape[1]
    bias[:] = 0
    for k in range(lengths.size):
        for row in range(offsets[k], offsets[k] + lengths[k]):
            for j in range(outputs):
                slopes[row, j] *= factors[k]
                bias[j] += slopes[row, j]
    for block in prange((size + _STRETCH - 1) // _STRETCH):
        start = block * _STRETCH
        stop = min(size, start + _STRETCH)
        gradient = np.zeros((outputs, _STRETCH), inputs.dtype)
        _gather(inputs, slopes, 0, inputs.shape[0], start, stop, gradient)
        for i in range(stop - start):
            for o in range(outputs):
                kernel[start + i, o] = gradient[o, i]
