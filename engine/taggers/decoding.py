"""Scores → tags: the likeliest sequence, by the algorithm of Viterbi (1967) where tags depend on their neighbours.

In BIO2 the tag I-X may only follow B-X or I-X. In BIOES so may E-X, and one of the two must: a name that was begun goes
on to its E-X within the sentence. Ill-formed sequences can be forbidden: the likeliest of the well-formed ones is found
instead, which costs nothing in training and no privacy.
"""

from collections.abc import Sequence

import numpy as np
from numba import njit

FORBIDDEN = -np.inf


class Decoder:
    """Reads tags off scores. tags: names in the order of the scores' columns, BIOES if one begins with E-, else
    BIO2. well_formed: forbid what is ill-formed there."""

    def __init__(self, tags: Sequence[str], *, well_formed: bool) -> None:
        size = len(tags)
        self._start, self._step, self._end = np.zeros(size), np.zeros((size, size)), np.zeros(size)
        if well_formed:
            closing = any(tag[0] == "E" for tag in tags)
            self._start[:] = [_cost("O", tag, closing) for tag in tags]
            self._step[:] = [[_cost(before, tag, closing) for tag in tags] for before in tags]
            self._end[:] = [_cost(tag, "O", closing) for tag in tags]
        self._plain = not well_formed

    def best(self, scores: np.ndarray, lengths: np.ndarray, transitions: np.ndarray | None) -> np.ndarray:
        """Indices of the likeliest tags, int64 [N]; scores [N, K], sentence after sentence; lengths int [B].

        transitions: a CRF's [K, K], or None where each token stands for itself; the scores are then logits, and the
        likeliest well-formed sequence under the tokens' independent distributions is the one with the largest sum.
        """
        if transitions is None and self._plain:
            likeliest: np.ndarray = scores.argmax(-1)
            return likeliest
        step = self._step if transitions is None else self._step + transitions
        best = np.empty(len(scores), dtype=np.int64)
        _viterbi(scores.astype(np.float64), lengths, self._start, step, self._end, best)
        return best


def _cost(before: str, tag: str, closing: bool) -> float:
    """0 where ``tag`` may follow ``before``, else FORBIDDEN; outside of a sentence is O. closing: a name that was begun
    has to be closed by E-X."""
    goes_on = before[0] in "BI" and tag[0] in "IE" and before[2:] == tag[2:]
    left_open = closing and before[0] in "BI"
    return 0.0 if goes_on or not (left_open or tag[0] in "IE") else FORBIDDEN


@njit(cache=True, nogil=True)
def _viterbi(scores, lengths, start, step, end, best):  # type: ignore[no-untyped-def]
    size = scores.shape[1]
    value, fresh = np.empty(size), np.empty(size)
    came = np.empty((lengths.max(), size), np.int64)
    first = 0
    for length in lengths:
        value[:] = scores[first] + start
        for t in range(1, length):
            for j in range(size):
                top, chosen = -np.inf, 0
                for i in range(size):
                    candidate = value[i] + step[i, j]
                    if candidate > top:
                        top, chosen = candidate, i
                fresh[j] = top + scores[first + t, j]
                came[t, j] = chosen
            value[:] = fresh
        tag = (value + end).argmax()
        for t in range(length - 1, -1, -1):
            best[first + t] = tag
            tag = came[t, tag] if t > 0 else tag
        first += length
