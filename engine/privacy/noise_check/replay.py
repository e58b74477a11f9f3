"""Comparison of noise and samples with the draws of their keys, computed here a second time.

Noise that is the stream of a fresh key is as independent, precise and unbounded as the generator's. So a comparison
with the stream finds at once what statistical tests find late or never: noise in half precision or cut far out, noise
of another place, step or client, and a sample in which sentences depend on each other. It involves no randomness and
raises no false alarm: the bounds allow for all rounding.

The code shares nothing with the generators: :mod:`engine.privacy.gaussian_sampler` draws noise in single precision,
and ``cryptography`` draws samples (:class:`engine.seeds.KeyStream`). Here, both are computed from ChaCha20 (RFC 8439),
in double precision.
"""

import math

import numpy as np
from numba import njit

LANES = 8
"""Of 256 adjacent weights, those whose noise is compared at each step; the next ones at the next step."""
FIXED = 4
"""Every fourth of the fixed weights, which lie in all parts of the model, is compared at each step; others at the next
one.
"""
WIDTH, _BLOCK = 256, 4096
"""Counters that the generator computes together, and their draws: the i-th counter gives the i-th draw of each row."""
_RARE = 1 << 16
"""Words below this value get 32 more bits from the nonce (1, 0, 0)."""
_FAR = 9_395_202
"""Words below this value give a radius above 3.5: exp(−3.5²/2) · 2³²."""
_PRECISION = 1e-6
"""Largest error of a draw in single precision, relative to its radius; the largest of 9 · 10⁷ is 2.0e-7."""
_SUM = 2.0**-22
"""Relative error of a sum in single precision that is then divided; the bound is twice as large."""


@njit(cache=True, nogil=True, inline="always")
def _mix(x, a, b, c, d):  # type: ignore[no-untyped-def]
    """Apply the quarter round of RFC 8439 to four rows of ``x``, uint32 [16, lanes], in place."""
    for i in range(x.shape[1]):
        x[a, i] += x[b, i]
        x[d, i] ^= x[a, i]
        x[d, i] = (x[d, i] << np.uint32(16)) | (x[d, i] >> np.uint32(16))
        x[c, i] += x[d, i]
        x[b, i] ^= x[c, i]
        x[b, i] = (x[b, i] << np.uint32(12)) | (x[b, i] >> np.uint32(20))
        x[a, i] += x[b, i]
        x[d, i] ^= x[a, i]
        x[d, i] = (x[d, i] << np.uint32(8)) | (x[d, i] >> np.uint32(24))
        x[c, i] += x[d, i]
        x[b, i] ^= x[c, i]
        x[b, i] = (x[b, i] << np.uint32(7)) | (x[b, i] >> np.uint32(25))


@njit(cache=True, nogil=True)
def key_stream(key, counters, nonce):  # type: ignore[no-untyped-def]
    """Return blocks of the ChaCha20 key stream, uint32 [16, lanes].

    Args:
        key: uint32 [8].
        counters: Number of each block, uint32 [lanes].
        nonce: First word of the nonce; the others are 0.
    """
    lanes = counters.size
    start = np.zeros((16, lanes), np.uint32)
    for i in range(lanes):
        start[0, i], start[1, i] = np.uint32(0x61707865), np.uint32(0x3320646E)
        start[2, i], start[3, i] = np.uint32(0x79622D32), np.uint32(0x6B206574)
        for k in range(8):
            start[4 + k, i] = key[k]
        start[12, i], start[13, i] = counters[i], np.uint32(nonce)
    words = start.copy()
    for _ in range(10):
        for k in range(4):
            _mix(words, k, 4 + k, 8 + k, 12 + k)
        for k in range(4):
            _mix(words, k, 4 + (k + 1) % 4, 8 + (k + 2) % 4, 12 + (k + 3) % 4)
    words += start
    return words


@njit(cache=True, nogil=True)
def _pair(u, v, key, counter, row):  # type: ignore[no-untyped-def]
    """Return two standard normal draws by the Box-Muller transform (1958), and their radius.

    Args:
        u: Word of the radius.
        v: Word of the angle.
        key: uint32 [8].
        counter: Number of the block that holds both.
        row: Number of the pair in the block.
    """
    if u < _RARE:
        more = key_stream(key, np.array([counter], np.uint32), 1)[row, 0]
        uniform = (np.float64(u) + (np.float64(more) + 0.5) * 2.0**-32) * 2.0**-32
    else:  # the generator keeps 24 bits
        uniform = np.float64(np.float32(np.float32(u) * np.float32(2.0**-32) + np.float32(2.0**-33)))
    radius, angle = math.sqrt(max(0.0, -2 * math.log(uniform))), 2 * math.pi * 2.0**-32 * np.float64(v)
    return radius * math.cos(angle), radius * math.sin(angle), radius


@njit(cache=True, nogil=True, inline="always")
def _judge(found, error, total, draw, radius, std, result):  # type: ignore[no-untyped-def]
    """Add a comparison to ``result``, and return whether it is the first difference."""
    allowed = error + _SUM * (abs(found) + abs(total)) + _PRECISION * radius * std
    result[0] += 1
    if abs(found - std * draw) <= allowed:
        return False
    result[1] += 1
    return result[1] == 1


