"""Decoding of scores to the most likely tags, by the Viterbi algorithm (1967) where tags depend on their neighbours.

In BIO2 the tag I-X may only follow B-X or I-X. In BIOES so may E-X, and one of the two must: an entity continues to its
E-X within the sentence. Decoding can forbid ill-formed sequences and return the most likely well-formed one. This
changes neither training nor privacy.
"""

from collections.abc import Sequence

import numpy as np
from numba import njit

FORBIDDEN = -np.inf


class Decoder:
    """Decodes tags from scores.

    Args:
        tags: Tag names in the order of the scores' columns; BIOES if one begins with E-, else BIO2.
        well_formed: Whether to forbid ill-formed sequences.
    """

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
        """Return the indices of the most likely tags, int64 [N].

        Args:
            scores: [N, K], sentence after sentence.
            lengths: Tokens of each sentence, int [B].
            transitions: Scores [K, K] of a CRF, or None where each token is independent. The scores are then logits,
                and the most likely well-formed sequence has the largest sum.
        """
        if transitions is None and self._plain:
            likeliest: np.ndarray = scores.argmax(-1)
            return likeliest
        step = self._step if transitions is None else self._step + transitions
        best = np.empty(len(scores), dtype=np.int64)
        _viterbi(scores.astype(np.float64), lengths, self._start, step, self._end, best)
        return best


def _cost(before: str, tag: str, closing: bool) -> float:
    """Return 0 where ``tag`` may follow ``before``, else FORBIDDEN; outside a sentence the tag is O.

    Args:
        before: A tag.
        tag: The next tag.
        closing: Whether an entity must be closed by E-X.
    """
    continues = before[0] in "BI" and tag[0] in "IE" and before[2:] == tag[2:]
    left_open = closing and before[0] in "BI"
    return 0.0 if continues or not (left_open or tag[0] in "IE") else FORBIDDEN


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
