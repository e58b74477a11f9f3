"""Privacy loss distributions of Gaussian steps, with dp_accounting's privacy loss and a faster discretisation.

dp_accounting inverts the privacy loss for one value after another. A test compares all probabilities and ε with its.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import dp_accounting
import numpy as np
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

from engine.errors import InvalidConfig
from engine.privacy.events import Event
from engine.privacy.loss_pmf import LossPmf


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
