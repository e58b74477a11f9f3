"""The noise check's sums over a stretch of weights, in compiled code: one pass at each step."""

import numpy as np
from numba import njit

BINS, REACH = 64, 4.0
"""Bins of equal width from −REACH to REACH; one more on either side has what lies beyond."""


EACH = 4
"""Every so many values are counted in a bin."""


_ARITHMETIC = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, fastmath=_ARITHMETIC)
def measure(noise, slack, sums, std, start, layers, squares, slacks, bins):  # type: ignore[no-untyped-def]
    """One stretch of weights, from ``start`` on, seen once: noise, slack (how far rounding may have moved it) and sums
    (what it was added to), float64 [k or more] each; std: planned standard deviation, in units of which all else is
    counted. layers: int64 [L, 2], where each begins and ends.

    Squares are added to ``squares`` and ``slacks``, float64 [size], and values that are numbers counted in ``bins``,
    int64 [L, BINS + 2]. Returns Σ noise², Σ slack², Σ noise · sums, Σ sums², over the layers.
    """
    total = far = dot = length = 0.0
    scale, end = 1 / std, start + noise.size
    for layer in range(layers.shape[0]):
        low, high = max(layers[layer, 0], start), min(layers[layer, 1], end)
        for i in range(low - start, high - start):
            value, error = noise[i] * scale, slack[i] * scale
            squares[start + i] += value * value
            slacks[start + i] += error * error
            total += value * value
            far += error * error
            dot += value * sums[i]
            length += sums[i] * sums[i]
        for i in range(low - start, high - start, EACH):
            place = (noise[i] * scale + REACH) * (BINS / (2 * REACH))
            if place < 0:
                bins[layer, 0] += 1
            elif place < BINS:
                bins[layer, 1 + np.int64(place)] += 1
            elif place == place:
                bins[layer, BINS + 1] += 1
    return total, far, dot, length


@njit(cache=True, nogil=True)
def picked(array, start, stop, fixed):  # type: ignore[no-untyped-def]
    """A copy of ``array``, float [size], at a stretch and then at some places, int [m]: [stop − start + m]."""
    found = np.empty(stop - start + fixed.size, dtype=array.dtype)
    found[: stop - start] = array[start:stop]
    for j in range(fixed.size):
        found[stop - start + j] = array[fixed[j]]
    return found


@njit(cache=True, nogil=True)
def count(times, first, places):  # type: ignore[no-untyped-def]
    """One more in ``times``, int64 [n], at each of ``places`` (int64, counted from ``first``), as often as it comes."""
    for place in places:
        times[first + place] += 1


@njit(cache=True, nogil=True)
def to_noise(gradient, error, clipped, size):  # type: ignore[no-untyped-def]
    """The gradient that was applied, float64 [k], becomes in place the noise of a sum over ``size`` sentences whose
    clipped sum [k] is known; ``error`` follows."""
    for i in range(gradient.size):
        gradient[i] = gradient[i] * size - clipped[i]
        error[i] *= size


@njit(cache=True, nogil=True, fastmath=_ARITHMETIC)
def compare(direction, place, kept, lags, mean):  # type: ignore[no-untyped-def]
    """A step's direction [m], made of length 1 in place, with those of earlier steps, kept [rows, m] up to ``place``.

    Cosines are added to ``lags`` by how many rows they lie back, the direction to ``mean``, and it takes its row.
    Returns the cosine that is farthest from 0, its row, and the cosine with the mean before it (0 without one).
    """
    length = 0.0
    for j in range(direction.size):
        length += direction[j] * direction[j]
    length = np.sqrt(length)
    if not length > 0:
        return 0.0, -1, 0.0
    farthest, row, own, whole = 0.0, -1, 0.0, 0.0
    for j in range(direction.size):
        direction[j] /= length
        own += direction[j] * mean[j]
        whole += mean[j] * mean[j]
    for i in range(place + 1):
        cosine = 0.0
        for j in range(direction.size):
            cosine += kept[i, j] * direction[j]
        lags[place - i] += cosine
        if abs(cosine) > abs(farthest):
            farthest, row = cosine, i
    for j in range(direction.size):
        kept[place, j] = direction[j]
        mean[j] += direction[j]
    return farthest, row, own / np.sqrt(whole) if whole > 0 else 0.0


@njit(cache=True, nogil=True)
def outside(squares, slacks, borders, low, high):  # type: ignore[no-untyped-def]
    """How many of ``squares``, float64 [k], lie outside their bounds, and the first of them: low, high: √ of the bounds
    of each stretch between ``borders``, which the √ of ``slacks`` widens."""
    number, first = 0, -1
    for block in range(borders.size - 1):
        if high[block] <= 0:  # never visited
            continue
        least, most = low[block] ** 2, high[block] ** 2
        for i in range(borders[block], borders[block + 1]):
            if least <= squares[i] <= most:  # nearly always, and slack would only widen it
                continue
            found, far = np.sqrt(squares[i]), np.sqrt(slacks[i])
            if not (low[block] - far <= found <= high[block] + far):
                number += 1
                if first < 0:
                    first = i
    return number, first


def compile_measuring() -> None:
    """Compile for float64 and keep the result on disk."""
    some = np.zeros(2)
    bins, layers = np.zeros((1, BINS + 2), dtype=np.int64), np.array([[0, 2]])
    measure(some, some, some, 1.0, 0, layers, some.copy(), some.copy(), bins)
    picked(some, 0, 1, np.array([1]))
    picked(some.astype(np.float32), 0, 1, np.array([1]))
    count(np.zeros(2, dtype=np.int64), 0, np.array([1]))
    to_noise(some.copy(), some.copy(), some, 1)
    compare(np.ones(2), 0, np.zeros((1, 2)), np.zeros(1), np.zeros(2))
    outside(some, some, np.array([0, 2]), some[:1], some[:1])
