"""Random draws of dropout, indexed by sentence, so that a sentence has the same draws in every batch, also alone.

The noise check recomputes sums from single sentences and depends on this property. The draws do not depend on the data,
so they have no privacy cost and need not be secret.
"""

import numpy as np
from numba import njit, prange

_SHARES = 2**16
"""Number of values of a 16-bit draw; one 64-bit draw gives four of them."""


def chances_of(chance: int, sentences: np.ndarray) -> np.ndarray:
    """Return the initial random state of each sentence at a step, uint64 [B].

    Args:
        chance: random state of the step, 64 bits.
        sentences: numbers of the sentences, int [B].
    """
    states = np.empty(len(sentences), np.uint64)
    _begin(np.uint64(chance), np.asarray(sentences, np.uint64), states)
    return states


def draw_kept(chances: np.ndarray, offsets: np.ndarray, lengths: np.ndarray, rate: float, found: np.ndarray) -> None:
    """Draw dropout factors: 0 with probability ``rate``, otherwise 1 ÷ (1 − rate).

    Args:
        chances: initial random state of each sentence, uint64 [B].
        offsets: index of the first token of each sentence.
        lengths: length of each sentence.
        rate: dropout rate, rounded to a multiple of 1/65,536.
        found: receives the factors, [N, width].
    """
    border = round(rate * _SHARES)
    _draw(chances, offsets, lengths, np.uint64(border), found.dtype.type(_SHARES / (_SHARES - border)), found)


@njit(cache=True, nogil=True)
def _mixed(value):  # type: ignore[no-untyped-def]
    """Apply the finaliser of SplitMix64 (Steele, Lea and Flood 2014), which maps consecutive numbers to random bits."""
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
    """Compile the functions of this module for float32 and cache the result on disk."""
    draw_kept(
        chances_of(0, np.zeros(1, np.int64)),
        np.zeros(1, np.int64),
        np.ones(1, np.int64),
        0.5,
        np.ones((1, 5), np.float32),
    )
