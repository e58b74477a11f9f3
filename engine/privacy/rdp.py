"""Rényi divergences of the Poisson-sampled Gaussian mechanism, by numerical integration.

dp_accounting (0.6) takes the absolute value of each term of a series that alternates at fractional orders, and excludes
orders at which the series converges slowly. Both make ε larger than necessary. Here the integral itself is computed.
"""

import math
from collections.abc import Sequence

import numpy as np

_TAIL = 10.0
"""Length of the integrated tails in standard deviations; beyond them the normal density is below 1e-22."""
_LARGE = 300.0
"""Logarithm of the largest integrand that is integrated without logarithms."""


def divergences(probability: float, sigma: float, orders: Sequence[float]) -> np.ndarray:
    """Return the Rényi divergence of one step at each order (Mironov, Talwar, Zhang 2019, section 3.3).

    Args:
        probability: Sampling probability q.
        sigma: Noise multiplier.
        orders: Orders α > 1.

    Returns:
        float64 [orders].
    """
    if probability == 1:
        return np.asarray(orders, np.float64) / (2 * sigma**2)
    if probability == 0:
        return np.zeros(len(orders))
    return np.array([_log_moment(probability, sigma, order) / (order - 1) for order in orders])


def _log_moment(q: float, sigma: float, order: float) -> float:
    """Return ln E[(1 − q + q·e^x)^α] for the loss x = (2z − 1)/2σ² of a step on all sentences, z normal with mean 0.

    The trapezoidal rule converges exponentially. Its error depends on the distance of the nearest singularity from the
    real axis: πσ² for fractional orders, none for integers.
    """
    step = sigma / 8 if order == int(order) else min(sigma / 8, sigma**2 / 2)
    z = np.arange(-_TAIL * sigma, order + _TAIL * sigma + step, step)
    x = (2 * z - 1) / (2 * sigma**2)
    density = -(z**2) / (2 * sigma**2) + math.log(step / (sigma * math.sqrt(2 * math.pi)))
    power = order * np.logaddexp(math.log1p(-q), math.log(q) + x)
    if max(float(power.max()), float(x.max())) > _LARGE:
        from scipy.special import logsumexp  # not before: pages import this module

        return max(0.0, float(logsumexp(density + power)))
    # Most of the moment is 1, and the term of first order in q has the mean 0; both would hide the rest by rounding.
    rest: np.ndarray = np.expm1(power) - order * q * np.expm1(x)
    return float(np.log1p(max(0.0, np.exp(density) @ rest)))
