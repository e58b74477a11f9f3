"""What a person loses who is named in several training sentences: ε for adding or removing k sentences at once.

k times the ε of one sentence is no bound at the same δ. Under Poisson sampling a step draws each of the k with the same
probability q, and at worst their clipped gradients point the same way: the sum moves by j·C with probability
Binomial(k, q)[j], and noise σ·C hides it. Σ_j Binomial(k, q)[j] · N(j/σ, 1) beside N(0, 1) dominates what a step does,
in both directions (Ganesh 2024, "Tight Group-Level DP Guarantees for DP-SGD with Sampling via Mixture of Gaussians
Mechanisms"; at k = 1 it is the pair behind :func:`engine.privacy.accounting.epsilon`). The privacy loss of
one step is put on a grid here, since the dp_accounting that we use knows no such mixtures; dp_accounting composes the
steps. The grid keeps the mass of both distributions in each of its cells, which makes the pair easier to tell apart,
never harder ("connect the dots", Doroshenko et al. 2022).

Where there are several parts (clients, pieces of a phase), a person's sentences may lie in any of them. For parts that
are alike, all k in one part is the worst: as random sensitivities, (i, j) in two parts has inner products no larger
than i + j in one part, and by Kahane's inequality (1985) the divergence, a convex function of the likelihood ratio,
grows with them. By the same inequality it grows with q. So the steps of all parts are laid side by side, the first with
the first, and each is priced as if all k were in the part with the largest q among those that still train. This holds
however the sentences are spread; for parts of one size nothing is given away.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from engine.errors import InvalidConfig
from engine.privacy.accounting import epsilon
from engine.privacy.plan import PrivacyPlan

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST_GROUP = 1000
"""Sentences of one person."""
_MOST_LEVELS = 6
"""Different sampling probabilities that are priced apart; more are rounded up to these."""
_FINENESS = 0.02
"""Width of the grid divided by the standard deviation of one step's loss: raises ε by at most a few parts in 10,000."""
_MOST_CELLS = 300_000
"""Of the grid of one step; losses that span more of it get a wider one."""
_FINEST = 1e-6
"""Width of the grid times steps, below which nothing is gained."""
_TAIL = 1e-4
"""Share of δ that all steps together may give to outcomes that are cut off."""


def check_size(size: int) -> None:
    """Raises InvalidConfig unless a person may have so many sentences."""
    if not 1 <= size <= LARGEST_GROUP:
        raise InvalidConfig(f"group_size={size:,}, expected 1 to {LARGEST_GROUP:,} sentences")


def group_epsilon(parts: Iterable[tuple[PrivacyPlan, int]], size: int) -> float:
    """ε of a person with ``size`` sentences, wherever in these parts they lie, with the steps taken on each part.

    The parts are disjoint and share noise multiplier and δ. An upper bound at that δ; of one sentence, what
    :func:`engine.privacy.accounting.epsilon` says. ∞ without noise, 0 without steps. Raises InvalidConfig for a size
    out of range and for shuffled batches: taking sentences out moves others into other batches, and what that adds is
    not known.
    """
    check_size(size)
    taken = {(plan.sampling_probability, steps): (plan, steps) for plan, steps in parts if steps > 0}
    if not taken:
        return 0.0
    plan, _ = next(iter(taken.values()))
    if any(part.sampling != "poisson" for part, _ in taken.values()):
        raise InvalidConfig("sampling='shuffle', expected 'poisson': of shuffled batches no ε is known for a person")
    if not plan.private:
        return math.inf
    if size == 1:
        return _of_one_sentence(list(taken.values()))
    return _mixture_epsilon(tuple(side_by_side(taken)), 1 / plan.noise_multiplier, plan.delta, size)


def _of_one_sentence(parts: list[tuple[PrivacyPlan, int]]) -> float:
    if len(parts) == 1:
        return epsilon(*parts[0])
    # Rényi accounting is quick and never below the exact ε, so it says which parts may cost most.
    bounds = sorted(((epsilon(plan, steps, "rdp"), steps, plan) for plan, steps in parts), key=lambda one: -one[0])
    largest = 0.0
    for bound, steps, plan in bounds:
        if bound > largest:
            largest = max(largest, epsilon(plan, steps))
    return largest


