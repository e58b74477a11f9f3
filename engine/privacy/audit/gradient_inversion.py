"""Gradient inversion: recovery of a batch's words from the gradient of a tagger's first kernel.

Where word vectors x_t meet a kernel W [d, m], its gradient is Σ_t x_t δ_tᵀ. Its columns are sums of the batch's word
vectors, and span the same space if there are fewer vectors than d. The attack tests for each vector of the public
vocabulary whether it lies in that space (Petrov et al. 2024, "DAGER: Exact Gradient Inversion for Large Language
Models", section 4, which does this for the queries of self-attention). Without noise the result is exact. Clipping
changes only lengths, and a weight update of several SGD steps is a sum of gradients, so the space does not change.
Under noise, the attack uses the directions above the noise; if the space has full rank, it uses the strongest ones.
Their number and the threshold are chosen on sentences that the attacker has.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.taggers.layers import BidirectionalLSTM, Dense, Window
from engine.taggers.tagger import Tagger

ROUNDING = 2.0**-24
"""Largest relative error of a float32."""
STRICT = 1e-4
"""Share of a vector's squared length outside the space, up to which the vector counts as inside. It allows for
rounding.
"""


@dataclass(frozen=True)
class Space:
    """The column space of a gradient.

    Attributes:
        basis: Orthonormal basis, float32 [d, r].
        values: Singular values of the gradient, float64 [d], descending.
        floor: Largest singular value that noise and rounding alone can reach.
    """

    basis: np.ndarray
    values: np.ndarray
    floor: float

    @property
    def is_full_rank(self) -> bool:
        """Whether it is the whole space: then every word lies in it, and the attack fails."""
        return bool(self.basis.shape[1] >= self.basis.shape[0])

    @property
    def rank(self) -> int:
        """Dimension of the space, r."""
        return int(self.basis.shape[1])


def first_kernels(tagger: Tagger, flat: np.ndarray) -> np.ndarray:
    """Return the part of a gradient or weight update [size] for the kernels that word vectors meet: [d, m].

    d is the number of a token's features. Raises ValueError for a tagger with another first layer.
    """
    for layer, views in zip(tagger.layers, tagger.views(flat), strict=False):
        if isinstance(layer, Window):
            continue
        if isinstance(layer, BidirectionalLSTM):
            return np.concatenate([views["forward/kernel"], views["backward/kernel"]], axis=1)
        if isinstance(layer, Dense):
            return views["kernel"][: tagger.dimensions]
        break
    raise ValueError("the first layer of this tagger is neither an LSTM nor dense")


def space_of(gradient: np.ndarray, noise_std: float = 0.0) -> Space:
    """Return the space that the columns of a gradient [d, m] span.

    Args:
        gradient: Gradient of the first kernel, [d, m].
        noise_std: Standard deviation of independent noise on each of its values.
    """
    values = gradient.astype(np.float64)
    return space_of_products(values @ values.T, values.shape[1], noise_std)


def space_of_products(products: np.ndarray, columns: int, noise_std: float = 0.0) -> Space:
    """Return the same space from G Gᵀ of a gradient G.

    The largest singular value of the noise alone is close to noise_std · (√d + √m) (Vershynin 2018, theorem 7.3.1).
    Singular values up to that bound count as noise. The gradient itself is a rounded float32.

    Args:
        products: G Gᵀ, float64 [d, d].
        columns: Number of columns of G, m.
        noise_std: Standard deviation of independent noise on each value of G.
    """
    squares, directions = np.linalg.eigh(products)
    lengths = np.sqrt(np.maximum(squares[::-1], 0.0))
    rounding = 4 * ROUNDING * float(lengths[0])
    floor = max(1.02 * noise_std * (math.sqrt(len(products)) + math.sqrt(columns)), rounding)
    kept = int((lengths > floor).sum())
    return Space(directions[:, ::-1][:, :kept].astype(np.float32), lengths, floor)


def residual_norm(space: Space, vocabulary: np.ndarray) -> np.ndarray:
    """Return the share of each vector's squared length that lies outside the space, [V].

    It is 0 for vectors inside the space, and 1 for vectors orthogonal to it and for zero vectors of ``vocabulary`` [V,
    d].
    """
    shares: np.ndarray = residual_norm_topk(space, vocabulary, [space.rank])[0]
    return shares


def squared_lengths(vocabulary: np.ndarray) -> np.ndarray:
    """Return the squared length of each vector, [V]."""
    return np.asarray(np.square(vocabulary).sum(1))


def residual_norm_topk(
    space: Space, vocabulary: np.ndarray, directions: Sequence[int], lengths: np.ndarray | None = None
) -> np.ndarray:
    """Return the residual shares for several numbers of the space's strongest directions, [len(directions), V].

    Args:
        space: Column space of the gradient.
        vocabulary: Word vectors, [V, d].
        directions: Numbers of directions to keep.
        lengths: Squared lengths of the vectors, [V]; computed if None.
    """
    lengths = squared_lengths(vocabulary) if lengths is None else lengths
    residuals = np.ones((len(directions), len(vocabulary)), dtype=np.float32)
    inside, before = np.zeros(len(vocabulary), dtype=np.float32), 0
    for index in np.argsort(directions, kind="stable"):
        inside = inside + np.square(vocabulary @ space.basis[:, before : directions[index]]).sum(1)
        before = directions[index]
        shares = np.divide(inside, lengths, out=np.zeros_like(inside), where=lengths > 0)
        residuals[index] = np.maximum(1 - shares, 0.0)
    return residuals


def threshold(found: np.ndarray, there: np.ndarray) -> tuple[float, float]:
    """Return the residual share with the largest F1 on sentences that the attacker knows, and that F1 (0 to 1).

    A word counts as present if its residual share is at most the threshold.

    Args:
        found: Residual shares, [V], at least one.
        there: Words that these sentences contain, bool [V].
    """
    order = np.argsort(found, kind="stable")
    shares, hits = found[order], np.cumsum(there[order])
    scores = 2 * hits / (np.arange(1, len(order) + 1) + there.sum())
    ends = np.append(shares[1:] > shares[:-1], True)  # words with equal shares are predicted together
    best = int(np.argmax(np.where(ends, scores, -1.0)))
    after = shares[min(best + 1, len(order) - 1)]
    return max(STRICT, (float(shares[best]) + float(after)) / 2), float(scores[best])


def read(space: Space, vocabulary: np.ndarray, largest: float = STRICT) -> np.ndarray:
    """Return the vectors of the vocabulary that the attack predicts for the batch, bool [V].

    The prediction is empty if the space is empty or has full rank.

    Args:
        space: Column space of the gradient.
        vocabulary: Word vectors, [V, d].
        largest: Largest residual share; see :func:`threshold`.
    """
    if space.is_full_rank or not space.rank:
        return np.zeros(len(vocabulary), dtype=bool)
    predicted: np.ndarray = residual_norm(space, vocabulary) <= largest
    return predicted


def precision_and_recall(said: np.ndarray, there: np.ndarray) -> tuple[float, float]:
    """Return precision and recall, 0 to 1, of the predicted words; the precision of an empty prediction is 0.

    Args:
        said: Predicted words, bool [V].
        there: Words of the batch, bool [V].
    """
    right = int((said & there).sum())
    return right / max(1, int(said.sum())), right / max(1, int(there.sum()))
