"""Privacy loss distributions: losses on a grid, their composition, their δ and ε, and the losses of Gaussian steps.

dp_accounting's privacy loss is the basis, and a test compares all probabilities and ε with its. Two computations are
faster here. dp_accounting inverts the privacy loss for one value after another. Its ``DensePLDPmf`` sums probabilities
one by one, recomputes for each number of steps the values that are the same for all, and gives no access to its
probabilities.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import dp_accounting
import numpy as np
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from numpy.typing import NDArray
from scipy import fft
from scipy.signal import fftconvolve, lfilter

from engine.errors import InvalidConfig
from engine.privacy.events import Event

_TRUNCATED = 1e-15
"""Probability of the tails that self-composition may truncate; it counts as an infinite loss."""
_LARGEST_ORDER = 20
"""Largest order of the Chernoff bounds, times the number of losses; more orders hardly shorten the tails."""


@dataclass(frozen=True, eq=False)
class LossPmf:
    """The probability of each privacy loss of a grid.

    Attributes:
        width: Distance between grid points.
        first: The lowest loss ÷ width.
        masses: Probability of each loss, float64 [points].
        infinity_mass: Probability of an infinite loss.
    """

    width: float
    first: int
    masses: NDArray[np.float64]
    infinity_mass: float

    @classmethod
    def connect_dots(cls, width: float, first: int, deltas: NDArray[np.float64]) -> "LossPmf":
        """Return the distribution with these δ at the grid's points and no smaller δ between them (Doroshenko et al.
        2022, algorithm 1).

        Args:
            width: Distance between grid points.
            first: The lowest grid point ÷ width.
            deltas: δ at each grid point, not increasing, float64 [points], two points or more.
        """
        deltas = np.minimum.accumulate(deltas)  # rounding may make them increase in the last digit
        drops = -np.diff(deltas) / math.expm1(width)
        masses = np.append(1 - deltas[0], math.exp(width) * drops) - np.append(drops, 0.0)
        return cls(width, first, np.maximum(0.0, masses), float(deltas[-1]))

    def self_compose(self, steps: int) -> "LossPmf":
        """Return the distribution of the sum of ``steps`` independent losses, by Fourier transform."""
        low, high = 0, (len(self.masses) - 1) * steps
        for order, moment in self._log_moments:  # Chernoff: the tails beyond these bounds may be truncated
            bound = (steps * moment + math.log(2 / _TRUNCATED)) / order
            low, high = (max(low, math.floor(bound)), high) if order < 0 else (low, min(high, math.ceil(bound)))
        size = high - low + 1
        length = fft.next_fast_len(max(size, len(self.masses)), real=True)
        whole = fft.irfft(fft.rfft(self.masses, length) ** steps, length)
        infinity_mass = _TRUNCATED - math.expm1(steps * math.log1p(-self.infinity_mass))
        return LossPmf(self.width, steps * self.first + low, np.roll(whole, -low)[:size], infinity_mass)

    def compose(self, other: "LossPmf") -> "LossPmf":
        """Return the distribution of the sum of a loss of each; both have the same width."""
        infinity_mass = self.infinity_mass + other.infinity_mass - self.infinity_mass * other.infinity_mass
        return LossPmf(self.width, self.first + other.first, fftconvolve(self.masses, other.masses), infinity_mass)

    def get_delta_for_epsilon(
        self, epsilon: float | Sequence[float] | NDArray[np.float64]
    ) -> float | NDArray[np.float64]:
        """Return δ at each ε: infinity mass + Σ mass · (1 − e^(ε − loss)), over the losses above ε."""
        upper, lower = (np.append(sums, 0.0) for sums in self._sums_from_above)
        losses = np.append(self._losses, np.inf)
        above = np.searchsorted(losses[:-1], epsilon, side="right")
        with np.errstate(invalid="ignore"):
            found = upper[above] - np.exp(np.minimum(0.0, epsilon - losses[above])) * lower[above]
        delta = self.infinity_mass + np.fmax(0.0, found)  # not a number at an infinite ε
        return float(delta) if np.isscalar(epsilon) else np.asarray(delta, np.float64)

    def get_epsilon_for_delta(self, delta: float) -> float:
        """Return the smallest ε ≥ 0 whose δ is at most ``delta``; ∞ if there is none."""
        if self.infinity_mass > delta:
            return math.inf
        start = max(0, -self.first)  # the first loss of 0 or more
        upper, lower = (sums[start:] for sums in self._sums_from_above)
        if not len(upper):
            return 0.0
        excess = upper - (delta - self.infinity_mass)
        too_low = np.flatnonzero(excess > lower)  # δ at these losses exceeds the given one
        index = int(too_low[-1]) + 1 if len(too_low) else 0
        loss = float(self._losses[start + index])
        # Rounding of the Fourier transform can make the probability above a high loss negative.
        if excess[index] <= 0 or lower[index] <= 0:
            return loss if len(too_low) else 0.0
        return max(0.0, loss + math.log(excess[index] / lower[index]))

    @functools.cached_property
    def _losses(self) -> NDArray[np.float64]:
        return np.arange(self.first, self.first + len(self.masses), dtype=np.float64) * self.width

    @functools.cached_property
    def _sums_from_above(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return, for each loss, Σ mass and Σ mass · e^(this loss − loss) over this and all higher losses."""
        flipped = self.masses[::-1]
        return np.cumsum(flipped)[::-1], lfilter([1.0], [1.0, -math.exp(-self.width)], flipped)[::-1]

    @functools.cached_property
    def _log_moments(self) -> list[tuple[float, float]]:
        """Orders, and the logarithm of the moment generating function at each, in units of the width.

        An order is a multiple of 1 ÷ the number of losses, at most 20 of them. So all powers are from e^−20 to e^20.
        Each follows from the previous one by a product.
        """
        number = len(self.masses)
        moments = []
        for sign in (-1, 1):
            factors = np.exp(sign * np.arange(number) / number)
            powers = self.masses
            for multiple in range(1, _LARGEST_ORDER + 1):
                powers = powers * factors
                moments.append((sign * multiple / number, math.log(powers.sum())))
        return moments


