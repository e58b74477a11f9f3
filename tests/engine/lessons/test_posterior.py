"""The meaning of ε: closed forms against draws, quadrature and accounting."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from engine.errors import InvalidConfig
from engine.lessons import posterior
from engine.lessons.noise_mechanisms import KINDS, fitting

DELTA = 1e-5


@pytest.mark.parametrize("prior", [0.01, 0.5, 0.9])
def test_laplace_posterior_attains_its_bounds(prior):
    noise = fitting("laplace", 1.3, DELTA)
    believed = posterior.belief(noise, np.linspace(-20, 20, 2001), prior)
    low, high = posterior.bounds(1.3, prior)
    assert believed.min() == pytest.approx(low)
    assert believed.max() == pytest.approx(high)
    assert high == pytest.approx(prior * math.exp(1.3) / (1 - prior + prior * math.exp(1.3)))


@pytest.mark.parametrize("kind", KINDS)
def test_belief_equals_simulated_frequency(kind):
    """Among all answers near a point, the share from the world that includes the person."""
    noise, prior = fitting(kind, 1.0, 0.05), 0.3
    random = np.random.default_rng(4)
    present = random.random(400_000) < prior
    seen = present + noise.draws(random, len(present))
    for point in (-0.5, 0.5, 1.2):
        near = np.abs(seen - point) < 0.05
        expected = float(posterior.belief(noise, point, prior))
        assert present[near].mean() == pytest.approx(expected, abs=4 * math.sqrt(0.25 / near.sum()) + 0.01)


def test_gaussian_exceedance_probability_equals_simulation():
    noise = fitting("gaussian", 1.0, 0.01)
    drawn = 1 + noise.draws(np.random.default_rng(5), 200_000)
    beyond = (posterior.log_ratio(noise, drawn) > 1.0).mean()
    said = posterior.chance_beyond(noise, 1.0)
    assert beyond == pytest.approx(said, abs=4 * math.sqrt(said / 200_000))
    assert said > 0.01  # more often than δ


def test_laplace_exceedance_probability_equals_simulation():
    noise = fitting("laplace", 1.0, DELTA)
    drawn = 1 + noise.draws(np.random.default_rng(6), 100_000)
    for epsilon in (-0.5, 0.0, 0.7):
        assert (posterior.log_ratio(noise, drawn) > epsilon).mean() == pytest.approx(
            posterior.chance_beyond(noise, epsilon), abs=0.007
        )
    assert posterior.chance_beyond(noise, 1.0) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_right_bets_equal_half_plus_half_total_variation(kind):
    noise = fitting(kind, 2.0, 1e-3)
    apart, _ = integrate.quad(
        lambda x: abs(float(noise.density(x - 1)) - float(noise.density(x))), -60, 60, points=[0, 0.5, 1], limit=400
    )
    assert posterior.right_bets(noise) == pytest.approx(0.5 + apart / 4, abs=1e-7)


def test_epsilon_of_inverts_bounds():
    for prior, epsilon in ((0.5, 1.0), (0.02, 3.0)):
        assert posterior.epsilon_of(posterior.bounds(epsilon, prior)[1], prior) == pytest.approx(epsilon)
        assert posterior.epsilon_of(posterior.bounds(epsilon, prior)[0], prior) == pytest.approx(epsilon)
    assert posterior.epsilon_of(1.0, 0.5) == math.inf
    assert posterior.epsilon_of(0.5, 0.5) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_answer_of_inverts_belief(kind):
    noise = fitting(kind, 1.0, DELTA)
    for sure in (0.1, 0.22, 0.25):
        found = posterior.answer_of(noise, sure, 0.2)
        assert float(posterior.belief(noise, found, 0.2)) == pytest.approx(sure)
    assert posterior.answer_of(noise, 1.0, 0.2) is None
    assert (posterior.answer_of(noise, 0.9, 0.2) is None) == (kind == "laplace")


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_reproducible_and_follow_their_world(kind):
    noise = fitting(kind, 1.0, DELTA)
    reference = {"laplace": stats.laplace, "gaussian": stats.norm}[kind]
    for present in (True, False):
        drawn = posterior.answers(noise, 3000, present=present)
        np.testing.assert_array_equal(drawn, posterior.answers(noise, 3000, present=present))
        assert stats.kstest(drawn, reference(loc=present, scale=noise.scale).cdf).pvalue > 0.001
        assert stats.kstest(drawn, reference(loc=not present, scale=noise.scale).cdf).pvalue < 0.001


def test_published_probability():
    assert posterior.published(1e-5, 1) == pytest.approx(1e-5)
    assert posterior.published(0.01, 100) == pytest.approx(1 - 0.99**100)
    assert posterior.published(1.0, 3) == 1
    assert posterior.published(0.0, 3) == 0


def test_group_epsilon_of_ten_sentences():
    assert posterior.group_epsilon("laplace", 0.4, DELTA, 10) == pytest.approx(4)
    assert posterior.group_epsilon("gaussian", 1.0, DELTA, 1) == pytest.approx(1, rel=1e-6)
    ten = posterior.group_epsilon("gaussian", 1.0, DELTA, 10)
    assert ten > 10
    # δ at that ε, for two Gaussians whose means are ten times as far apart.
    mu = 10 / fitting("gaussian", 1.0, DELTA).scale
    delta = stats.norm.cdf(mu / 2 - ten / mu) - math.exp(ten) * stats.norm.cdf(-mu / 2 - ten / mu)
    assert delta == pytest.approx(DELTA, rel=1e-5)


def test_training_epsilon_of_ten_sentences():
    assert posterior.training_epsilon(1.0, 1) == pytest.approx(1, abs=0.01)
    assert posterior.training_epsilon(1.0, 10) > 10


def test_prior_outside_open_unit_interval_is_rejected():
    for prior in (0.0, 1.0, -1, math.nan):
        with pytest.raises(InvalidConfig, match="prior"):
            posterior.bounds(1.0, prior)
