"""What is the least privacy that what was seen leaves possible, within a family of mechanisms that have more or less of
it: the largest parameter that is ruled out."""

import math
from collections.abc import Callable
from dataclasses import replace

from engine.privacy.accounting import epsilon, gaussian_epsilon
from engine.privacy.audit.tradeoff_functions import TradeOff, gaussian, of_steps
from engine.privacy.plan import PrivacyPlan

_SMALLEST = 1e-4
"""How finely a bound is looked for, in ε and in μ."""
_LARGEST = 64.0
_STRONGEST, _WEAK, _WEAKEST = 1e-3, 2.0, 4.0
"""1/σ between which the bound of a run is looked for, up to twice the claimed one where that is in between:
dp_accounting's grids are slow beyond."""


def largest(ruled_out: Callable[[float], bool]) -> float:
    """The largest parameter that is ruled out, rounded down; 0 where none is. What is ruled out is everything below."""
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
    """The ε at δ of the Gaussian mechanism with the most noise that is not ruled out, rounded down."""
    mu = largest(lambda mu: ruled_out(gaussian(mu)))
    return gaussian_epsilon(mu, delta) if mu else 0.0


def of_noise(plan: PrivacyPlan, ruled_out: Callable[[TradeOff], bool]) -> float:
    """The same of the steps of a plan, with some noise, whatever noise it claims."""

    def too_much(sigma: float) -> bool:
        return ruled_out(of_steps(plan.sampling_probability, sigma, plan.steps))

    # In 1/σ, which grows with ε. From a privacy so strong that to contradict it little is needed.
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
