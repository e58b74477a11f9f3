"""Heads of a tagger: the loss of each sentence from the scores of its tags, and its derivatives.

*Softmax*: each token separately (TDDL). *CRF*: a linear chain with a score for each pair of neighbouring tags
(Lafferty, McCallum, Pereira 2001; Lample et al. 2016, section 2.2). With scores s and transitions A, the loss of tags y
is

    log Σ_{y'} exp(S(y')) − S(y),   S(y) = Σ_t s[t, y_t] + Σ_t A[y_t, y_{t+1}],

and its derivatives with respect to s and A are marginal probabilities minus the indicators of the true tags. The
marginals come from two passes. The first runs from the last token to the first, in logarithms, and gives
p(y_{t+1} | y_t). The second runs forward and needs no exponential.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit, prange

from engine.taggers.layers import CRF
from engine.training.batches import Batch
from engine.training.compiled.arithmetic import ARITHMETIC, PARTS


@dataclass(frozen=True)
class HeadTape:
    """Losses and derivatives.

    Attributes:
        losses: Loss of each sentence in nats, [B].
        slope: dL/dscores, [N, K].
        transitions: Gradient of each sentence with respect to A, [B, K, K]; empty without a CRF.
    """

    losses: np.ndarray
    slope: np.ndarray
    transitions: np.ndarray


class SoftmaxHead:
    """Cross-entropy at each token, without weights. ``mean``: whether a loss is the mean over its tokens."""

    def __init__(self, mean: bool) -> None:
        self.mean = mean

    def losses(self, weights: np.ndarray, scores: np.ndarray, batch: Batch) -> HeadTape:
        """Return losses and slopes from scores [N, K], which are overwritten."""
        losses = np.empty(len(batch.lengths))
        _softmax(scores, batch.tags, batch.offsets, batch.lengths, self.mean, losses)
        return HeadTape(losses, scores, np.empty(0))

    def add_squared_norms(self, tape: HeadTape, batch: Batch, squares: np.ndarray) -> None:
        """Do nothing: there are no weights."""

    def weighted_gradient(self, tape: HeadTape, factors: np.ndarray, batch: Batch, total: np.ndarray) -> None:
        """Do nothing: there are no weights."""


class CRFHead:
    """Negative log-likelihood of a chain, with the transitions A, flat [K·K], as weights. ``mean``: divided by the
    length.
    """

    def __init__(self, shape: CRF, mean: bool) -> None:
        self.tags, self.mean = shape.tags, mean

    def losses(self, weights: np.ndarray, scores: np.ndarray, batch: Batch) -> HeadTape:
        """Return losses, slopes and the transitions' gradients from scores [N, K], which are overwritten."""
        losses = np.empty(len(batch.lengths))
        gradients = np.empty((len(batch.lengths), self.tags, self.tags), weights.dtype)
        transitions = weights.reshape(self.tags, self.tags).astype(np.float64)
        _chain(scores, batch.tags, transitions, batch.offsets, batch.lengths, self.mean, losses, gradients)
        return HeadTape(losses, scores, gradients)

    def add_squared_norms(self, tape: HeadTape, batch: Batch, squares: np.ndarray) -> None:
        """Add the transitions' share to each sentence's squared gradient norm, [B]."""
        squares += np.einsum("bij,bij->b", tape.transitions, tape.transitions, dtype=np.float64)

    def weighted_gradient(self, tape: HeadTape, factors: np.ndarray, batch: Batch, total: np.ndarray) -> None:
        """Write Σ_i factor_i · G_i of the transitions to ``total`` [K·K]."""
        total[:] = factors @ tape.transitions.reshape(len(factors), -1)


@njit(cache=True, parallel=True, fastmath=ARITHMETIC)
def _softmax(scores, tags, offsets, lengths, mean, losses):  # type: ignore[no-untyped-def]
    """Write each sentence's cross-entropy to ``losses`` and overwrite ``scores`` [N, K] with its derivative."""
    for part in prange(PARTS):
        for k in range(part, lengths.size, PARTS):
            weight = 1.0 / lengths[k] if mean else 1.0
            total = 0.0
            for row in range(offsets[k], offsets[k] + lengths[k]):
                line = scores[row]
                top = line.max()
                mass = 0.0
                for j in range(line.size):
                    mass += math.exp(line[j] - top)
                total += math.log(mass) + top - line[tags[row]]
                for j in range(line.size):
                    line[j] = weight * math.exp(line[j] - top) / mass
                line[tags[row]] -= weight
            losses[k] = weight * total


@njit(cache=True, parallel=True, fastmath=ARITHMETIC)
def _chain(scores, tags, transitions, offsets, lengths, mean, losses, gradients):  # type: ignore[no-untyped-def]
    """Compute the same for the chain, and ``gradients`` [B, K, K] with respect to the transitions.

    future[j]: logarithm of the mass of everything after a token, given that its tag is j. next_tag[t, i, j]:
    p(y_{t+1} = j | y_t = i).
    """
    size = scores.shape[1]
    for part in prange(PARTS):
        next_tag = np.empty((lengths[part] if part < lengths.size else 0, size, size))
        future, ahead, now = np.empty(size), np.empty(size), np.empty(size)
        for k in range(part, lengths.size, PARTS):
            start, length = offsets[k], lengths[k]
            weight = 1.0 / length if mean else 1.0
            future[:] = 0.0
            for t in range(length - 2, -1, -1):
                for j in range(size):
                    ahead[j] = scores[start + t + 1, j] + future[j]
                for i in range(size):
                    line = next_tag[t, i]
                    top = -np.inf
                    for j in range(size):
                        line[j] = transitions[i, j] + ahead[j]
                        top = max(top, line[j])
                    mass = 0.0
                    for j in range(size):
                        line[j] = math.exp(line[j] - top)
                        mass += line[j]
                    for j in range(size):
                        line[j] /= mass
                    future[i] = math.log(mass) + top
            top, mass, gold = -np.inf, 0.0, 0.0
            for j in range(size):
                now[j] = scores[start, j] + future[j]
                top = max(top, now[j])
            for j in range(size):
                now[j] = math.exp(now[j] - top)
                mass += now[j]
            for j in range(size):
                now[j] /= mass
            own = gradients[k]
            own[:] = 0
            for t in range(length):
                row, tag = start + t, tags[start + t]
                gold += scores[row, tag]
                for j in range(size):
                    scores[row, j] = weight * now[j]
                scores[row, tag] -= weight
                if t + 1 < length:
                    gold += transitions[tag, tags[row + 1]]
                    own[tag, tags[row + 1]] -= weight
                    ahead[:] = 0.0
                    for i in range(size):
                        for j in range(size):
                            both = now[i] * next_tag[t, i, j]
                            ahead[j] += both
                            own[i, j] += weight * both
                    for j in range(size):
                        now[j] = ahead[j]
            losses[k] = weight * (math.log(mass) + top - gold)
