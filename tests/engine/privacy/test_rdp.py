"""Rényi divergences compared with dp_accounting's exact ones, and with integrals of 50 digits."""

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant

from engine.privacy import rdp

STEPS = [(0.01, 1.0), (0.0729, 3.39), (0.5, 0.5), (1e-4, 5.0), (1e-6, 0.5), (0.002, 0.05), (0.9, 20.0), (1.0, 2.0)]
"""Sampling probability and noise multiplier."""


@pytest.mark.parametrize(("probability", "sigma"), STEPS)
def test_divergences_at_integer_orders_equal_dp_accounting(probability: float, sigma: float) -> None:
    orders = [2, 3, 8, 64, 256, 1024]
    accountant = RdpAccountant(orders)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(probability, dp_accounting.GaussianDpEvent(sigma)))
    ours = rdp.divergences(probability, sigma, orders)
    np.testing.assert_allclose(ours, accountant.rdp, rtol=1e-9, atol=1e-17)


@pytest.mark.parametrize("order", [1.1, 2.5, 10.9])
@pytest.mark.parametrize(("probability", "sigma"), [(0.01, 1.0), (0.1, 0.8), (1e-4, 5.0), (0.5, 0.5)])
@pytest.mark.repeats(after=2)
def test_divergences_at_fractional_orders_equal_integrals(probability: float, sigma: float, order: float) -> None:
    with mpmath.workdps(50):
        q, s, a = map(mpmath.mpf, (probability, sigma, order))

        def integrand(z: mpmath.mpf) -> mpmath.mpf:
            normal = mpmath.exp(-(z**2) / (2 * s**2)) / (s * mpmath.sqrt(2 * mpmath.pi))
            return normal * (1 - q + q * mpmath.exp((2 * z - 1) / (2 * s**2))) ** a

        ends = [-20 * s, -5 * s, 0, 5 * s, a, a + 5 * s, a + 20 * s]
        expected = float(mpmath.log(mpmath.quad(integrand, sorted(ends))) / (a - 1))
    assert rdp.divergences(probability, sigma, [order])[0] == pytest.approx(expected, rel=1e-8)


def test_no_sampling_has_no_divergence() -> None:
    assert rdp.divergences(0.0, 1.0, [2, 3.5]).tolist() == [0.0, 0.0]