@dataclass(frozen=True)
class PrivacyLossDistribution:
    """The privacy losses of a mechanism for removing and for adding a sentence.

    Attributes:
        remove: Losses for removing a sentence.
        add: Losses for adding one; the same object where both are equal.
    """

    remove: LossPmf
    add: LossPmf

    def self_compose(self, steps: int) -> "PrivacyLossDistribution":
        """Return the losses of ``steps`` such mechanisms."""
        remove = self.remove.self_compose(steps)
        return PrivacyLossDistribution(remove, remove if self.add is self.remove else self.add.self_compose(steps))

    def compose(self, other: "PrivacyLossDistribution") -> "PrivacyLossDistribution":
        """Return the losses of both mechanisms, one after the other, on the same grid."""
        return PrivacyLossDistribution(self.remove.compose(other.remove), self.add.compose(other.add))

    def get_delta_for_epsilon(self, epsilon: float | Sequence[float] | np.ndarray) -> float | np.ndarray:
        """Return δ at each ε, the larger of both directions."""
        deltas = np.maximum(self.remove.get_delta_for_epsilon(epsilon), self.add.get_delta_for_epsilon(epsilon))
        return float(deltas) if np.isscalar(epsilon) else np.asarray(deltas)

    def get_epsilon_for_delta(self, delta: float) -> float:
        """Return ε at δ, the larger of both directions."""
        return max(pmf.get_epsilon_for_delta(delta) for pmf in (self.remove, self.add))


def distribution(event: Event) -> PrivacyLossDistribution:
    """Return the privacy loss distribution of an event: Gaussian noise, sampled or not, in any composition.

    Raises InvalidConfig for another event.
    """
    if isinstance(event, dp_accounting.ComposedDpEvent):
        return functools.reduce(lambda one, other: one.compose(other), map(distribution, event.events))
    if isinstance(event, dp_accounting.SelfComposedDpEvent):
        return distribution(event.event).self_compose(event.count)
    if isinstance(event, dp_accounting.GaussianDpEvent):
        return one_step(1.0, event.noise_multiplier)
    if isinstance(event, dp_accounting.PoissonSampledDpEvent) and isinstance(
        event.event, dp_accounting.GaussianDpEvent
    ):
        return one_step(event.sampling_probability, event.event.noise_multiplier)
    raise InvalidConfig(f"event={type(event).__name__}, expected Gaussian noise, sampled or not, in any composition")