def side_by_side(parts: Iterable[tuple[float, int]]) -> list[tuple[float, int]]:
    """The sampling probabilities and steps that bound these, whoever's sentences lie where: the steps of all parts in
    one line, each with the largest probability among the parts that take so many, rounded up to few."""
    ordered = sorted(set(parts), key=lambda part: -part[1])
    levels: list[tuple[float, int]] = []
    largest = 0.0
    for (probability, steps), after in zip(ordered, [steps for _, steps in ordered[1:]] + [0], strict=True):
        largest = max(largest, probability)
        if levels and levels[-1][0] == largest:
            levels[-1] = largest, levels[-1][1] + steps - after
        elif steps > after:
            levels.append((largest, steps - after))
    while len(levels) > _MOST_LEVELS:
        # A step's loss varies about as q², so this is what rounding each level up to the next would add.
        added = [(higher**2 - low**2) * steps for (low, steps), (higher, _) in pairwise(levels)]
        place = added.index(min(added))
        (_, first), (probability, second) = levels[place : place + 2]
        levels[place : place + 2] = [(probability, first + second)]
    return levels


@lru_cache(maxsize=1024)
def _mixture_epsilon(levels: tuple[tuple[float, int], ...], mu: float, delta: float, size: int) -> float:
    """ε of so many steps at each sampling probability, in the worse of the two directions. mu: 1/σ."""
    tail = _TAIL * delta / sum(steps for _, steps in levels)
    pairs = [_Pair.of(probability, mu, size, tail) for probability, _ in levels]
    found = 0.0
    for removed in (True, False):
        width = min(pair.width(removed=removed) for pair in pairs)
        span = max(pair.losses[-1] - pair.losses[0] for pair in pairs)
        width = max(width, span / _MOST_CELLS, _FINEST / sum(steps for _, steps in levels))
        spent = _nothing(width)
        for pair, (_, steps) in zip(pairs, levels, strict=True):
            spent = spent.then(pair.distribution(width, removed=removed).times(steps))
        found = max(found, spent.epsilon(delta))
    return found


@dataclass(frozen=True)
class _Losses:
    """A privacy loss on a grid. width: between its points. first: the lowest of them ÷ width. masses: probability of
    each. cut: probability of outcomes that are counted as certain recognition."""

    width: float
    first: int
    masses: "NDArray[np.float64]"
    cut: float

    def times(self, steps: int) -> "_Losses":
        """Of so many such steps."""
        from dp_accounting.pld.common import self_convolve

        truncated = 1e-15
        first, masses = self_convolve(self.masses, steps, truncated)
        cut = truncated - math.expm1(steps * math.log1p(-self.cut))
        return _Losses(self.width, first + steps * self.first, np.asarray(masses), cut)

    def then(self, other: "_Losses") -> "_Losses":
        """Of both, one after the other."""
        from scipy.signal import fftconvolve

        cut = self.cut + other.cut - self.cut * other.cut
        return _Losses(self.width, self.first + other.first, fftconvolve(self.masses, other.masses), cut)

    def epsilon(self, delta: float) -> float:
        """The smallest ε ≥ 0 with cut + Σ mass·(1 − e^(ε − loss)) ≤ δ, over losses above ε."""
        from scipy.signal import lfilter

        masses = self.masses[max(0, -self.first) :]
        lowest = max(0, self.first)
        if self.cut > delta or not len(masses):
            return math.inf if self.cut > delta else 0.0
        # From the top down: the mass at and above each loss, and the same weighed with e^(that loss − each loss above).
        upper = self.cut + np.cumsum(masses[::-1])[::-1]
        lower = lfilter([1.0], [1.0, -math.exp(-self.width)], masses[::-1])[::-1]
        too_low = np.flatnonzero(upper - lower > delta)
        if not len(too_low) and not lowest:
            return 0.0
        place = int(too_low[-1]) + 1 if len(too_low) else 0
        return max(0.0, (lowest + place) * self.width + math.log((upper[place] - delta) / lower[place]))


def _nothing(width: float) -> _Losses:
    return _Losses(width, 0, np.ones(1), 0.0)


