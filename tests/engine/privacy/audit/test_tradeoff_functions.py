"""Trade-off curves compared with their dual (ε, δ), computed numerically."""

import numpy as np
import pytest
from dp_accounting import dp_event, pld
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import norm

from engine.privacy.audit.tradeoff_functions import (
    delta_of_gaussian,
    gaussian,
    most_right,
    of_pairs,
    of_steps,
)

MU = st.floats(0.05, 6)
ALPHAS = np.concatenate([np.logspace(-9, -1, 60), np.linspace(0.1, 0.9, 81), 1 - np.logspace(-9, -1, 60)])


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 6.0])
def test_delta_of_gaussian_equals_dual_of_curve(mu, epsilon):
    """δ(ε) = 1 − min over α of f(α) + e^ε α (Dong, Roth, Su 2022, proposition 2.12)."""
    curve = gaussian(mu)
    alphas = np.concatenate([np.logspace(-16, -1, 4000), np.linspace(0.1, 1, 4000)])
    found = 1 - min(curve(alpha) + np.exp(epsilon) * alpha for alpha in alphas)
    assert delta_of_gaussian(epsilon, mu) == pytest.approx(max(0.0, found), abs=2e-6)


@pytest.mark.repeats(after=3)
@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_delta_equals_dp_accounting(mu, epsilon):
    theirs = pld.privacy_loss_distribution.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-4)
    assert delta_of_gaussian(epsilon, mu) == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=1e-3, abs=1e-12)


@given(MU)
@example(5.75)
def test_gaussian_curve_is_its_own_inverse(mu):
    """The computation stores β as 1 − β, to 1e-16: at β = 1e-10, this is one part in a million."""
    curve = gaussian(mu)
    for alpha in (0.001, 0.2, 0.5, 0.9):
        if 1e-10 < curve(alpha) < 1 - 1e-10:
            assert curve(curve(alpha)) == pytest.approx(alpha, rel=1e-5)


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_curve_of_pairs_approaches_exact_curve_from_below(mu):
    pairs = [(epsilon, delta_of_gaussian(epsilon, mu)) for epsilon in np.linspace(0, 12 * mu, 400)]
    one, other = gaussian(mu), of_pairs(pairs)
    gaps = np.array([one(alpha) - other(alpha) for alpha in ALPHAS])
    assert gaps.min() >= -1e-12
    assert gaps.max() < 1e-3


def test_curve_of_one_pair_equals_randomised_response():
    """(ε, 0): max(1 − e^ε α, e^−ε (1 − α)) (proposition 2.11)."""
    curve = of_pairs([(np.log(3), 0.0)])
    assert [curve(alpha) for alpha in (0.0, 0.25, 0.5, 1.0)] == pytest.approx([1, 0.25, 1 / 6, 0])


def test_zero_epsilon_gives_diagonal_curve():
    curve = of_pairs([(0.0, 0.0)])
    assert [curve(alpha) for alpha in (0.0, 0.3, 1.0)] == pytest.approx([1, 0.7, 0])
    assert delta_of_gaussian(1.0, 0.0) == 0.0


@pytest.mark.parametrize("mu", [0.01, 0.26, 1.6, 5.0])
def test_most_right_of_a_gaussian_mechanism_equals_its_closed_form(mu):
    assert most_right(gaussian(mu)) == pytest.approx(norm.cdf(mu / 2), abs=1e-12)


@pytest.mark.parametrize(("probability", "sigma", "steps"), [(0.07, 1.5, 50), (1.0, 3.0, 1), (0.2, 0.6, 5)])
def test_most_right_of_steps_follows_from_their_delta_at_epsilon_zero(probability, sigma, steps):
    """δ(0) is the total variation distance, by which the two sums of right guesses differ at most."""
    event = dp_event.PoissonSampledDpEvent(probability, dp_event.GaussianDpEvent(sigma))
    accountant = pld.PLDAccountant()
    accountant.compose(event, steps)
    assert most_right(of_steps(probability, sigma, steps)) == pytest.approx(
        (1 + accountant.get_delta(0.0)) / 2, abs=1e-4
    )
