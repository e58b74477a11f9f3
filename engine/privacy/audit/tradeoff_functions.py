"""Trade-off functions of mechanisms (Dong, Roth, Su 2022, definition 2.1): the smallest FNR of an attacker by its FPR.

A trade-off function maps α in [0, 1], a float, to the smallest β. All functions here are symmetric: f is its own
inverse.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

TradeOff = Callable[[float], float]
_MOST = 40.0
"""Largest ε at which the δ of composed steps is evaluated."""
_BISECTIONS = 50
"""Halvings of [0, 0.5], so that a root is exact to 1e-15."""


def gaussian(mu: float) -> TradeOff:
    """Return the function of N(0, 1) against N(μ, 1): one Gaussian mechanism of sensitivity μσ (definition 2.6)."""
    return lambda alpha: float(ndtr(ndtri(1 - alpha) - mu)) if 0 < alpha < 1 else float(alpha <= 0)


def of_pairs(pairs: Sequence[tuple[float, float]]) -> TradeOff:
    """Return the function of a mechanism that satisfies each of these (ε, δ), ε at least 0 (proposition 2.11).

    It is the maximum of their functions, so it is never above the mechanism's own.
    """
    epsilons, deltas = np.array(pairs, dtype=np.float64).T
    grown, shrunk = np.exp(epsilons), np.exp(-epsilons)

    def curve(alpha: float) -> float:
        return float(max(0.0, (1 - deltas - grown * alpha).max(), (shrunk * (1 - deltas - alpha)).max()))

    return curve


def delta_of_gaussian(epsilon: float, mu: float) -> float:
    """Return δ at ε of the Gaussian mechanism of sensitivity μσ (Balle and Wang 2018, theorem 8)."""
    if mu <= 0:
        return 0.0
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def most_right(curve: TradeOff) -> float:
    """Return the largest probability that a guess on a fair coin is right, ½ to 1, rounded up.

    A guess with error rates α and β is right with probability 1 − (α + β) ÷ 2. A symmetric convex function has its
    smallest α + f(α) where f(α) = α.
    """
    low, high = 0.0, 0.5
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if curve(middle) > middle else (low, middle)
    return 1 - low


@lru_cache(maxsize=1024)
def of_steps(probability: float, sigma: float, steps: int) -> TradeOff:
    """Return the function of ``steps`` steps of DP-SGD, for adding and for removing a sentence.

    It follows from their privacy loss distribution.

    Args:
        probability: Sampling probability of a sentence.
        sigma: Noise multiplier, σ.
        steps: Number of steps.
    """
    from engine.privacy import pld

    loss = pld.one_step(probability, sigma).self_compose(steps)
    epsilons = np.concatenate([np.linspace(0, 4, 201), np.linspace(4, _MOST, 200)[1:]])
    deltas = np.maximum(0.0, np.asarray(loss.get_delta_for_epsilon(epsilons)))
    return of_pairs(list(zip(epsilons.tolist(), deltas.tolist(), strict=True)))