@dataclass(frozen=True)
class _Pair:
    """What one step shows of a person: N(0, 1) without them, a mixture of Gaussians with them.

    weights, shifts: of the mixture, [m]. tail: probability that may be cut off on either side; dropped: weight of the
    components that were. points: values that the step may have, ascending; losses: ln(mixture density ÷ that of
    N(0, 1)) there, ascending and convex.
    """

    weights: "NDArray[np.float64]"
    shifts: "NDArray[np.float64]"
    tail: float
    dropped: float
    points: "NDArray[np.float64]"
    losses: "NDArray[np.float64]"

    @classmethod
    def of(cls, probability: float, mu: float, size: int, tail: float) -> "_Pair":
        from scipy.special import ndtri
        from scipy.stats import binom

        count = np.arange(size + 1)
        weights = binom.pmf(count, size, probability)
        kept = weights > tail / (size + 1)
        shifts = mu * count[kept]
        low, high = float(ndtri(tail)), float(shifts[-1] - ndtri(tail))
        points = np.linspace(low, high, min(50_000, math.ceil((high - low) / 0.01)))
        # Above the last kept component alone, its own weight counts: the mixture thins out sooner than a Gaussian.
        above = _above(points, weights[kept], shifts)
        points = points[: int(np.searchsorted(-above, -tail)) + 1]
        losses, _ = _loss(points, weights[kept], shifts)
        return cls(weights[kept], shifts, tail, float(weights[~kept].sum()), points, losses)

    def width(self, *, removed: bool) -> float:
        """Of the cells of the grid."""
        with_them, without = self._masses(self.points)
        masses = with_them if removed else without
        middle = (self.losses[1:] + self.losses[:-1]) / 2
        mean = float(masses @ middle)
        return _FINENESS * math.sqrt(float(masses @ (middle - mean) ** 2))

    def distribution(self, width: float, *, removed: bool) -> _Losses:
        """Privacy loss of removing the person (else: of adding them) on a grid of multiples of ``width``."""
        first, last = math.floor(self.losses[0] / width), math.ceil(self.losses[-1] / width)
        grid = np.arange(first, last + 1)
        edges = self._points_of(grid[1:-1] * width)
        edges = np.concatenate([self.points[:1], edges, self.points[-1:]])
        masses, others = self._masses(edges)
        if removed:
            probs, start = _connected(masses, others, grid[:-1] * width, width), first
        else:
            probs, start = _connected(others[::-1], masses[::-1], -grid[:0:-1] * width, width), -last
        # What lies below the grid is lifted onto it, what lies above counts as certain recognition.
        probs[1] += max(0.0, 1.0 - float(probs.sum()) - self._cut(removed))
        low = min(int(np.searchsorted(np.cumsum(probs), self.tail)), len(probs) - 2)
        probs[low] += probs[:low].sum()
        return _Losses(width, start + low, probs[low:], self._cut(removed))

    def _cut(self, removed: bool) -> float:
        """Probability of outcomes whose loss is not bounded here."""
        if not removed:
            return self.tail
        return self.dropped + float(_above(self.points[-1:], self.weights, self.shifts)[0])

    def _points_of(self, losses: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Where the loss has these values: Newton's method within the cell of ``points`` that holds each."""
        above = np.clip(np.searchsorted(self.losses, losses), 1, len(self.points) - 1)
        low, high = self.points[above - 1], self.points[above]
        found = np.interp(losses, self.losses, self.points)
        for _ in range(4):
            value, slope = _loss(found, self.weights, self.shifts)
            found = np.clip(found + (losses - value) / np.maximum(slope, 1e-300), low, high)
        return np.maximum.accumulate(found)

    def _masses(self, edges: "NDArray[np.float64]") -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """Probability between neighbouring edges with the person and without, [edges − 1] each."""
        mixed = sum(weight * _between(edges - shift) for weight, shift in zip(self.weights, self.shifts, strict=True))
        return np.asarray(mixed), _between(edges)


def _connected(
    masses: "NDArray[np.float64]", others: "NDArray[np.float64]", lower: "NDArray[np.float64]", width: float
) -> "NDArray[np.float64]":
    """Mass on the ends of the cells [cells + 1]: each cell's, split so that the other distribution's is kept too.

    a + b = mass and a·e^−lower + b·e^−(lower + width) = other. Where rounding breaks this, all goes to the upper end.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        share = (np.exp(lower + np.log(others) - np.log(masses)) - math.exp(-width)) / -math.expm1(-width)
    below = masses * np.nan_to_num(np.clip(share, 0.0, 1.0), nan=0.0)
    split: NDArray[np.float64] = np.append(below, 0.0) + np.append(0.0, masses - below)
    return split


def _loss(
    points: "NDArray[np.float64]", weights: "NDArray[np.float64]", shifts: "NDArray[np.float64]"
) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """ln Σ w·e^(s·x − s²/2) and its derivative."""
    terms = np.log(weights) + points[:, None] * shifts - shifts**2 / 2  # [points, m]
    largest = terms.max(axis=1)
    terms = np.exp(terms - largest[:, None])
    total = terms.sum(axis=1)
    return largest + np.log(total), terms @ shifts / total


def _between(edges: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Standard normal probability between neighbouring edges, by the tail that is the smaller, so that no digits go."""
    from scipy.special import ndtr

    right = edges[:-1] > 0
    below, beyond = ndtr(edges), ndtr(-edges)
    return np.where(right, beyond[:-1] - beyond[1:], below[1:] - below[:-1])


def _above(
    points: "NDArray[np.float64]", weights: "NDArray[np.float64]", shifts: "NDArray[np.float64]"
) -> "NDArray[np.float64]":
    """Probability of the mixture above each point."""
    from scipy.special import ndtr

    return np.asarray(sum(weight * ndtr(shift - points) for weight, shift in zip(weights, shifts, strict=True)))
