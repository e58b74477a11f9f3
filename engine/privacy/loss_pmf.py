"""Probability mass functions of privacy losses on a grid: their composition, and their δ and ε.

dp_accounting has the same arithmetic in ``DensePLDPmf``. It sums probabilities one by one, and recomputes for each
number of steps the values that are the same for all. Its class also gives no access to its probabilities.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft, special
from scipy.signal import fftconvolve, lfilter

_TRUNCATED = 1e-15
"""Probability of the tails that self-composition may truncate; it counts as an infinite loss."""


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
        """Orders, and the logarithm of the moment generating function at each, in units of the width."""
        indices = np.arange(len(self.masses))
        orders = np.concatenate((np.arange(-20, 0), np.arange(1, 21))) / len(indices)
        return [(order, float(special.logsumexp(indices * order, b=self.masses))) for order in orders]
