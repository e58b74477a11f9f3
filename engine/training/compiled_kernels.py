"""The BiLSTM's gradients in compiled code: no padding is computed, and both directions run beside each other.

Tokens stand sentence after sentence ([N, …], N tokens in all). The recurrence goes over time steps with the sentences
sorted by length, the longest first, so that the live ones are always the first rows. What does not depend on the
recurrence, the input projection and the weight gradients, is one matrix product over all tokens.

The square of a sentence's gradient norm comes from two small Gram matrices for each affine map ("ghost norm", Li et al.
2022, section 4). Everything works in float32 and, for tests, in float64.
"""

import math

import numpy as np
from numba import njit, prange, types
from numba.extending import overload

FORWARD = 0
_ARITHMETIC = {"contract", "nsz", "arcp"}
"""Freedoms of the compiler that leave NaN and ∞ alone: a gradient that is not finite must be seen."""


@njit(cache=True, fastmath=_ARITHMETIC)
def _rational_tanh(x):  # type: ignore[no-untyped-def]
    """tanh in float32 within 4e-7, without a call, so that loops over it vectorise; NaN stays NaN.

    The minimax rational function of degree 13 over 6 that Eigen uses (MathFunctionsImpl.h), cut at ±7.9.
    """
    y = np.float32(7.905311) if x > np.float32(7.905311) else x
    y = np.float32(-7.905311) if y < np.float32(-7.905311) else y
    s = y * y
    up = np.float32(-2.76076847742355e-16)
    up = up * s + np.float32(2.00018790482477e-13)
    up = up * s + np.float32(-8.60467152213735e-11)
    up = up * s + np.float32(5.12229709037114e-08)
    up = up * s + np.float32(1.48572235717979e-05)
    up = up * s + np.float32(6.37261928875436e-04)
    up = up * s + np.float32(4.89352455891786e-03)
    down = np.float32(1.19825839466702e-06)
    down = down * s + np.float32(1.18534705686654e-04)
    down = down * s + np.float32(2.26843463243900e-03)
    down = down * s + np.float32(4.89352518554385e-03)
    return y * up / down


def _tanh(x: float) -> float:
    """tanh of a number: exact in float64, quick in float32."""
    return math.tanh(x)


@overload(_tanh, jit_options={"fastmath": _ARITHMETIC})
def _choose_tanh(x):  # type: ignore[no-untyped-def]
    if x == types.float32:
        return lambda x: _rational_tanh(x)
    return lambda x: math.tanh(x)


@njit(cache=True, fastmath=_ARITHMETIC)
def _squash(x, half):  # type: ignore[no-untyped-def]
    """The logistic function; half: ½ in the dtype of x, so that nothing is computed wider than it is stored."""
    return half + half * _tanh(half * x)


@njit(cache=True, fastmath=_ARITHMETIC)
def _row(offset: int, length: int, time: int, direction: int) -> int:
    """Where the token stands that ``direction`` reads at step ``time``."""
    return offset + time if direction == FORWARD else offset + length - 1 - time


@njit(cache=True, nogil=True, fastmath=_ARITHMETIC)
def _recur(z, recurrent, offsets, lengths, live, direction, hidden, cell, previous):  # type: ignore[no-untyped-def]
    """Run one direction. z [N, 4H] holds what the inputs give, and the activated gates afterwards.

    Fills hidden, cell and previous (the hidden state before each token), all [N, H].
    """
    size = recurrent.shape[0]
    state = np.zeros((lengths.size, size), z.dtype)
    memory = np.zeros((lengths.size, size), z.dtype)
    added = np.empty((lengths.size, 4 * size), z.dtype)
    half = z.dtype.type(0.5)
    for time in range(live.size):
        count = live[time]
        np.dot(state[:count], recurrent, added[:count])
        for k in range(count):
            row = _row(offsets[k], lengths[k], time, direction)
            gates, sums = z[row], added[k]
            for j in range(size):
                previous[row, j] = state[k, j]
            for j in range(2 * size):
                gates[j] = _squash(gates[j] + sums[j], half)
            for j in range(2 * size, 3 * size):
                gates[j] = _tanh(gates[j] + sums[j])
            for j in range(3 * size, 4 * size):
                gates[j] = _squash(gates[j] + sums[j], half)
            for j in range(size):
                c = gates[size + j] * memory[k, j] + gates[j] * gates[2 * size + j]
                memory[k, j] = c
                cell[row, j] = c
            for j in range(size):
                h = gates[3 * size + j] * _tanh(memory[k, j])
                state[k, j] = h
                hidden[row, j] = h


