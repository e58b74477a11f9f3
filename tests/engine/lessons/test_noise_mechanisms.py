"""Noise mechanisms: densities, tails and the smallest scale, each compared with an independent computation."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from engine.errors import InvalidConfig
from engine.lessons.noise_mechanisms import KINDS, Noise, delta_of, fitting, gaussian_delta, gaussian_mu
from engine.privacy.accounting import gaussian_epsilon

REFERENCE = {"laplace": stats.laplace, "gaussian": stats.norm}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.3, 1.0, 40.0])
def test_noise_equals_scipy(kind, scale):
    noise, reference = Noise(kind, scale), REFERENCE[kind](scale=scale)
    points = np.linspace(-5, 5, 41) * scale
    np.testing.assert_allclose(noise.density(points), reference.pdf(points), rtol=1e-12)
    assert noise.sd == pytest.approx(reference.std())
    assert noise.mean_error == pytest.approx(reference.expect(abs), rel=1e-5)
    for distance in (0.0, 0.5 * scale, 4 * scale):
        assert noise.beyond(distance) == pytest.approx(2 * reference.sf(distance), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_follow_their_distribution(kind):
    drawn = Noise(kind, 2.0).draws(np.random.default_rng(1), 4000)
    assert stats.kstest(drawn, REFERENCE[kind](scale=2.0).cdf).pvalue > 0.001
    assert stats.kstest(drawn, REFERENCE[kind](scale=2.5).cdf).pvalue < 0.001


def test_laplace_scale_is_sensitivity_divided_by_epsilon():
    assert fitting("laplace", 0.5, 0.1, 3).scale == 6


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (8.0, 1e-9)])
def test_gaussian_scale_is_the_smallest_for_epsilon(epsilon, delta):
    # δ(ε) = ∫ max(0, f₁ − e^ε f₀), by quadrature.
    def excess(sigma):
        start = sigma**2 * epsilon + 0.5  # above it f₁ > e^ε f₀
        return integrate.quad(
            lambda x: stats.norm.pdf(x, 1, sigma) - math.exp(epsilon) * stats.norm.pdf(x, 0, sigma),
            start,
            start + 12 * sigma,
            epsabs=0,
        )[0]

    sigma = fitting("gaussian", epsilon, delta).scale
    assert excess(sigma) == pytest.approx(delta, rel=1e-6)
    assert excess(0.99 * sigma) > 1.02 * delta
    assert gaussian_epsilon(gaussian_mu(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-6)
    assert float(gaussian_delta(1 / sigma, epsilon)) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_delta_equals_integral_above_epsilon(kind):
    noise = Noise(kind, 0.8)
    for epsilon in (0.0, 0.5, 1.2, 2.0):

        def above(x, epsilon=epsilon):
            return max(0.0, float(noise.density(x - 1)) - math.exp(epsilon) * float(noise.density(x)))

        expected, _ = integrate.quad(above, -20, 20, points=[0, 0.5, 1, 2], limit=400)
        assert float(delta_of(noise, epsilon)) == pytest.approx(expected, abs=1e-7)


def test_invalid_noise_is_rejected():
    for wrong in (lambda: Noise("uniform", 1), lambda: Noise("laplace", 0), lambda: fitting("laplace", 0, 0.1)):
        with pytest.raises(InvalidConfig):
            wrong()
    with pytest.raises(InvalidConfig, match="delta"):
        fitting("gaussian", 1, 0)
