"""The trap of clipping and noising what is sent alone: one sentence moves it by more than C, and an attacker tells."""

import math

import pytest
from scipy.stats import norm

from engine.experiments import trap
from engine.privacy.accounting import gaussian_epsilon


def test_the_noise_would_be_worth_epsilon_1() -> None:
    mu = math.sqrt(trap.STEPS) / trap.noise_multiplier()
    assert gaussian_epsilon(mu, trap.DELTA) == pytest.approx(trap.EPSILON, abs=1e-4)
    assert trap.most_right() == pytest.approx(norm.cdf(mu / 2), abs=1e-12)
    assert 0.55 < trap.most_right() < 0.56


def test_what_is_sent_moves_by_more_than_c_and_an_attacker_is_always_right(trained_settings) -> None:
    found = list(trap.trials(trained_settings, 6, honest=False))
    assert [trial.there for trial in found] == [True, False] * 3
    assert all(trial.moved[0] <= 1 + 1e-5 for trial in found)  # before the kept parts have learned anything
    assert all(max(trial.moved) > 1.5 for trial in found)
    assert sum(max(trial.moved) > 5 for trial in found) >= 4
    # By chance, with what ε = 1 allows, all six in one of 35 cases.
    assert all(trial.guessed == trial.there for trial in found)


def test_where_the_kept_parts_learn_from_what_has_noise_nothing_moves_by_more(trained_settings) -> None:
    found = list(trap.trials(trained_settings, 2, honest=True))
    assert max(max(trial.moved) for trial in found) <= 1 + 1e-5
