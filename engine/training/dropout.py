"""Which values dropout leaves out: drawn by number, not in turn, so that a sentence loses the same ones in whatever
batch it is computed, alone too. The noise check makes sums anew from single sentences and rests on that.

What is left out is decided without looking at any sentence, so it costs no privacy, and need be no secret.
"""

import numpy as np
from numba import njit, prange

_SHARES = 2**16
"""A chance is a number of 16 bits: four are cut from one draw."""


def chances_of(chance: int, sentences: np.ndarray) -> np.ndarray:
    """What the draws of each sentence (numbers, int [B]) begin from at a step with this ``chance`` of 64 bits, uint64
    [B]."""
    found = np.empty(len(sentences), np.uint64)
    _begin(np.uint64(chance), np.asarray(sentences, np.uint64), found)
    return found


def draw_kept(chances: np.ndarray, offsets: np.ndarray, lengths: np.ndarray, rate: float, found: np.ndarray) -> None:
    """Write 0 with chance ``rate``, to 1/65,536, and else 1 ÷ (1 − rate) into ``found`` [N, width]. chances: uint64
    [B]; offsets, lengths: of the sentences."""
    border = round(rate * _SHARES)
    _draw(chances, offsets, lengths, np.uint64(border), found.dtype.type(_SHARES / (_SHARES - border)), found)


@njit(cache=True, nogil=True)
def _mixed(value):  # type: ignore[no-untyped-def]
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014): from neighbouring numbers, bits that look like
    chance."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@njit(cache=True, nogil=True)
def _begin(chance, sentences, found):  # type: ignore[no-untyped-def]
    for k in range(sentences.size):
        found[k] = _mixed(chance ^ _mixed(sentences[k] * np.uint64(0x9E3779B97F4A7C15)))


@njit(cache=True, nogil=True, parallel=True)
def _draw(chances, offsets, lengths, border, kept, found):  # type: ignore[no-untyped-def]
    width, step, low = found.shape[1], np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFFFF)
    nothing, fours = found.dtype.type(0), width // 4
    for k in prange(lengths.size):
        state = _mixed(chances[k])
        for row in range(offsets[k], offsets[k] + lengths[k]):
            line = found[row]
            for four in range(fours):  # no draw needs the one before it, so that several are made at once
                bits = _mixed(state + np.uint64(four + 1) * step)
                for j in range(4):
                    line[4 * four + j] = kept if ((bits >> np.uint64(16 * j)) & low) >= border else nothing
            state += np.uint64(fours) * step
            if 4 * fours < width:
                state += step
                bits = _mixed(state)
                for j in range(4 * fours, width):
                    line[j] = kept if (bits & low) >= border else nothing
                    bits >>= np.uint64(16)


def compile_dropout() -> None:
    """Compile it for float32 and keep the result on disk."""
    draw_kept(
        chances_of(0, np.zeros(1, np.int64)),
        np.zeros(1, np.int64),
        np.ones(1, np.int64),
        0.5,
        np.ones((1, 5), np.float32),
    )
