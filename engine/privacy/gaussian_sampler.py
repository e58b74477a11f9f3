"""Gaussian noise in compiled code, from a generator without state: draw number i is a function of key and i.

Random bits are the key stream of ChaCha20 (RFC 8439, section 2.3: a block of 64 bytes for each counter). Without the
key they are indistinguishable from random. The Box-Muller transform (1958) turns them into normal draws. Any part of
the noise can be drawn on any core, in any order, with the same result. A million weights take 1.5 ms on two cores.

Draws are float32. A radius uses 64 random bits and reaches 9.49 standard deviations; the true distribution exceeds that
with probability 2⁻⁶⁵ for each pair of draws. Like all floating-point noise the draws are not exactly Gaussian
(Mironov 2012); ``docs/metrics.md`` lists this among the assumptions of ε.
"""

import math

import numpy as np
from numba import njit, prange

_CONSTANTS = (np.uint32(0x61707865), np.uint32(0x3320646E), np.uint32(0x79622D32), np.uint32(0x6B206574))
"""The words "expand 32-byte k"."""
_LANES = 256
"""Blocks that are computed together; their bits and draws fit in the caches of a core."""
_DRAWS = 16 * _LANES
_RARE = np.uint32(1 << 16)
"""Words below this value, one in 65,536, get 32 more bits: a radius of 32 bits would be too coarse there, and its
largest value too small.
"""
_ARITHMETIC = {"contract", "nsz", "arcp"}


@njit(cache=True, nogil=True)
def _quarter_round(a, b, c, d):  # type: ignore[no-untyped-def]
    """Apply the quarter round of RFC 8439, section 2.1, to a, b, c, d, uint32 [lanes], in place."""
    for i in range(a.size):
        x, y, z, w = a[i], b[i], c[i], d[i]
        x = np.uint32(x + y)
        w = np.uint32(w ^ x)
        w = np.uint32((w << np.uint32(16)) | (w >> np.uint32(16)))
        z = np.uint32(z + w)
        y = np.uint32(y ^ z)
        y = np.uint32((y << np.uint32(12)) | (y >> np.uint32(20)))
        x = np.uint32(x + y)
        w = np.uint32(w ^ x)
        w = np.uint32((w << np.uint32(8)) | (w >> np.uint32(24)))
        z = np.uint32(z + w)
        y = np.uint32(y ^ z)
        y = np.uint32((y << np.uint32(7)) | (y >> np.uint32(25)))
        a[i], b[i], c[i], d[i] = x, y, z, w


@njit(cache=True, nogil=True)
def chacha20(words, key, first, nonce):  # type: ignore[no-untyped-def]
    """Fill ``words`` with consecutive blocks of the key stream, side by side.

    Args:
        words: Receives the blocks, uint32 [16, lanes].
        key: uint32 [8].
        first: Counter of the first block.
        nonce: uint32 [3].
    """
    state = np.empty(words.shape, np.uint32)
    for i in range(words.shape[1]):
        for k in range(4):
            state[k, i] = _CONSTANTS[k]
        for k in range(8):
            state[4 + k, i] = key[k]
        state[12, i] = np.uint32(first + i)
        for k in range(3):
            state[13 + k, i] = nonce[k]
    words[:] = state
    for _ in range(10):
        for k in range(4):
            _quarter_round(words[k], words[4 + k], words[8 + k], words[12 + k])
        for k in range(4):
            _quarter_round(words[k], words[4 + (k + 1) % 4], words[8 + (k + 2) % 4], words[12 + (k + 3) % 4])
    for k in range(16):
        for i in range(words.shape[1]):
            words[k, i] += state[k, i]


