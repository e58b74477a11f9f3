"""Partial noise on the shared layers: one sentence changes the sum by more than C, and an attacker detects it."""

import math

import pytest
from scipy.stats import norm

from engine.experiments import trap
from engine.privacy.accounting import gaussian_epsilon


def test_noise_multiplier_gives_epsilon_1() -> None:
    mu = math.sqrt(trap.STEPS) / trap.noise_multiplier()
    assert gaussian_epsilon(mu, trap.DELTA) == pytest.approx(trap.EPSILON, abs=1e-4)
    assert trap.most_right() == pytest.approx(norm.cdf(mu / 2), abs=1e-12)
    assert 0.55 < trap.most_right() < 0.56


@pytest.mark.repeats
def test_partial_noise_exceeds_the_sensitivity_and_the_attacker_always_wins(trained_settings) -> None:
    found = list(trap.trials(trained_settings, 4, honest=False))
    assert [trial.there for trial in found] == [True, False] * 2
    assert all(trial.moved[0] <= 1 + 1e-5 for trial in found)  # before the private heads have learned anything
    assert all(max(trial.moved) > 1.5 for trial in found)
    assert sum(max(trial.moved) > 5 for trial in found) >= 2
    # At the success rate that ε = 1 allows, all four are right with probability 1/10.
    assert all(trial.guessed == trial.there for trial in found)


@pytest.mark.repeats
def test_noise_on_all_weights_keeps_the_sensitivity(trained_settings) -> None:
    found = list(trap.trials(trained_settings, 2, honest=True))
    assert max(max(trial.moved) for trial in found) <= 1 + 1e-5
