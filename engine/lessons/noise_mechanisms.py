"""The Laplace and the Gaussian mechanism, calibrated to (ε, δ).

Laplace: the scale b = Δ/ε guarantees ε with δ = 0 (Dwork, McSherry, Nissim, Smith 2006). Gaussian: the smallest σ that
guarantees (ε, δ), computed exactly (Balle and Wang 2018, theorem 8); the classic bound is valid for ε < 1 only. Δ is
the sensitivity: the largest change of the true number by one person.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from engine.validation import number, one_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

KINDS = ("laplace", "gaussian")


@dataclass(frozen=True)
class Noise:
    """Noise with mean 0.

    Attributes:
        kind: One of :data:`KINDS`.
        scale: b of Laplace noise, σ of Gaussian noise, in the unit of the number.
    """

    kind: str
    scale: float

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        number("scale", self.scale, 0, math.inf, "a positive finite number", low_open=True)

    @property
    def sd(self) -> float:
        """Standard deviation."""
        return self.scale * math.sqrt(2) if self.kind == "laplace" else self.scale

    @property
    def mean_error(self) -> float:
        """Mean absolute error, E|noise|."""
        return self.scale if self.kind == "laplace" else self.scale * math.sqrt(2 / math.pi)

    def log_density(self, x: "ArrayLike") -> "NDArray[np.float64]":
        """Return ln of the density at each point, in the same shape."""
        z = np.asarray(x, dtype=np.float64) / self.scale
        if self.kind == "laplace":
            return np.asarray(-np.abs(z) - math.log(2 * self.scale))
        return np.asarray(-(z**2) / 2 - math.log(self.scale * math.sqrt(2 * math.pi)))

    def density(self, x: "ArrayLike") -> "NDArray[np.float64]":
        """Return the density at each point, in the same shape."""
        return np.asarray(np.exp(self.log_density(x)))

    def beyond(self, distance: float) -> float:
        """Return the probability that |noise| exceeds ``distance``, which is 0 or more."""
        z = distance / self.scale
        return math.exp(-z) if self.kind == "laplace" else math.erfc(z / math.sqrt(2))

    def draws(self, random: np.random.Generator, size: int) -> "NDArray[np.float64]":
        """Return independent draws, [size]."""
        draw = random.laplace if self.kind == "laplace" else random.normal
        return draw(0.0, self.scale, size)


def fitting(kind: str, epsilon: float, delta: float, sensitivity: float = 1.0) -> Noise:
    """Return the smallest noise that guarantees (ε, δ).

    Args:
        kind: One of :data:`KINDS`.
        epsilon: ε.
        delta: δ; Laplace noise guarantees δ = 0 and ignores it.
        sensitivity: Largest change of the number by one person.
    """
    one_of("kind", kind, KINDS)
    number("epsilon", epsilon, 0, math.inf, "a positive finite number", low_open=True)
    number("sensitivity", sensitivity, 0, math.inf, "a positive finite number", low_open=True)
    return Noise(kind, sensitivity / (epsilon if kind == "laplace" else gaussian_mu(epsilon, delta)))


def gaussian_delta(mu: float, epsilon: "ArrayLike") -> "NDArray[np.float64]":
    """Return the exact δ at each ε of Gaussian noise with Δ/σ = ``mu``: Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)."""
    from scipy.special import log_ndtr, ndtr

    epsilon = np.asarray(epsilon, dtype=np.float64)
    return np.asarray(ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


@lru_cache(maxsize=1024)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest Δ/σ at which Gaussian noise guarantees (ε, δ)."""
    from scipy.optimize import brentq

    number("delta", delta, 0, 1, "a number between 0 and 1", low_open=True, high_open=True)
    high = 1.0
    while gaussian_delta(high, epsilon) < delta:
        high *= 2
    return float(brentq(lambda mu: float(gaussian_delta(mu, epsilon)) - delta, 1e-9 * high, high, xtol=1e-14))


def delta_of(noise: Noise, epsilon: "ArrayLike") -> "NDArray[np.float64]":
    """Return the exact δ at each ε ≥ 0 for a number of sensitivity 1.

    For Laplace noise δ = 1 − e^((ε − 1/b)/2) below ε = 1/b, and 0 from there on.
    """
    if noise.kind == "gaussian":
        return gaussian_delta(1 / noise.scale, epsilon)
    return np.asarray(-np.expm1(np.minimum(0.0, (np.asarray(epsilon, dtype=np.float64) - 1 / noise.scale) / 2)))
