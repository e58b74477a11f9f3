"""Gaussian noise in compiled code, from a generator that needs no state: draw number i is a function of key and i.

Uniform bits come from Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3),
normal draws from them by the transform of Box and Muller (1958). Any part of the noise can be drawn on any core, in any
order, and comes out the same. A million weights take about a millisecond; drawing the noise used to take a quarter of
a training step.

Draws are float32 and reach 6.7 standard deviations. Like all floating-point noise they are not exactly Gaussian
(Mironov 2012): good for simulation, not for a deployment, whose noise must also come from a secret source.
"""

import numpy as np
from numba import njit, prange

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))
_ROUNDS = 10
_LANES = 512
"""Counters that are worked on together: their bits and draws stay in the first-level cache."""
_DRAWS = 4 * _LANES
_ARITHMETIC = {"contract", "nsz", "arcp"}


@njit(cache=True, nogil=True)
def philox(a, b, c, d, key0, key1):  # type: ignore[no-untyped-def]
    """Ten rounds in place; a, b, c, d: uint32 [lanes], the four words of each counter, lowest first."""
    for _ in range(_ROUNDS):
        for i in range(a.size):
            p = np.uint64(a[i]) * _MULTIPLIERS[0]
            q = np.uint64(c[i]) * _MULTIPLIERS[1]
            a[i] = np.uint32(q >> np.uint64(32)) ^ b[i] ^ key0
            c[i] = np.uint32(p >> np.uint64(32)) ^ d[i] ^ key1
            b[i] = np.uint32(q)
            d[i] = np.uint32(p)
        key0 = np.uint32(key0 + _WEYL[0])
        key1 = np.uint32(key1 + _WEYL[1])


@njit(cache=True, nogil=True, fastmath=_ARITHMETIC)
def normal_pairs(u, v, x, y):  # type: ignore[no-untyped-def]
    """Two independent N(0, 1) draws from each pair of uniform words: u, v uint32 [lanes] → x, y float32 [lanes].

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


@njit(cache=True, parallel=True, fastmath=_ARITHMETIC)
def add_normal(total, words, std):  # type: ignore[no-untyped-def]
    """Add independent N(0, std²) draws to ``total``, float32 [n], in place; words: uint32 [4], key and stream number.

    Counter i of stream (words[2], words[3]) gives draws 4i … 4i + 3, in blocks of 512 counters.
    """
    size = total.size
    for block in prange((size + _DRAWS - 1) // _DRAWS):
        a, b = np.empty(_LANES, np.uint32), np.empty(_LANES, np.uint32)
        c, d = np.empty(_LANES, np.uint32), np.empty(_LANES, np.uint32)
        for i in range(_LANES):
            counter = np.uint64(block) * np.uint64(_LANES) + np.uint64(i)
            a[i] = np.uint32(counter)
            b[i] = np.uint32(counter >> np.uint64(32))
            c[i] = words[2]
            d[i] = words[3]
        philox(a, b, c, d, words[0], words[1])
        draws = np.empty(_DRAWS, np.float32)
        normal_pairs(a, b, draws[:_LANES], draws[_LANES : 2 * _LANES])
        normal_pairs(c, d, draws[2 * _LANES : 3 * _LANES], draws[3 * _LANES :])
        start = block * _DRAWS
        for i in range(min(_DRAWS, size - start)):
            total[start + i] += std * draws[i]
