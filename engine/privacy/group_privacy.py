"""Group privacy: ε for adding or removing k sentences at once, for a person named in several training sentences.

k times the ε of one sentence is no bound at the same δ. Under Poisson sampling a step samples each of the k sentences
with the same probability q. In the worst case their clipped gradients point the same way. The sum then moves by j·C
with probability Binomial(k, q)[j], under noise σ·C. The pair Σ_j Binomial(k, q)[j] · N(j/σ, 1) and N(0, 1) dominates a
step in both directions (Ganesh 2024, "Tight Group-Level DP Guarantees for DP-SGD with Sampling via Mixture of Gaussians
Mechanisms"). At k = 1 it is the pair behind :func:`engine.privacy.accounting.epsilon`. This module discretises the
privacy loss of one step, since dp_accounting takes a hundred times as long for such mixtures. The grid keeps the mass
of both distributions in each of its cells. This makes the pair easier to distinguish, never harder ("connect the dots",
Doroshenko et al. 2022).

With several parts (clients, pieces of a phase), the k sentences may lie in any of them. For equal parts, all k in one
part is the worst case. As random sensitivities, (i, j) in two parts has inner products no larger than i + j in one
part. By Kahane's inequality (1985) the divergence, a convex function of the likelihood ratio, grows with them. By the
same inequality it grows with q. Therefore the steps of all parts are aligned, the first with the first. The accounting
of each assumes that all k sentences are in the part with the largest q among those that still train. This is valid for
any distribution of the sentences, and tight for parts of equal size.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from engine.errors import InvalidConfig
from engine.privacy.accounting import epsilon, smallest_delta
from engine.privacy.plan import PrivacyPlan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engine.privacy.pld import LossPmf

LARGEST_GROUP = 1000
"""Most sentences of one group."""
_MOST_LEVELS = 6
"""Number of different sampling probabilities in the accounting; more are rounded up to these."""
_FINENESS = 0.02
"""Grid width divided by the standard deviation of one step's loss: raises ε by at most a few parts in 10,000."""
_MOST_CELLS = 300_000
"""Most grid cells of one step; a wider range of losses takes a wider grid."""
_MOST_TERMS = 1_000_000
"""Most exponentials that are computed at once, for the memory."""
_FINEST = 1e-6
"""Grid width times steps, below which a finer grid gains nothing."""
_TAIL = 1e-4
"""Share of δ that all steps together may spend on truncated outcomes."""


def check_size(size: int) -> None:
    """Check that a group may have ``size`` sentences. Raises InvalidConfig otherwise."""
    if not 1 <= size <= LARGEST_GROUP:
        raise InvalidConfig(f"group_size={size:,}, expected 1 to {LARGEST_GROUP:,} sentences")


def group_epsilon(parts: Iterable[tuple[PrivacyPlan, int]], size: int) -> float:
    """Return ε of a group of ``size`` sentences, whichever of these parts they lie in.

    It is an upper bound at the parts' δ; for one sentence it equals :func:`engine.privacy.accounting.epsilon`.

    Args:
        parts: Disjoint parts, each with its number of steps taken; they share noise multiplier and δ.
        size: Number of sentences, k.

    Returns:
        ε; ∞ without noise, 0 without steps.

    Raises:
        InvalidConfig: For a size out of range, and for shuffled batches. Removing sentences there moves others into
            other batches, and no bound on that effect is known.
    """
    check_size(size)
    taken = {(plan.sampling_probability, steps): (plan, steps) for plan, steps in parts if steps > 0}
    if not taken:
        return 0.0
    plan, _ = next(iter(taken.values()))
    if any(part.sampling != "poisson" for part, _ in taken.values()):
        raise InvalidConfig("sampling='shuffle', expected 'poisson': no group ε is known for shuffled batches")
    if not plan.private:
        return math.inf
    if size == 1:
        return _of_one_sentence(list(taken.values()))
    return _mixture_epsilon(tuple(side_by_side(taken)), 1 / plan.noise_multiplier, plan.delta, size)


def _of_one_sentence(parts: list[tuple[PrivacyPlan, int]]) -> float:
    if len(parts) == 1:
        return epsilon(*parts[0])
    # Rényi accounting is fast and never below the exact ε, so it finds the candidates for the largest ε.
    bounds = sorted(((epsilon(plan, steps, "rdp"), steps, plan) for plan, steps in parts), key=lambda one: -one[0])
    largest = 0.0
    for bound, steps, plan in bounds:
        if bound > largest:
            largest = max(largest, epsilon(plan, steps))
    return largest