@njit(cache=True, nogil=True, fastmath=_ARITHMETIC)
def _recur_back(z, recurrent, offsets, lengths, live, direction, cell, slope):  # type: ignore[no-untyped-def]
    """Back through one direction. z [N, 4H] holds the gates, and dL/dz afterwards; slope [N, H] is dL/dh from above."""
    size = recurrent.shape[0]
    transposed = np.ascontiguousarray(recurrent.T)
    later = np.zeros((lengths.size, size), z.dtype)  # dL/dh from the step after
    carried = np.zeros((lengths.size, size), z.dtype)  # dL/dc from the step after
    local = np.empty((lengths.size, 4 * size), z.dtype)
    one = z.dtype.type(1)
    for time in range(live.size - 1, -1, -1):
        count = live[time]
        for k in range(count):
            row = _row(offsets[k], lengths[k], time, direction)
            before = _row(offsets[k], lengths[k], time - 1, direction)
            gates, out = z[row], local[k]
            for j in range(size):
                i, f, g, o = gates[j], gates[size + j], gates[2 * size + j], gates[3 * size + j]
                squashed = _tanh(cell[row, j])
                dh = slope[row, j] + later[k, j]
                dc = carried[k, j] + dh * o * (one - squashed * squashed)
                c_before = cell[before, j] if time > 0 else z.dtype.type(0)
                out[j] = dc * g * i * (one - i)
                out[size + j] = dc * c_before * f * (one - f)
                out[2 * size + j] = dc * i * (one - g * g)
                out[3 * size + j] = dh * squashed * o * (one - o)
                carried[k, j] = dc * f
            for j in range(4 * size):
                gates[j] = out[j]
        np.dot(local[:count], transposed, later[:count])


@njit(cache=True, nogil=True, fastmath=_ARITHMETIC)
def _project(inputs, kernel, bias, out):  # type: ignore[no-untyped-def]
    """out = inputs · kernel + bias, [N, I] · [I, O] + [O]."""
    np.dot(inputs, kernel, out)
    for row in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[row, j] += bias[j]


@njit(cache=True, parallel=True, fastmath=_ARITHMETIC)
def features(inputs, kernels, recurrents, biases, offsets, lengths, live):  # type: ignore[no-untyped-def]
    """Forward through both directions: gates [2, N, 4H], cells, states before and hidden states [2, N, H]."""
    tokens, size = inputs.shape[0], recurrents.shape[1]
    z = np.empty((2, tokens, 4 * size), inputs.dtype)
    hidden = np.empty((2, tokens, size), inputs.dtype)
    cell = np.empty((2, tokens, size), inputs.dtype)
    previous = np.empty((2, tokens, size), inputs.dtype)
    for d in prange(2):
        _project(inputs, kernels[d], biases[d], z[d])
        _recur(z[d], recurrents[d], offsets, lengths, live, d, hidden[d], cell[d], previous[d])
    return z, cell, previous, hidden


@njit(cache=True, nogil=True, fastmath=_ARITHMETIC)
def _losses(logits, tags, offsets, lengths, losses):  # type: ignore[no-untyped-def]
    """Mean cross-entropy of each sentence into ``losses``; its derivative takes the place of ``logits`` [N, K]."""
    for k in range(lengths.size):
        total = 0.0
        for row in range(offsets[k], offsets[k] + lengths[k]):
            line = logits[row]
            top = line.max()
            weight = 0.0
            for j in range(line.size):
                weight += math.exp(line[j] - top)
            total += math.log(weight) + top - line[tags[row]]
            for j in range(line.size):
                line[j] = math.exp(line[j] - top) / weight / lengths[k]
            line[tags[row]] -= 1.0 / lengths[k]
        losses[k] = total / lengths[k]


