"""Compiled kernels of the noise check: sums over a range of weights, in one pass at each step."""

import numpy as np
from numba import njit

BINS, REACH = 64, 4.0
"""Bins of equal width from −REACH to REACH standard deviations; one more on either side counts the values beyond."""
TAILS = (2.5, 3.5, 4.5)
"""Standard deviations; of all measured values, those beyond each are counted."""

EACH = 4
"""Interval between the values that are counted in bins: every fourth."""


_ARITHMETIC = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, fastmath=_ARITHMETIC)
def measure(noise, slack, sums, std, start, layers, squares, slacks, bins, tails):  # type: ignore[no-untyped-def]
    """Measure the noise of one step on a range of weights.

    Args:
        noise: Noise on each weight, float64 [k or more].
        slack: Most by which rounding may have moved each noise value, float64 [k or more].
        sums: Clipped sum to which the noise was added, float64 [k or more].
        std: Planned standard deviation; all results are in units of it, except Σ sums².
        start: First weight of the range.
        layers: Start and end of each layer, int64 [L, 2].
        squares: Σ noise² of each weight, float64 [size]; updated in place.
        slacks: Σ slack² of each weight, float64 [size]; updated in place.
        bins: Histogram of the noise in each layer, int64 [L, BINS + 2]; updated in place, without NaN.
        tails: Values beyond each of ``TAILS``, int64 [3]; updated in place.

    Returns:
        Σ noise², Σ slack², Σ noise · sums, Σ sums², over the layers.
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
        for limit in range(len(TAILS)):
            beyond, most = 0, TAILS[limit] * std
            for i in range(low - start, high - start):
                beyond += abs(noise[i]) > most
            tails[limit] += beyond
            if beyond == 0:
                break
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
    """Return a copy of ``array``, float [size], at a range and then at fixed indices.

    Args:
        array: Values of all weights, float [size].
        start: First weight of the range.
        stop: End of the range.
        fixed: Indices, int [m].

    Returns:
        Values, [stop − start + m].
    """
    found = np.empty(stop - start + fixed.size, dtype=array.dtype)
    found[: stop - start] = array[start:stop]
    for j in range(fixed.size):
        found[stop - start + j] = array[fixed[j]]
    return found


@njit(cache=True, nogil=True)
def differs(array, copy, start, stop, fixed, first):  # type: ignore[no-untyped-def]
    """Return whether ``array``, float [size], differs from a copy of :func:`picked`, except before index ``first``."""
    for i in range(max(start, first), stop):
        if array[i] != copy[i - start]:
            return True
    different = 0
    for j in range(fixed.size):
        different += fixed[j] >= first and array[fixed[j]] != copy[stop - start + j]
    return different > 0


@njit(cache=True, nogil=True)
def count(times, first, places):  # type: ignore[no-untyped-def]
    """Increment ``times``, int64 [n], once for each index in ``places`` (int64, relative to ``first``)."""
    for place in places:
        times[first + place] += 1


@njit(cache=True, nogil=True)
def to_noise(gradient, error, clipped, size):  # type: ignore[no-untyped-def]
    """Convert the applied gradient to the noise of the sum, in place.

    Args:
        gradient: Applied gradient, float64 [k]; becomes the noise.
        error: Error bound of the gradient, float64 [k]; becomes that of the noise.
        clipped: Clipped sum, [k].
        size: Expected batch size, by which the sum was divided.
    """
    for i in range(gradient.size):
        gradient[i] = gradient[i] * size - clipped[i]
        error[i] *= size


@njit(cache=True, nogil=True)
def outside(squares, slacks, borders, low, high):  # type: ignore[no-untyped-def]
    """Return the number of sums of squares outside their bounds, and the index of the first (−1 without one).

    Args:
        squares: Sums of squares, float64 [k].
        slacks: Sums of squared rounding errors, float64 [k]; their √ widens the bounds.
        borders: Borders of the ranges with equal bounds, int [ranges + 1].
        low: √ of the lower bound of each range.
        high: √ of the upper bound of each range; 0 without measurements.
    """
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
    values = np.zeros(2)
    bins, layers = np.zeros((1, BINS + 2), dtype=np.int64), np.array([[0, 2]])
    tails = np.zeros(len(TAILS), dtype=np.int64)
    measure(values, values, values, 1.0, 0, layers, values.copy(), values.copy(), bins, tails)
    picked(values, 0, 1, np.array([1]))
    picked(values.astype(np.float32), 0, 1, np.array([1]))
    differs(values.astype(np.float32), values.astype(np.float32), 0, 1, np.array([1]), 0)
    count(np.zeros(2, dtype=np.int64), 0, np.array([1]))
    to_noise(values.copy(), values.copy(), values, 1)
    outside(values, values, np.array([0, 2]), values[:1], values[:1])