def side_by_side(parts: Iterable[tuple[float, int]]) -> list[tuple[float, int]]:
    """Return sampling probabilities and steps that bound these parts, whichever parts a group's sentences lie in.

    The steps of all parts are aligned, each with the largest probability among the parts that take so many steps.
    Probabilities are rounded up to a few levels.
    """
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
        # A step's loss varies about as q², so this is the increase from rounding each level up to the next.
        added = [(higher**2 - low**2) * steps for (low, steps), (higher, _) in pairwise(levels)]
        index = added.index(min(added))
        (_, first), (probability, second) = levels[index : index + 2]
        levels[index : index + 2] = [(probability, first + second)]
    return levels


@lru_cache(maxsize=1024)
def _mixture_epsilon(levels: tuple[tuple[float, int], ...], mu: float, delta: float, size: int) -> float:
    """Return ε of the steps at each sampling probability, in the worse of the two directions. ``mu`` is 1/σ."""
    from engine.privacy.pld import LossPmf

    if delta < smallest_delta(sum(steps for _, steps in levels)):
        return _mixture_rdp_epsilon(levels, mu, delta, size)
    tail = _TAIL * delta / sum(steps for _, steps in levels)
    pairs = [_Pair.of(probability, mu, size, tail) for probability, _ in levels]
    worst = 0.0
    for removed in (True, False):
        width = min(pair.width(removed=removed) for pair in pairs)
        span = max(pair.losses[-1] - pair.losses[0] for pair in pairs)
        width = max(width, span / _MOST_CELLS, _FINEST / sum(steps for _, steps in levels))
        parts = (
            pair.distribution(width, removed=removed).self_compose(steps)
            for pair, (_, steps) in zip(pairs, levels, strict=True)
        )
        worst = max(worst, reduce(LossPmf.compose, parts).get_epsilon_for_delta(delta))
    return worst


def _mixture_rdp_epsilon(levels: tuple[tuple[float, int], ...], mu: float, delta: float, size: int) -> float:
    """Return ε by Rényi accounting, in the worse of the two directions."""
    from dp_accounting.rdp import RdpAccountant, rdp_privacy_accountant

    orders = np.array([order for order in RdpAccountant().orders if order <= 256], np.float64)
    totals, tail = np.zeros((2, len(orders))), _TAIL * delta / sum(steps for _, steps in levels)
    for probability, steps in levels:
        totals += steps * _mixture_divergences(probability, mu, size, orders, tail)
    left = (1 - _TAIL) * delta
    return max(float(rdp_privacy_accountant.compute_epsilon(orders, total, left)[0]) for total in totals)


def _mixture_divergences(
    probability: float, mu: float, size: int, orders: "NDArray[np.float64]", tail: float
) -> np.ndarray:
    """Return the Rényi divergences of one step for removing and for adding the group, by integration, [2, orders].

    The moment of removing is E[e^αL], that of adding E[e^−(α−1)L], for the loss L of a point from N(0, 1). The order
    moves the mass by at most α times the slope of L: up to the largest shift, and down to −(α − 1) times the mean
    shift.

    Rare components, with a total weight of at most ``tail``, do not count, although they would decide the moments of a
    large group. For removing, they are replaced by N(0, 1), which changes no probability by more than ``tail``. By
    Minkowski's inequality this adds at most their weight to the L^α norm. For adding, the moment is only larger without
    them.
    """
    from scipy.special import logsumexp
    from scipy.stats import binom

    count = np.arange(size + 1)
    weights = binom.pmf(count, size, probability)
    kept = weights > tail / (size + 1)
    rare, weights, shifts = float(weights[~kept].sum()), weights[kept], mu * count[kept]
    found = np.zeros((2, len(orders)))
    for number, order in enumerate(orders):
        low, high = -12.0 - (order - 1) * float(weights @ shifts), 12.0 + order * float(shifts[-1])
        points, step = np.linspace(low, high, max(400, math.ceil((high - low) * 8)), retstep=True)
        parts = np.array_split(points, math.ceil(len(points) * len(weights) / _MOST_TERMS))
        losses = np.concatenate([_loss(part, weights, shifts)[0] for part in parts])
        density = -(points**2) / 2 + math.log(step / math.sqrt(2 * math.pi))
        norm = logsumexp(density + order * losses) / order
        norm = np.logaddexp(norm, math.log(rare)) if rare else norm
        moments = (order * norm, logsumexp(density - (order - 1) * losses))
        found[:, number] = np.maximum(0.0, moments) / (order - 1)
    return found