@njit(cache=True, nogil=True, fastmath=_ARITHMETIC)
def _gram_product(inside, slopes):  # type: ignore[no-untyped-def]
    """Σ_{t,s} (a_t · a_s + 1)(dz_t · dz_s) from a·aᵀ [L, L] and dz [L, O]: one affine map's squared gradient norm."""
    outside = np.dot(slopes, slopes.T)
    total = 0.0
    for t in range(inside.shape[0]):
        for s in range(inside.shape[0]):
            total += (inside[t, s] + 1.0) * outside[t, s]
    return total


@njit(cache=True, parallel=True, fastmath=_ARITHMETIC)
def clipped_gradient(  # type: ignore[no-untyped-def]
    inputs, tags, kernels, recurrents, biases, dense, dense_bias, offsets, lengths, live, clip_norm
):
    """Clipped sum of the sentences' gradients, piece by piece, their norms and their losses.

    inputs [N, D], tags [N]; kernels [2, D, 4H], recurrents [2, H, 4H], biases [2, 4H], dense [2H, K], dense_bias [K];
    offsets, lengths [B] sorted by length, the longest first; live [T]: sentences longer than each step.
    """
    tokens, size, sentences = inputs.shape[0], recurrents.shape[1], lengths.size
    z, cell, previous, hidden = features(inputs, kernels, recurrents, biases, offsets, lengths, live)
    joined = np.empty((tokens, 2 * size), inputs.dtype)
    joined[:, :size] = hidden[0]
    joined[:, size:] = hidden[1]
    logits = np.empty((tokens, dense.shape[1]), inputs.dtype)
    _project(joined, dense, dense_bias, logits)
    losses = np.empty(sentences, np.float64)
    _losses(logits, tags, offsets, lengths, losses)
    slope = np.dot(logits, np.ascontiguousarray(dense.T))
    slopes = np.empty((2, tokens, size), inputs.dtype)
    slopes[0] = slope[:, :size]
    slopes[1] = slope[:, size:]
    for d in prange(2):
        _recur_back(z[d], recurrents[d], offsets, lengths, live, d, cell[d], slopes[d])
    norms = np.empty(sentences, np.float64)
    factors = np.empty(tokens, inputs.dtype)
    for part in prange(2):
        for k in range(part, sentences, 2):
            start, end = offsets[k], offsets[k] + lengths[k]
            own = joined[start:end]
            total = _gram_product(np.dot(own, own.T), logits[start:end])
            common = np.dot(inputs[start:end], inputs[start:end].T)
            for d in range(2):
                before = previous[d, start:end]
                total += _gram_product(common + np.dot(before, before.T), z[d, start:end])
            norms[k] = math.sqrt(max(total, 0.0)) if total == total else np.nan
            # Without clipping the bound is ∞ and the factor 1; so it is for a norm of 0.
            factor = min(1.0, clip_norm / norms[k]) if norms[k] > 0 else 1.0
            factors[start:end] = factor
    d_kernels, d_recurrents = np.empty_like(kernels), np.empty_like(recurrents)
    d_biases = np.zeros_like(biases)
    for d in prange(2):
        for row in range(tokens):
            factor = factors[row]
            for j in range(4 * size):
                z[d, row, j] *= factor
                d_biases[d, j] += z[d, row, j]
        np.dot(inputs.T, z[d], d_kernels[d])
        np.dot(previous[d].T, z[d], d_recurrents[d])
    for row in range(tokens):
        for j in range(logits.shape[1]):
            logits[row, j] *= factors[row]
    d_dense = np.dot(joined.T, logits)
    d_dense_bias = np.zeros(logits.shape[1], inputs.dtype)
    for row in range(tokens):
        for j in range(logits.shape[1]):
            d_dense_bias[j] += logits[row, j]
    return d_kernels, d_recurrents, d_biases, d_dense, d_dense_bias, norms, losses
