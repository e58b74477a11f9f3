"""Noise that hides a number, and how much of it a promise takes.

Laplace: scale b = Δ/ε gives ε without any δ (Dwork, McSherry, Nissim, Smith 2006). Gaussian: the smallest σ at which
(ε, δ) holds exactly (Balle and Wang 2018, theorem 8), not the classic bound, which holds for ε < 1 alone. Δ: by how
much one person may move the true number.
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
    """Noise with mean 0. kind: one of :data:`KINDS`. scale: b of Laplace, σ of a Gaussian, in the number's unit."""

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
        """How far off on average: E|noise|."""
        return self.scale if self.kind == "laplace" else self.scale * math.sqrt(2 / math.pi)

    def log_density(self, x: "ArrayLike") -> "NDArray[np.float64]":
        """ln of the density at each point, of the same shape."""
        z = np.asarray(x, dtype=np.float64) / self.scale
        if self.kind == "laplace":
            return np.asarray(-np.abs(z) - math.log(2 * self.scale))
        return np.asarray(-(z**2) / 2 - math.log(self.scale * math.sqrt(2 * math.pi)))

    def density(self, x: "ArrayLike") -> "NDArray[np.float64]":
        """The density at each point, of the same shape."""
        return np.asarray(np.exp(self.log_density(x)))

    def beyond(self, distance: float) -> float:
        """The chance to be off by more than ``distance``, in either direction; ``distance`` is 0 or more."""
        z = distance / self.scale
        return math.exp(-z) if self.kind == "laplace" else math.erfc(z / math.sqrt(2))

    def draws(self, random: np.random.Generator, size: int) -> "NDArray[np.float64]":
        """Independent draws [size]."""
        draw = random.laplace if self.kind == "laplace" else random.normal
        return draw(0.0, self.scale, size)


def fitting(kind: str, epsilon: float, delta: float, sensitivity: float = 1.0) -> Noise:
    """The least noise of that kind that keeps (ε, δ) for a number that one person moves by ``sensitivity`` at most;
    Laplace noise needs no δ and makes no use of it."""
    one_of("kind", kind, KINDS)
    number("epsilon", epsilon, 0, math.inf, "a positive finite number", low_open=True)
    number("sensitivity", sensitivity, 0, math.inf, "a positive finite number", low_open=True)
    return Noise(kind, sensitivity / (epsilon if kind == "laplace" else gaussian_mu(epsilon, delta)))


def gaussian_delta(mu: float, epsilon: "ArrayLike") -> "NDArray[np.float64]":
    """The exact δ at each ε of Gaussian noise with Δ/σ = ``mu``: Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)."""
    from scipy.special import log_ndtr, ndtr

    epsilon = np.asarray(epsilon, dtype=np.float64)
    return np.asarray(ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


@lru_cache(maxsize=1024)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest Δ/σ at which Gaussian noise keeps (ε, δ)."""
    from scipy.optimize import brentq

    number("delta", delta, 0, 1, "a number between 0 and 1", low_open=True, high_open=True)
    high = 1.0
    while gaussian_delta(high, epsilon) < delta:
        high *= 2
    return float(brentq(lambda mu: float(gaussian_delta(mu, epsilon)) - delta, 1e-9 * high, high, xtol=1e-14))


def delta_of(noise: Noise, epsilon: "ArrayLike") -> "NDArray[np.float64]":
    """The exact δ at each ε ≥ 0 for a number that one person moves by 1; of Laplace noise 1 − e^((ε − 1/b)/2), and 0
    from ε = 1/b on."""
    if noise.kind == "gaussian":
        return gaussian_delta(1 / noise.scale, epsilon)
    return np.asarray(-np.expm1(np.minimum(0.0, (np.asarray(epsilon, dtype=np.float64) - 1 / noise.scale) / 2)))