@functools.lru_cache(maxsize=64)
def one_step(probability: float, sigma: float) -> PrivacyLossDistribution:
    """Return the distribution of one step with noise multiplier ``sigma`` and this sampling probability."""
    return on_grid(probability, sigma, grid_width(probability, sigma))


def grid_width(probability: float, sigma: float) -> float:
    """Return the width of the grid of one step's losses.

    It is dp_accounting's default of 1e-4. Below σ = 0.5 the grid is wider, since losses there are so large that the
    default would take minutes; ε stays within 1e-4 of its value. Where one step's loss, about q/σ, is small compared
    with the grid, the grid is finer, down to a tenth of the loss. Otherwise rounding would add more to ε than the steps
    do.
    """
    return min(1e-4 * max(1.0, (0.5 / sigma) ** 2), max(1e-6, 0.1 * probability / sigma))


def on_grid(probability: float, sigma: float, interval: float) -> PrivacyLossDistribution:
    """Return the result of ``from_gaussian_mechanism`` on a grid.

    Args:
        probability: Sampling probability.
        sigma: Noise multiplier.
        interval: Grid width; losses are rounded pessimistically to its multiples.
    """
    remove = _rounded(GaussianPrivacyLoss(sigma, sampling_prob=probability), interval)
    if probability == 1:
        return PrivacyLossDistribution(remove, remove)
    added = GaussianPrivacyLoss(sigma, sampling_prob=probability, adjacency_type=AdjacencyType.ADD)
    return PrivacyLossDistribution(remove, _rounded(added, interval))


def _rounded(loss: GaussianPrivacyLoss, interval: float) -> LossPmf:
    """Return the distribution on the grid with the loss's δ at each ε of the grid."""
    bounds = loss.connect_dots_bounds()
    low, high = math.floor(bounds.epsilon_lower / interval), math.ceil(bounds.epsilon_upper / interval)
    return LossPmf.connect_dots(interval, low, _deltas(loss, np.arange(low, high + 1) * interval))


def _deltas(loss: GaussianPrivacyLoss, epsilons: np.ndarray) -> np.ndarray:
    """Return δ at each ε: :meth:`GaussianPrivacyLoss.get_delta_for_epsilon`."""
    deltas, q = np.zeros(len(epsilons)), loss.sampling_prob
    end = math.log1p(-q) if q < 1 else -math.inf  # no loss exceeds it
    if loss.adjacency_type == AdjacencyType.ADD:
        reached = epsilons < -end
    else:
        reached = epsilons > end
        deltas[~reached] = -np.expm1(epsilons[~reached])
    inside = epsilons[reached]
    noise = _noise_of(loss, inside)
    deltas[reached] = loss.mu_upper_cdf(noise) - np.exp(inside + loss.mu_lower_log_cdf(noise))
    return np.clip(deltas, 0, 1)


def _noise_of(loss: GaussianPrivacyLoss, losses: np.ndarray) -> np.ndarray:
    """Return the noise at which each loss is reached: :meth:`GaussianPrivacyLoss.inverse_privacy_loss`."""
    q, sign = loss.sampling_prob, -1 if loss.adjacency_type == AdjacencyType.ADD else 1
    if q < 1:
        # The loss of a step on all sentences: ln(1 + (e^loss − 1)/q) = ln(e^b/q − (1/q − 1)) with b = loss, or the same
        # of −loss with the opposite sign.
        b = sign * losses
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            whole, rest = b + np.log(1 / q), np.log(1 / q - 1)
            unsampled = np.where(b == 0, np.log(1 / q + (1 - 1 / q)), whole + np.log1p(-np.exp(rest - whole)))
        # dp_accounting treats values this close to the end as the end.
        end = math.log(1 - q)
        at_end = np.abs(b - end) <= 1e-9 * np.maximum(np.abs(b), abs(end))
        losses = sign * np.where(at_end, -math.inf, unsampled)
    # The loss of Gaussian noise x at sensitivity 1: (−x ∓ 1/2)/σ² if a sentence is removed or added. dp_accounting gets
    # the latter's noise by adding 1 to the former's, which determines the last digit.
    noise: np.ndarray = -0.5 - losses * loss.standard_deviation**2
    return noise if sign == 1 else 1.0 + noise
