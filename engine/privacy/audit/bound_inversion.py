"""Bound inversion: the smallest ε that observations leave possible within a family of mechanisms.

It is the largest parameter of the family that the observations rule out.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from engine.privacy.accounting import epsilon, gaussian_epsilon
from engine.privacy.audit.tradeoff_functions import TradeOff, gaussian, of_steps
from engine.privacy.plan import PrivacyPlan

_SMALLEST = 1e-4
"""Resolution of a bound, in ε and in μ."""
_LARGEST = 64.0
_STRONGEST, _WEAK, _WEAKEST = 1e-3, 2.0, 4.0
"""Range of 1/σ for the bound of a run. It ends at twice the claimed 1/σ where that lies between the last two values:
dp_accounting's grids are slow beyond.
"""


def largest(ruled_out: Callable[[float], bool]) -> float:
    """Return the largest parameter that is ruled out, rounded down; 0 if none is.

    All smaller parameters are ruled out too.
    """
    if not ruled_out(_SMALLEST):
        return 0.0
    low, high = _SMALLEST, 1.0
    while high < _LARGEST and ruled_out(high):
        low, high = high, 2 * high
    while high - low > _SMALLEST:
        middle = (low + high) / 2
        low, high = (middle, high) if ruled_out(middle) else (low, middle)
    return low


def of_gaussians(ruled_out: Callable[[TradeOff], bool], delta: float) -> float:
    """Return ε at δ of the Gaussian mechanism with the most noise that is not ruled out, rounded down."""
    mu = largest(lambda mu: ruled_out(gaussian(mu)))
    return gaussian_epsilon(mu, delta) if mu else 0.0


def of_noise(plan: PrivacyPlan, ruled_out: Callable[[TradeOff], bool]) -> float:
    """Return ε of the plan's steps with the most noise that is not ruled out, whatever noise the plan claims."""

    def too_much(sigma: float) -> bool:
        return ruled_out(of_steps(plan.sampling_probability, sigma, plan.steps))

    # Search in 1/σ, which grows with ε. Start at a privacy so strong that little evidence contradicts it.
    low, high = _STRONGEST, _STRONGEST
    weakest = min(_WEAKEST, max(_WEAK, 2 / plan.noise_multiplier))
    while high < weakest and too_much(1 / high):
        low, high = high, 1.5 * high
    if low == high:
        return 0.0
    while high > 1.02 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if too_much(1 / middle) else (low, middle)
    return epsilon(replace(plan, noise_multiplier=1 / low), plan.steps)
