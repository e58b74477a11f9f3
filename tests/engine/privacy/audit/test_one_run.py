"""Bounds from one run compared with exact probabilities, closed forms and repetition."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from engine.errors import InvalidConfig
from engine.privacy.audit.one_run import (
    FEWEST,
    Guesses,
    best,
    contradicts,
    epsilon_bound,
    gaussian_bound,
    guesses_of,
    p_value,
    steps_bound,
)
from engine.privacy.audit.tradeoff_functions import delta_of_gaussian, gaussian, of_pairs
from engine.privacy.plan import PrivacyPlan


@given(st.integers(0, 60), st.integers(0, 60), st.floats(0, 5))
def test_p_value_without_delta_equals_randomised_response(made, right, epsilon):
    """Each coin reported truly with probability e^ε ÷ (1 + e^ε) has privacy ε, and nothing does better."""
    right = min(right, made)
    chance = math.exp(epsilon) / (1 + math.exp(epsilon))
    exact = sum(math.comb(made, k) * chance**k * (1 - chance) ** (made - k) for k in range(right, made + 1))
    assert p_value(Guesses(made + 3, made, right), epsilon, 0.0) == pytest.approx(exact, rel=1e-9)


@given(st.integers(1, 40), st.integers(1, 40), st.floats(0, 4), st.floats(1e-6, 0.01))
@pytest.mark.repeats
def test_p_value_with_delta_equals_theorem(made, right, epsilon, delta):
    right = min(right, made)
    coin = binom(made, 1 / (1 + math.exp(-epsilon)))
    shares = [sum(coin.pmf(k) for k in range(max(0, right - i), right)) / i for i in range(1, right + 1)]
    expected = min(1.0, coin.sf(right - 1) + 2 * 50 * delta * max(shares))
    assert p_value(Guesses(50, made, right), epsilon, delta) == pytest.approx(expected, rel=1e-8)


def test_bound_is_where_p_value_equals_error():
    guesses = Guesses(1000, 200, 170)
    bound = epsilon_bound(guesses, 1e-5)
    assert p_value(guesses, bound, 1e-5) <= 0.05 < p_value(guesses, bound + 2e-4, 1e-5)
    assert epsilon_bound(Guesses(1000, 200, 100), 1e-5) == 0.0


@pytest.mark.parametrize("error", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("mu", [0.2, 1.0])
def test_one_canary_contradicts_as_in_closed_form(mu, error):
    """A guess on one canary is correct with probability at most Φ(μ/2): it contradicts if this is below the error."""
    assert contradicts(Guesses(1, 1, 1), gaussian(mu), error) == (norm.cdf(mu / 2) < error)
    assert not contradicts(Guesses(1, 1, 0), gaussian(mu), error)


@pytest.mark.parametrize(("canaries", "mu"), [(20, 0.5), (200, 0.2), (200, 2.0), (3000, 1.0)])
def test_best_attacker_does_not_contradict_true_curve(canaries, mu):
    """An attacker who guesses all coins, each under one Gaussian mechanism, has Binomial(m, Φ(μ/2)) correct."""
    likely = int(binom.isf(0.05, canaries, norm.cdf(mu / 2)))
    assert not any(contradicts(Guesses(canaries, canaries, right), gaussian(mu)) for right in range(likely + 1))


def test_curve_of_pairs_contradicts_no_more_than_exact_curve():
    pairs = [(epsilon, delta_of_gaussian(epsilon, 1.0)) for epsilon in np.linspace(0, 10, 300)]
    for right in range(60, 101):
        guesses = Guesses(500, 100, right)
        assert contradicts(guesses, gaussian(1.0)) >= contradicts(guesses, of_pairs(pairs))
    assert contradicts(Guesses(500, 100, 98), of_pairs(pairs))


@given(st.integers(5, 400), st.data())
def test_bound_increases_with_correct_guesses(canaries, data):
    made = data.draw(st.integers(1, canaries))
    right = data.draw(st.integers(0, made - 1))
    for bound in (epsilon_bound, gaussian_bound):
        assert bound(Guesses(canaries, made, right + 1), 1e-5) >= bound(Guesses(canaries, made, right), 1e-5)


def test_bound_of_perfect_attacker_grows_with_canaries():
    members = np.arange(1000) % 2 == 0
    found = [best(guesses_of(members[:m].astype(float), members[:m]), epsilon_bound, 0.0) for m in (10, 100, 1000)]
    assert 0 < found[0] < found[1] < found[2]
    assert best(guesses_of(-members.astype(float), members), epsilon_bound, 0.0) == 0.0


def test_guesses_are_highest_in_and_lowest_out():
    scores, members = np.array([3.0, 1.0, 2.0, 0.0, 5.0, 4.0]), np.array([1, 0, 0, 0, 1, 1], dtype=bool)
    assert guesses_of(scores, members) == [Guesses(6, 5, 5), Guesses(6, 6, 6)]


def test_too_few_canaries_give_bound_zero():
    assert epsilon_bound(Guesses(FEWEST, FEWEST, FEWEST), 0.0) > 0
    assert epsilon_bound(Guesses(FEWEST - 1, FEWEST - 1, FEWEST - 1), 0.0) == 0
    with pytest.raises(InvalidConfig, match=rf"canaries=4,.* at least {FEWEST}\b"):
        guesses_of(np.zeros(4), np.zeros(4, dtype=bool))


@pytest.mark.parametrize("noise_multiplier", [0.7, 2.0])
def test_one_full_batch_step_gives_gaussian_bound(noise_multiplier):
    """q = 1 and one step is one Gaussian mechanism."""
    plan = PrivacyPlan(
        examples=10,
        batch_size=10,
        steps=1,
        noise_multiplier=noise_multiplier,
        clip_norm=1.0,
        delta=1e-5,
        sampling="all",
    )
    tried = [Guesses(20_000, 1250, 1000), Guesses(20_000, 300, 270)]
    assert steps_bound(tried, plan) == pytest.approx(best(tried, gaussian_bound, 1e-5), rel=0.04)
    assert steps_bound([Guesses(100, 100, 50)], plan) == 0.0


@pytest.mark.parametrize("numbers", [(3, 4, 1), (3, 3, 4), (3, 2, -1)])
def test_invalid_guesses_are_rejected(numbers):
    with pytest.raises(InvalidConfig, match="right="):
        Guesses(*numbers)
