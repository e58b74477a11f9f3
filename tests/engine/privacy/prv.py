"""Comparisons of the engine's ε with the second accountant's, and with 30 digits for Gaussian noise."""

import mpmath

from engine.privacy import pld, second_accountant


def assert_priced(epsilon: float, probability: float, sigma: float, steps: int, delta: float) -> None:
    """Compare the engine's ε with the second accountant's, for as many equal steps.

    It must be between the bounds. The estimate's own error is at most a tenth of theirs: 0.1 to 0.2 % of ε.
    """
    bounds = second_accountant.sampled(probability, sigma, steps, delta)
    assert bounds.contain(epsilon), bounds
    near = (bounds.upper - bounds.lower) / 20
    width = pld.grid_width(probability, sigma)
    rounding = (bounds.rounded - width) / bounds.upper
    assert bounds.estimate - near - width <= epsilon <= (bounds.estimate + near) * rounding + width, bounds


def gaussian_by_mpmath(mu: float, delta: float) -> float:
    """Return ε of one Gaussian step of sensitivity ``mu`` times its noise, to 30 digits by bisection (Balle and Wang
    2018)."""
    with mpmath.workdps(30):
        low, high = mpmath.mpf(0), mpmath.mpf(mu) * (mu + 20)
        for _ in range(100):
            middle = (low + high) / 2
            kept = mpmath.ncdf(mu / 2 - middle / mu) - mpmath.exp(middle) * mpmath.ncdf(-mu / 2 - middle / mu)
            low, high = (low, middle) if kept <= delta else (middle, high)
        return float(high)
