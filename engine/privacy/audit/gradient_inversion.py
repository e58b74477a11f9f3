"""Gradient inversion: which words a batch had, read from the gradient of a tagger's first kernel.

Where word vectors x_t meet a kernel W [d, m], its gradient is Σ_t x_t δ_tᵀ: its columns are sums of the batch's word
vectors, and span the same space as long as there are fewer of them than d. So ask of each vector of the public
vocabulary whether it lies in that space (Petrov et al. 2024, "DAGER: Exact Gradient Inversion for Large Language
Models", section 4, which does this for the queries of self-attention). Without noise the answer is exact. Clipping
changes lengths alone, and a weight update of several SGD steps is a sum of gradients: the space stays what it was.
Under noise the directions count that stand out of it, and where the space is full, the strongest ones; how many, and
the threshold, are chosen on sentences that the attacker has.
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
"""Share of a vector's squared length outside the space up to which it lies in it, but for rounding."""


@dataclass(frozen=True)
class Space:
    """What a gradient's columns span. basis: float32 [d, r], orthonormal. values: float64 [d], the gradient's singular
    values, descending. floor: what noise and rounding alone may reach, in the same unit."""

    basis: np.ndarray
    values: np.ndarray
    floor: float

    @property
    def is_full_rank(self) -> bool:
        """Whether it is all there is: then every word lies in it, and nothing can be told."""
        return self.basis.shape[1] >= self.basis.shape[0]

    @property
    def rank(self) -> int:
        """Its dimension, r."""
        return int(self.basis.shape[1])


def first_kernels(tagger: Tagger, flat: np.ndarray) -> np.ndarray:
    """What of a gradient, or of a weight update, [size], belongs to the kernels that word vectors meet: [d, m], where d
    is the number of a token's features. Raises ValueError for a tagger whose first layer is another one."""
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
    """The space that the columns of a gradient [d, m] span. noise_std: of independent noise on each of its values."""
    values = gradient.astype(np.float64)
    return space_of_products(values @ values.T, values.shape[1], noise_std)


def space_of_products(products: np.ndarray, columns: int, noise_std: float = 0.0) -> Space:
    """The same from G Gᵀ, float64 [d, d], of a gradient with so many columns.

    The largest singular value of such noise alone is close to noise_std · (√d + √m) (Vershynin 2018, theorem 7.3.1);
    what is not above that is taken for noise. The gradient itself is a float32, rounded.
    """
    squares, directions = np.linalg.eigh(products)
    lengths = np.sqrt(np.maximum(squares[::-1], 0.0))
    rounding = 4 * ROUNDING * float(lengths[0])
    floor = max(1.02 * noise_std * (math.sqrt(len(products)) + math.sqrt(columns)), rounding)
    kept = int((lengths > floor).sum())
    return Space(directions[:, ::-1][:, :kept].astype(np.float32), lengths, floor)


def residual_norm(space: Space, vocabulary: np.ndarray) -> np.ndarray:
    """The share of each vector's squared length that lies outside the space, [V]: 0 within it, 1 for what is orthogonal
    to it, and for vectors [V, d] that are zero."""
    found: np.ndarray = residual_norm_topk(space, vocabulary, [space.rank])[0]
    return found


def squared_lengths(vocabulary: np.ndarray) -> np.ndarray:
    """Of each vector, [V]."""
    return np.asarray(np.square(vocabulary).sum(1))


def residual_norm_topk(
    space: Space, vocabulary: np.ndarray, directions: Sequence[int], lengths: np.ndarray | None = None
) -> np.ndarray:
    """The same where only so many of the space's strongest directions are kept, [len(directions), V]. lengths: of the
    vectors, squared, where they are known."""
    lengths = squared_lengths(vocabulary) if lengths is None else lengths
    found = np.ones((len(directions), len(vocabulary)), dtype=np.float32)
    inside, before = np.zeros(len(vocabulary), dtype=np.float32), 0
    for place in np.argsort(directions, kind="stable"):
        inside = inside + np.square(vocabulary @ space.basis[:, before : directions[place]]).sum(1)
        before = directions[place]
        shares = np.divide(inside, lengths, out=np.zeros_like(inside), where=lengths > 0)
        found[place] = np.maximum(1 - shares, 0.0)
    return found


def threshold(found: np.ndarray, there: np.ndarray) -> tuple[float, float]:
    """Up to which share outside a word is said to be there, so that F1 is largest on sentences that the attacker knows;
    and that F1, 0 to 1.

    found: shares outside, [V], at least one; there: which words these sentences have, bool [V].
    """
    order = np.argsort(found, kind="stable")
    shares, hits = found[order], np.cumsum(there[order])
    scores = 2 * hits / (np.arange(1, len(order) + 1) + there.sum())
    ends = np.append(shares[1:] > shares[:-1], True)  # of words with equal shares all are said, or none
    best = int(np.argmax(np.where(ends, scores, -1.0)))
    after = shares[min(best + 1, len(order) - 1)]
    return max(STRICT, (float(shares[best]) + float(after)) / 2), float(scores[best])


def read(space: Space, vocabulary: np.ndarray, largest: float = STRICT) -> np.ndarray:
    """Which vectors of the vocabulary [V, d] the batch is said to have had, bool [V]: none where the space is full or
    empty. largest: share outside; see :func:`threshold`."""
    if space.is_full_rank or not space.rank:
        return np.zeros(len(vocabulary), dtype=bool)
    said: np.ndarray = residual_norm(space, vocabulary) <= largest
    return said


def precision_and_recall(said: np.ndarray, there: np.ndarray) -> tuple[float, float]:
    """Of what was said to be there and of what was there, bool [V]: 0 to 1. Who says nothing has a precision of 0."""
    right = int((said & there).sum())
    return right / max(1, int(said.sum())), right / max(1, int(there.sum()))