@njit(cache=True, nogil=True)
def compare_noise(noise, error, sums, std, start, stop, fixed, turn, key, lane, far):  # type: ignore[no-untyped-def]
    """Compare the noise of one step with the draws of its key.

    Args:
        noise: Noise on the weights from ``start`` to ``stop``, then on the fixed ones, float64 [k + m].
        error: Most by which rounding may have moved each value, float64 [k + m].
        sums: Clipped sum to which the noise was added, float64 [k + m].
        std: Planned standard deviation.
        start: First weight of the range.
        stop: End of the range.
        fixed: Fixed weights, int64 [m].
        turn: First of the fixed weights to compare, of every ``FIXED``.
        key: uint32 [8].
        lane: First of the ``LANES`` compared weights of each 256 adjacent ones.
        far: Whether to compare all draws beyond 3.5 standard deviations too.

    Returns:
        Compared draws, those that differ, and the weight and the difference ÷ ``std`` of the first one, float64 [4].
    """
    result = np.array([0.0, 0.0, -1.0, 0.0])
    for block in range(start // _BLOCK, (stop - 1) // _BLOCK + 1):
        begin, lanes = (0, WIDTH) if far else (lane, LANES)
        base = block * WIDTH + begin
        words = key_stream(key, np.arange(base, base + lanes).astype(np.uint32), 0)
        for row in range(8):
            left = block * _BLOCK + 2 * row * WIDTH + begin
            if left + WIDTH + lanes <= start or left >= stop:
                continue
            for i in range(lanes):
                if far and words[2 * row, i] >= _FAR and not lane <= i < lane + LANES:
                    continue
                x, y, radius = _pair(words[2 * row, i], words[2 * row + 1, i], key, base + i, row)
                for place, draw in ((left + i, x), (left + i + WIDTH, y)):
                    if start <= place < stop:
                        j = place - start
                        if _judge(noise[j], error[j], sums[j], draw, radius, std, result):
                            result[2], result[3] = place, (noise[j] - std * draw) / std
    own = fixed[turn::FIXED]
    counters = ((own // _BLOCK) * WIDTH + own % WIDTH).astype(np.uint32)
    words = key_stream(key, counters, 0)
    for i in range(own.size):
        row, j = own[i] % _BLOCK // WIDTH, stop - start + turn + FIXED * i
        even = row - row % 2
        x, y, radius = _pair(words[even, i], words[even + 1, i], key, counters[i], row // 2)
        draw = y if row % 2 else x
        if _judge(noise[j], error[j], sums[j], draw, radius, std, result):
            result[2], result[3] = own[i], (noise[j] - std * draw) / std
    return result


@njit(cache=True, nogil=True)
def compare_sample(sentences, low, high, probability, key):  # type: ignore[no-untyped-def]
    """Compare a Poisson sample with the draws of its key.

    Args:
        sentences: The sample, int64 [b]; each of them must have been drawn.
        low: First sentence of the window, a multiple of 8; of these, exactly the drawn ones must be in the sample.
        high: End of the window.
        probability: Probability of each sentence.
        key: uint32 [8].

    Returns:
        Compared sentences, those that differ, and the first one, with 1 if the sample wrongly contains it, int64 [4].
    """
    result = np.array([0, 0, -1, 0])
    times = np.zeros(high - low, np.int64)
    outside = np.empty(sentences.size, np.int64)
    others = 0
    for sentence in sentences:
        if low <= sentence < high:
            times[sentence - low] += 1
        else:
            outside[others] = sentence
            others += 1
    first = low // 8
    words = key_stream(key, np.arange(first, first + (high - low + 7) // 8).astype(np.uint32), 0)
    for place in range(high - low):
        number = times[place]
        _count(words, place // 8, place % 8, probability, number, low + place, result)
    words = key_stream(key, (outside[:others] // 8).astype(np.uint32), 0)
    for i in range(others):
        _count(words, i, outside[i] % 8, probability, 1, outside[i], result)
    return result


@njit(cache=True, nogil=True, inline="always")
def _count(words, block, place, probability, number, sentence, result):  # type: ignore[no-untyped-def]
    """Add to ``result`` whether a sentence that a sample contains ``number`` times was drawn so."""
    low, high = np.uint64(words[2 * place, block]), np.uint64(words[2 * place + 1, block])
    drawn = np.float64(((high << np.uint64(32)) | low) >> np.uint64(11)) * 2.0**-53 < probability
    result[0] += 1
    if number != (1 if drawn else 0):
        if result[1] == 0:
            result[2], result[3] = sentence, int(number > (1 if drawn else 0))
        result[1] += 1


def words_of(key: bytes) -> np.ndarray:
    """Return a key of 32 bytes as uint32 [8]."""
    return np.frombuffer(key, dtype="<u4")


def compile_replay() -> None:
    """Compile for the types of a run and keep the result on disk."""
    values, key = np.zeros(2), words_of(bytes(32))
    compare_noise(values, values, values, 1.0, 0, 1, np.array([0]), 0, key, 0, False)
    compare_sample(np.array([0]), 0, 8, 0.5, key)