@njit(cache=True, nogil=True, fastmath=_ARITHMETIC)
def normal_pairs(u, v, x, y):  # type: ignore[no-untyped-def]
    """Compute two independent N(0, 1) draws, x and y, float32 [lanes], from each pair of uniform words, u and v, uint32
    [lanes].

    Radius √(−2 ln((u + ½)/2³²)), angle 2πv/2³². Logarithm, sine and cosine are the minimax polynomials of the Cephes
    library (logf, sinf, cosf), written without branches so that the loop vectorises.
    """
    for i in range(u.size):
        uniform = np.float32(u[i]) * np.float32(2.0**-32) + np.float32(2.0**-33)
        bits = np.float32(uniform).view(np.uint32)
        exponent = np.int32(bits >> np.uint32(23)) - np.int32(127)
        mantissa = np.uint32((bits & np.uint32(0x7FFFFF)) | np.uint32(0x3F800000)).view(np.float32)  # [1, 2)
        large = mantissa > np.float32(1.41421356)
        mantissa = mantissa * np.float32(0.5) if large else mantissa
        power = np.float32(exponent + np.int32(1)) if large else np.float32(exponent)
        t = mantissa - np.float32(1)
        z = t * t
        p = np.float32(7.0376836292e-2) * t + np.float32(-1.1514610310e-1)
        p = p * t + np.float32(1.1676998740e-1)
        p = p * t + np.float32(-1.2420140846e-1)
        p = p * t + np.float32(1.4249322787e-1)
        p = p * t + np.float32(-1.6668057665e-1)
        p = p * t + np.float32(2.0000714765e-1)
        p = p * t + np.float32(-2.4999993993e-1)
        p = p * t + np.float32(3.3333331174e-1)
        logarithm = t + (t * z * p - np.float32(0.5) * z) + power * np.float32(0.693147180559945)
        negative = np.float32(-2) * logarithm
        radius = np.sqrt(negative if negative > np.float32(0) else np.float32(0))
        quadrant = np.uint32(v[i] + np.uint32(1 << 29)) >> np.uint32(30)
        rest = np.int32(np.uint32(v[i] - np.uint32(quadrant << np.uint32(30))))
        angle = np.float32(rest) * np.float32(2 * np.pi * 2.0**-32)  # [−π/4, π/4)
        z = angle * angle
        p = np.float32(-1.9515295891e-4) * z + np.float32(8.3321608736e-3)
        p = p * z + np.float32(-1.6666654611e-1)
        sine = angle + angle * z * p
        p = np.float32(2.443315711809948e-5) * z + np.float32(-1.388731625493765e-3)
        p = p * z + np.float32(4.166664568298827e-2)
        cosine = np.float32(1) - np.float32(0.5) * z + z * z * p
        swap = (quadrant & np.uint32(1)) == np.uint32(1)
        horizontal, vertical = (sine, cosine) if swap else (cosine, sine)
        x[i] = -radius * horizontal if quadrant == np.uint32(1) or quadrant == np.uint32(2) else radius * horizontal
        y[i] = -radius * vertical if quadrant >= np.uint32(2) else radius * vertical


@njit(cache=True, nogil=True)
def refine_pairs(words, draws, key, first):  # type: ignore[no-untyped-def]
    """Recompute the pairs whose radius word is below ``_RARE``, in float64 and with 32 more bits.

    The bits come from the same counter under the nonce (1, 0, 0).

    Args:
        words: Blocks from ``first`` on, uint32 [16, lanes].
        draws: Draws, float32 [16, lanes]; rows 2k and 2k + 1 come from the words in the same rows.
        key: uint32 [8].
        first: Counter of the first block.
    """
    more, nonce = np.empty((16, 1), np.uint32), np.array([1, 0, 0], np.uint32)
    for k in range(8):
        u, v = words[2 * k], words[2 * k + 1]
        for i in range(u.size):
            if u[i] < _RARE:
                chacha20(more, key, first + i, nonce)
                uniform = (np.float64(u[i]) + (np.float64(more[k, 0]) + 0.5) * 2.0**-32) * 2.0**-32
                radius, angle = math.sqrt(-2 * math.log(uniform)), 2 * math.pi * np.float64(v[i]) * 2.0**-32
                draws[2 * k, i] = np.float32(radius * math.cos(angle))
                draws[2 * k + 1, i] = np.float32(radius * math.sin(angle))


@njit(cache=True, parallel=True, fastmath=_ARITHMETIC)
def add_normal(total, key, std):  # type: ignore[no-untyped-def]
    """Add independent N(0, std²) draws to an array, in place.

    Counter i gives the draws from 16 i on, in groups of 256 counters. A key is enough for 2³⁶ draws.

    Args:
        total: float32 [n].
        key: uint32 [8].
        std: Standard deviation.
    """
    size = total.size
    for block in prange((size + _DRAWS - 1) // _DRAWS):
        words, draws = np.empty((16, _LANES), np.uint32), np.empty((16, _LANES), np.float32)
        chacha20(words, key, block * _LANES, np.zeros(3, np.uint32))
        for k in range(8):
            normal_pairs(words[2 * k], words[2 * k + 1], draws[2 * k], draws[2 * k + 1])
        refine_pairs(words, draws, key, block * _LANES)
        start, flat = block * _DRAWS, draws.reshape(-1)
        for i in range(min(_DRAWS, size - start)):
            total[start + i] += std * flat[i]
