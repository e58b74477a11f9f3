"""A second accountant, for tests: numerical composition of privacy loss random variables (Gopi, Lee and Wutschitz 2021).

Microsoft's ``prv-accountant`` shares no code with dp_accounting and works differently: the loss of a step is truncated
and put on a mesh, composed by Fourier transform, and comes back with proven bounds below and above. It prices one
direction, a sentence removed, which is the dearer one for a Poisson-subsampled Gaussian.

Its mesh has to be finer than ε, so its work grows without end as ε falls to 0: bounds are not asked to be closer than
``NEAREST``. And its mesh has to tell the loss of one step, which fails at ε in the thousands with q < 1.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import mpmath
import numpy as np
from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant
from prv_accountant.other_accountants import RDP

NEAREST = 1e-3
"""Smallest error in ε that the bounds are asked for."""
GRID = 1e-4
"""Where the engine rounds privacy losses to; published by dp_accounting as its default."""


class Bounds(NamedTuple):
    """ε is proven to lie from lower to upper; estimate, between them, is much nearer."""

    lower: float
    estimate: float
    upper: float


@lru_cache(maxsize=512)
def prv_epsilon(probability: float, sigma: float, steps: int, delta: float, error: float = 0.01) -> Bounds:
    """ε of ``steps`` Gaussian steps of noise multiplier ``sigma`` on Poisson samples; error: half the distance of the
    bounds divided by ε, roughly."""
    step = PoissonSubsampledGaussianMechanism(sampling_probability=probability, noise_multiplier=sigma)
    with np.errstate(all="ignore"):
        rough = RDP(prvs=[step]).compute_epsilon(delta, [steps])[-1]
        accountant = PRVAccountant(
            step, eps_error=max(NEAREST, error * rough), delta_error=delta / 1000, max_self_compositions=steps
        )
        return Bounds(*accountant.compute_epsilon(delta, [steps]))


def assert_priced(epsilon: float, probability: float, sigma: float, steps: int, delta: float) -> None:
    """Hold the engine's ε against the second accountant's, for as many steps of that kind.

    It may not be below the proven lower bound. Rounding losses to the engine's grid of ``GRID`` keeps a step's mean and
    adds at most (GRID/2)² to its variance, which is (q/σ)² or more, so the spread of the sum, and with it ε, may grow
    by √(1 + (σ GRID/2q)²) and by one cell: by less than 1e-4 of ε where anybody trains, by 41 % at q = 0.001 with
    σ = 20. But for that, the estimate's own error is a tenth of what is proven, or less: 0.1 to 0.2 % of ε.
    """
    bounds = prv_epsilon(probability, sigma, steps, delta)
    rounding = math.hypot(1, sigma * GRID / 2 / probability)
    assert bounds.lower <= epsilon <= bounds.upper * rounding + GRID, bounds
    near = (bounds.upper - bounds.lower) / 20
    assert bounds.estimate - near - GRID <= epsilon <= (bounds.estimate + near) * rounding + GRID, bounds


def gaussian_by_mpmath(mu: float, delta: float) -> float:
    """ε of one Gaussian step of sensitivity ``mu`` times its noise, to 30 digits by bisection (Balle and Wang 2018)."""
    with mpmath.workdps(30):
        low, high = mpmath.mpf(0), mpmath.mpf(mu) * (mu + 20)
        for _ in range(100):
            middle = (low + high) / 2
            kept = mpmath.ncdf(mu / 2 - middle / mu) - mpmath.exp(middle) * mpmath.ncdf(-mu / 2 - middle / mu)
            low, high = (low, middle) if kept <= delta else (middle, high)
        return float(high)
