"""Privacy loss distributions compared with those of dp_accounting."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.pld.pld_pmf import DensePLDPmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from engine.privacy import pld
from engine.privacy.pld import LossPmf


def dense(found: PrivacyLossDistribution) -> list[DensePLDPmf]:
    """Return dp_accounting's distributions for removing and for adding, with all points of the grid."""
    return [pmf.to_dense_pmf() for pmf in (found._pmf_remove, found._pmf_add)]


def assert_equal(one: LossPmf, other: DensePLDPmf) -> None:
    """Except for the rounding of Fourier transforms."""
    assert one.first == other._lower_loss
    np.testing.assert_allclose(one.masses, other._probs, rtol=1e-8, atol=1e-13)
    assert one.infinity_mass == pytest.approx(other._infinity_mass, rel=1e-12, abs=0)


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
    theirs = dense(
        privacy_loss_distribution.from_gaussian_mechanism(
            sigma, value_discretization_interval=interval, sampling_prob=probability
        )
    )
    for steps in (None, 1, 2, 300):
        mine = ours if steps is None else ours.self_compose(steps)
        its = theirs if steps is None else [one.self_compose(steps) for one in theirs]
        for one, other in zip((mine.remove, mine.add), its, strict=True):
            assert_equal(one, other)
        for delta in (1e-9, 1e-5, 0.01, 0.4, 0.999):
            expected = max(other.get_epsilon_for_delta(delta) for other in its)
            found = mine.get_epsilon_for_delta(delta)
            if expected < 700:
                # Fourier transforms change δ by about 1e-15.
                assert found == pytest.approx(expected, rel=2e-14 / delta + 1e-8)
            else:  # dp_accounting returns a grid point where e^−loss is 0
                assert 0 <= expected - found < 8 * interval


def test_composition_of_different_steps_equals_dp_accounting() -> None:
    steps = [(0.1, 1.0), (0.02, 0.6)]
    ours = [pld.on_grid(q, sigma, 1e-3).self_compose(50) for q, sigma in steps]
    theirs = [
        privacy_loss_distribution.from_gaussian_mechanism(
            sigma, value_discretization_interval=1e-3, sampling_prob=q
        ).self_compose(50)
        for q, sigma in steps
    ]
    mine, its = ours[0].compose(ours[1]), theirs[0].compose(theirs[1], tail_mass_truncation=0)
    for one, other in zip((mine.remove, mine.add), dense(its), strict=True):
        assert_equal(one, other)
    assert mine.get_epsilon_for_delta(1e-5) == pytest.approx(its.get_epsilon_for_delta(1e-5), rel=1e-9)


def test_without_sampling_both_directions_are_one() -> None:
    one = pld.on_grid(1.0, 2.0, 1e-3)
    assert one.remove is one.add
    composed = one.self_compose(3)
    assert composed.remove is composed.add


@pytest.mark.contract
@pytest.mark.parametrize(("probability", "sigma", "steps"), [(0.05, 1.4, 80), (1.0, 2.0, 1), (0.01, 0.5, 1000)])
@pytest.mark.repeats(after=2)
def test_delta_equals_dp_accounting(probability: float, sigma: float, steps: int) -> None:
    ours = pld.one_step(probability, sigma).self_compose(steps)
    theirs = [DensePLDPmf(pmf.width, pmf.first, pmf.masses, pmf.infinity_mass, True) for pmf in (ours.remove, ours.add)]
    epsilons = [-2.0, 0.0, 0.3, 1.0, 3.0, 8.0, 30.0]
    expected = np.max([pmf.get_delta_for_epsilon(epsilons) for pmf in theirs], axis=0)
    np.testing.assert_allclose(ours.get_delta_for_epsilon(epsilons), expected, rtol=1e-8, atol=1e-13)
    assert ours.get_delta_for_epsilon(1.0) == pytest.approx(expected[3], rel=1e-9)


def test_delta_is_at_least_infinity_mass() -> None:
    """The far tail of a Fourier transform is noise around 0: here −5e-18 at ε = 12.76, where all mass is 1e-15."""
    ours = pld.on_grid(0.1, 1.0, 1e-3).self_compose(50)
    deltas = ours.get_delta_for_epsilon(np.linspace(12.0, 16.3, 500).tolist())
    assert np.min(deltas) >= max(ours.remove.infinity_mass, ours.add.infinity_mass)
