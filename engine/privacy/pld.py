"""Privacy loss distributions of Gaussian steps, built from dp_accounting's parts and faster.

dp_accounting inverts the privacy loss for one value after another, sums probabilities one by one, and recomputes for
each number of steps the values that are the same for all. The numbers here agree digit for digit; a test checks this.
"""

import functools
import math
from collections.abc import Sequence

import dp_accounting
import numpy as np
from dp_accounting.pld.pld_pmf import DensePLDPmf, PLDPmf, create_pmf_pessimistic_connect_dots_fixed_gap
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from scipy import fft, special

from engine.errors import InvalidConfig
from engine.privacy.events import Event


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
    """Return the distribution of one step with noise multiplier ``sigma`` and this sampling probability.

    Its grid is dp_accounting's default of 1e-4. Below σ = 0.5 the grid is wider, since losses there are so large that
    the default would take minutes; ε stays within 1e-4 of its value. Where one step's loss, about q/σ, is small
    compared with the grid, the grid is finer, down to a tenth of the loss. Otherwise rounding would add more to ε than
    the steps do.
    """
    interval = min(1e-4 * max(1.0, (0.5 / sigma) ** 2), max(1e-6, 0.1 * probability / sigma))
    return on_grid(probability, sigma, interval)


def on_grid(probability: float, sigma: float, interval: float) -> PrivacyLossDistribution:
    """Return the result of ``from_gaussian_mechanism`` on a grid.

    Args:
        probability: Sampling probability.
        sigma: Noise multiplier.
        interval: Grid width; losses are rounded pessimistically to its multiples.
    """
    remove = _rounded(GaussianPrivacyLoss(sigma, sampling_prob=probability), interval)
    if probability == 1:
        return PrivacyLossDistribution(remove)
    added = GaussianPrivacyLoss(sigma, sampling_prob=probability, adjacency_type=AdjacencyType.ADD)
    return PrivacyLossDistribution(remove, _rounded(added, interval))


class FastDensePLDPmf(DensePLDPmf):
    """The probability of each loss of a grid: a faster :class:`DensePLDPmf`."""

    def self_compose(self, num_times: int, tail_mass_truncation: float = 1e-15) -> "FastDensePLDPmf":
        """Return the distribution of ``num_times`` steps by Fourier transform; see
        ``dp_accounting.pld.common.self_convolve``.

        Args:
            num_times: Number of steps.
            tail_mass_truncation: Probability of the tails that may be truncated.
        """
        low, high = 0, (len(self._probs) - 1) * num_times
        for order, moment in self._moments:  # Chernoff: beyond these bounds the tails may be truncated
            bound = (num_times * moment + math.log(2 / tail_mass_truncation)) / order
            low, high = (max(low, math.floor(bound)), high) if order < 0 else (low, min(high, math.ceil(bound)))
        size = high - low + 1
        length = fft.next_fast_len(max(size, len(self._probs)))
        whole = np.real(fft.ifft(fft.fft(self._probs, length) ** num_times))
        infinite = tail_mass_truncation - math.expm1(num_times * math.log1p(-self._infinity_mass))
        return FastDensePLDPmf(
            self._discretization, self._lower_loss * num_times + low, np.roll(whole, -low)[:size], infinite, True
        )

    def to_dense_pmf(self) -> DensePLDPmf:
        """Return a plain DensePLDPmf, since dp_accounting composes only objects of one class."""
        return DensePLDPmf(self._discretization, self._lower_loss, self._probs, self._infinity_mass, True)

    @functools.cached_property
    def _moments(self) -> list[tuple[float, float]]:
        """Orders, and the logarithm of the moment generating function at each: the same for any number of steps."""
        indices = np.arange(len(self._probs))
        orders = np.concatenate((np.arange(-20, 0), np.arange(1, 21))) / len(indices)
        return [(order, special.logsumexp(indices * order, b=self._probs)) for order in orders]

    def get_delta_for_epsilon(self, epsilon: float | Sequence[float]) -> float | np.ndarray:
        """Return δ at each ε: the sum of probability · (1 − e^(ε − loss)) over the losses above ε."""
        losses = (np.arange(len(self._probs)) + self._lower_loss) * self._discretization
        first = np.searchsorted(losses, epsilon, side="right")
        upper, lower = (
            np.cumsum(np.r_[0.0, np.flip(masses)])[::-1]
            for masses in (self._probs, np.exp(-np.maximum(losses, np.min(epsilon))) * self._probs)
        )
        delta = self._infinity_mass + np.maximum(0.0, upper[first] - np.exp(epsilon) * lower[first])
        return float(delta) if np.isscalar(epsilon) else np.asarray(delta)

    def get_epsilon_for_delta(self, delta: float) -> float:
        """Return the smallest ε ≥ 0 whose δ is at most ``delta``.

        Probabilities, and probabilities weighted with e^−loss, are summed from the highest loss down. The sum ends
        where ε = ln((upper − δ) / lower) is above the next loss.
        """
        if self._infinity_mass > delta:
            return math.inf
        highest = (self._lower_loss + len(self._probs) - 1) * self._discretization
        losses = np.cumsum(np.r_[highest, np.full(len(self._probs) - 1, -self._discretization)])
        losses = losses[losses >= 0]
        chances = np.flip(self._probs)[: len(losses)]
        upper, lower = (
            np.cumsum(np.r_[first, masses])
            for first, masses in ((self._infinity_mass, chances), (0.0, np.exp(-losses) * chances))
        )
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            reached = (upper[:-1] > delta) & (lower[:-1] > 0) & (np.log((upper[:-1] - delta) / lower[:-1]) >= losses)
        # Losses so high that e^−loss is 0: the denominator is still zero.
        beyond = (upper[1:] >= delta) & (lower[1:] == 0)
        stop = int(np.argmax(reached | beyond)) if (reached | beyond).any() else len(losses)
        if stop < len(losses) and not reached[stop]:
            return float(losses[stop])
        # Repeat with the standard library's exponential: NumPy's may differ in the last digit.
        against = np.fromiter(map(math.exp, (-losses[:stop]).tolist()), np.float64, stop) * chances[:stop]
        above, below = float(upper[stop]), float(np.cumsum(np.r_[0.0, against])[-1])
        return math.log((above - delta) / below) if above > below + delta else 0.0


def _rounded(loss: GaussianPrivacyLoss, interval: float) -> PLDPmf:
    """Return the distribution on the grid with the loss's δ at each ε of the grid (connect the dots, Doroshenko et al.
    2022).
    """
    bounds = loss.connect_dots_bounds()
    low, high = math.floor(bounds.epsilon_lower / interval), math.ceil(bounds.epsilon_upper / interval)
    pmf = create_pmf_pessimistic_connect_dots_fixed_gap(
        interval, low, high, _deltas(loss, np.arange(low, high + 1) * interval)
    )
    if not isinstance(pmf, DensePLDPmf):
        return pmf  # so few losses that they are composed pair by pair
    return FastDensePLDPmf(interval, low, pmf._probs, pmf._infinity_mass, True)


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
