"""Privacy loss distributions compared with those of dp_accounting."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.pld.pld_pmf import PLDPmf

from engine.privacy import pld


def contents(pmf: PLDPmf) -> tuple[float, int, np.ndarray]:
    """Return the probability of an infinite loss, the first finite loss on the grid, and the probabilities from there
    on."""
    dense = pmf.to_dense_pmf()
    return dense._infinity_mass, dense._lower_loss, dense._probs


STEPS = [
    (1.0, 0.7, 1e-3),
    (1.0, 20.0, 1e-3),
    (0.999, 1.0, 1e-3),
    (0.5, 0.5, 1e-3),
    (0.5, 2.0, 0.1),
    (1 - math.exp(-0.5), 1.0, 1e-3),  # ln(1 − q) is a grid point
    (1 - math.exp(-0.009), 1.0, 1e-3),  # slightly beyond a grid point by rounding
    (1024 / 14_041, 1.48, 1e-3),
    (32 / 14_041, 0.2, 1e-2),
    (32 / 14_041, 1.0, 1e-3),
    (1e-4, 5.0, 2e-6),
    (1e-6, 0.5, 1e-3),
    (0.01, 1000.0, 1e-6),
    (1.0, 0.02, 0.25),  # losses beyond 745, whose counterpart underflows in float64
]
"""Sampling probability, noise multiplier, width of the grid."""


@pytest.mark.repeats(after=4)
@pytest.mark.parametrize(("probability", "sigma", "interval"), STEPS)
def test_probabilities_and_epsilon_equal_dp_accounting(probability: float, sigma: float, interval: float) -> None:
    ours = pld.on_grid(probability, sigma, interval)
    theirs = privacy_loss_distribution.from_gaussian_mechanism(
        sigma, value_discretization_interval=interval, sampling_prob=probability
    )
    for steps in (None, 1, 2, 300):
        mine, its = (one if steps is None else one.self_compose(steps) for one in (ours, theirs))
        for one, other in ((mine._pmf_remove, its._pmf_remove), (mine._pmf_add, its._pmf_add)):
            for part, same in zip(contents(one), contents(other), strict=True):
                np.testing.assert_array_equal(part, same)
        for delta in (1e-14, 1e-9, 1e-5, 0.01, 0.4, 0.999):
            assert mine.get_epsilon_for_delta(delta) == its.get_epsilon_for_delta(delta)


def test_composition_of_different_steps_equals_dp_accounting() -> None:
    """Composed as dense distributions, whose truncated tails count as infinite losses."""
    ours = [pld.on_grid(q, sigma, 1e-3).self_compose(50) for q, sigma in ((0.1, 1.0), (0.02, 0.6))]
    theirs = [
        privacy_loss_distribution.from_gaussian_mechanism(
            sigma, value_discretization_interval=1e-3, sampling_prob=q
        ).self_compose(50)
        for q, sigma in ((0.1, 1.0), (0.02, 0.6))
    ]
    mine, its = ours[0].compose(ours[1]), theirs[0].compose(theirs[1])
    for one, other in ((mine._pmf_remove, its._pmf_remove), (mine._pmf_add, its._pmf_add)):
        assert one._pessimistic_estimate == other._pessimistic_estimate
        for part, same in zip(contents(one), contents(other), strict=True):
            np.testing.assert_array_equal(part, same)
    assert mine.get_epsilon_for_delta(1e-5) == its.get_epsilon_for_delta(1e-5)


def test_composition_stays_pessimistic() -> None:
    one = pld.on_grid(0.1, 1.0, 1e-3)
    for found in (one, one.self_compose(3)):
        assert found._pmf_remove._pessimistic_estimate
        assert found._pmf_remove.to_dense_pmf()._pessimistic_estimate


@pytest.mark.contract
@pytest.mark.parametrize(("probability", "sigma", "steps"), [(0.05, 1.4, 80), (1.0, 2.0, 1), (0.01, 0.5, 1000)])
def test_delta_equals_dp_accounting(probability: float, sigma: float, steps: int) -> None:
    ours = pld.one_step(probability, sigma).self_compose(steps)
    theirs = [pmf.to_dense_pmf() for pmf in (ours._pmf_remove, ours._pmf_add)]
    epsilons = [-2.0, 0.0, 0.3, 1.0, 3.0, 8.0, 30.0]
    expected = np.max([pmf.get_delta_for_epsilon(epsilons) for pmf in theirs], axis=0)
    np.testing.assert_allclose(ours.get_delta_for_epsilon(epsilons), expected, rtol=1e-9, atol=1e-15)
    assert ours.get_delta_for_epsilon(1.0) == pytest.approx(expected[3], rel=1e-9)


def test_delta_is_at_least_infinity_mass() -> None:
    """The far tail of a Fourier transform is noise around 0: here −5e-18 at ε = 12.76, where all mass is 1e-15."""
    ours = pld.on_grid(0.1, 1.0, 1e-3).self_compose(50)
    deltas = ours.get_delta_for_epsilon(np.linspace(12.0, 16.3, 500).tolist())
    assert np.min(deltas) >= max(ours._pmf_remove._infinity_mass, ours._pmf_add._infinity_mass)