@dataclass(frozen=True)
class _Pair:
    """The dominating pair of one step: N(0, 1) without the group, a mixture of Gaussians with it.

    Attributes:
        weights: Weights of the mixture, [m].
        shifts: Means of the mixture's components, [m].
        tail: Probability that may be truncated on either side.
        dropped: Weight of the truncated components.
        points: Values of the step, ascending.
        losses: ln(mixture density ÷ that of N(0, 1)) at the points, ascending and convex.
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
        # Above the last kept component, its own weight counts: the mixture's tail is lighter than a Gaussian's.
        above = _above(points, weights[kept], shifts)
        points = points[: int(np.searchsorted(-above, -tail)) + 1]
        losses, _ = _loss(points, weights[kept], shifts)
        return cls(weights[kept], shifts, tail, float(weights[~kept].sum()), points, losses)

    def width(self, *, removed: bool) -> float:
        """Return the width of the grid's cells."""
        with_them, without = self._masses(self.points)
        masses = with_them if removed else without
        middle = (self.losses[1:] + self.losses[:-1]) / 2
        mean = float(masses @ middle)
        return _FINENESS * math.sqrt(float(masses @ (middle - mean) ** 2))

    def distribution(self, width: float, *, removed: bool) -> "LossPmf":
        """Return the privacy loss of removing the group (else: of adding it) on a grid of multiples of ``width``."""
        from engine.privacy.pld import LossPmf

        first, last = math.floor(self.losses[0] / width), math.ceil(self.losses[-1] / width)
        grid = np.arange(first, last + 1)
        edges = self._points_of(grid[1:-1] * width)
        edges = np.concatenate([self.points[:1], edges, self.points[-1:]])
        masses, others = self._masses(edges)
        if removed:
            probs, start = _connected(masses, others, grid[:-1] * width, width), first
        else:
            probs, start = _connected(others[::-1], masses[::-1], -grid[:0:-1] * width, width), -last
        # Mass below the grid is moved up onto it; mass above the grid counts as an infinite loss.
        probs[1] += max(0.0, 1.0 - float(probs.sum()) - self._cut(removed))
        low = min(int(np.searchsorted(np.cumsum(probs), self.tail)), len(probs) - 2)
        probs[low] += probs[:low].sum()
        return LossPmf(width, start + low, probs[low:], self._cut(removed))

    def _cut(self, removed: bool) -> float:
        """Return the probability of the outcomes whose loss is unbounded."""
        if not removed:
            return self.tail
        return self.dropped + float(_above(self.points[-1:], self.weights, self.shifts)[0])

    def _points_of(self, losses: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return the points with these losses, by Newton's method within the enclosing cell of ``points``."""
        above = np.clip(np.searchsorted(self.losses, losses), 1, len(self.points) - 1)
        low, high = self.points[above - 1], self.points[above]
        roots = np.interp(losses, self.losses, self.points)
        for _ in range(4):
            value, slope = _loss(roots, self.weights, self.shifts)
            roots = np.clip(roots + (losses - value) / np.maximum(slope, 1e-300), low, high)
        return np.maximum.accumulate(roots)

    def _masses(self, edges: "NDArray[np.float64]") -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """Return the probability between adjacent edges with the group and without, [edges − 1] each."""
        mixed = sum(weight * _between(edges - shift) for weight, shift in zip(self.weights, self.shifts, strict=True))
        return np.asarray(mixed), _between(edges)


def _connected(
    masses: "NDArray[np.float64]", others: "NDArray[np.float64]", lower: "NDArray[np.float64]", width: float
) -> "NDArray[np.float64]":
    """Return the mass on the ends of the cells, [cells + 1].

    Each cell's mass is split so that the mass of the other distribution is kept too: a + b = mass and a·e^−lower +
    b·e^−(lower + width) = other. Where rounding breaks this, all mass goes to the upper end.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        share = (np.exp(lower + np.log(others) - np.log(masses)) - math.exp(-width)) / -math.expm1(-width)
    below = masses * np.nan_to_num(np.clip(share, 0.0, 1.0), nan=0.0)
    split: NDArray[np.float64] = np.append(below, 0.0) + np.append(0.0, masses - below)
    return split


def _loss(
    points: "NDArray[np.float64]", weights: "NDArray[np.float64]", shifts: "NDArray[np.float64]"
) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """Return ln Σ w·e^(s·x − s²/2) and its derivative."""
    terms = np.log(weights) + points[:, None] * shifts - shifts**2 / 2  # [points, m]
    largest = terms.max(axis=1)
    terms = np.exp(terms - largest[:, None])
    total = terms.sum(axis=1)
    return largest + np.log(total), terms @ shifts / total


def _between(edges: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Return the standard normal probability between adjacent edges.

    It uses the smaller tail, so that no digits are lost.
    """
    from scipy.special import ndtr

    right = edges[:-1] > 0
    below, beyond = ndtr(edges), ndtr(-edges)
    return np.asarray(np.where(right, beyond[:-1] - beyond[1:], below[1:] - below[:-1]))


def _above(
    points: "NDArray[np.float64]", weights: "NDArray[np.float64]", shifts: "NDArray[np.float64]"
) -> "NDArray[np.float64]":
    """Return the mixture's probability above each point."""
    from scipy.special import ndtr

    return np.asarray(sum(weight * ndtr(shift - points) for weight, shift in zip(weights, shifts, strict=True)))
