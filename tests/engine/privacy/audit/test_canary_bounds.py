"""Bounds from canaries of one run and of several seeds: coverage, and the joint bound."""

import numpy as np
import pytest

from engine.privacy.accounting import epsilon
from engine.privacy.audit import calibration, canary_bounds, multi_run
from engine.privacy.audit.one_run import Guesses
from engine.privacy.audit.tradeoff_functions import of_steps
from engine.privacy.plan import PrivacyPlan

PLAN = PrivacyPlan(
    examples=6000, batch_size=600, steps=20, noise_multiplier=1.0, clip_norm=1.0, delta=1e-5, sampling="poisson"
)
CLAIMED = epsilon(PLAN, PLAN.steps)


def runs(number: int, canaries: int = 500) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return scores and memberships of correct runs."""
    random = np.random.default_rng(7)
    return [calibration.dp_sgd_steps(PLAN, canaries, random) for _ in range(number)]


def joint(found: list[tuple[np.ndarray, np.ndarray]], *, independent: bool = True) -> float:
    guesses = [calibration.guesses_of(*run)[-1] for run in found]
    trials = [multi_run.correct(*run) if independent else None for run in found]
    return canary_bounds.of_seeds(guesses, trials, PLAN)


@pytest.mark.repeats
def test_joint_bound_has_coverage_and_power() -> None:
    """A bound exceeds the true ε if and only if it rules out the true noise."""
    truth = of_steps(PLAN.sampling_probability, PLAN.noise_multiplier, PLAN.steps)
    more = of_steps(PLAN.sampling_probability, 1.5 * PLAN.noise_multiplier, PLAN.steps)
    found = [multi_run.correct(*run) for run in runs(800)]
    pooled = [(int(right), int(made)) for right, made in np.array(found).reshape(200, 4, 2).sum(1)]
    wrong = sum(multi_run.count_ruled_out(right, made, truth) for right, made in pooled)
    assert wrong <= 200 * 0.05 + 3 * np.sqrt(200 * 0.05)
    power, alone = (
        np.mean([multi_run.count_ruled_out(right, made, more) for right, made in trials]) for trials in (pooled, found)
    )
    assert power > 2 * alone


def test_joint_bound_exceeds_that_of_a_seed_and_is_below_the_truth() -> None:
    found = runs(4)
    assert joint(found[:1]) < joint(found) <= CLAIMED


def test_joint_bound_is_that_of_one_run_with_all_canaries() -> None:
    canaries = [Guesses(500, 500, 300), Guesses(500, 500, 320)]
    both = canary_bounds.of_seeds(canaries, [(270, 450), (290, 450)], PLAN)
    assert both == canary_bounds.of_seeds([Guesses(1000, 1000, 0)], [(560, 900)], PLAN)
    dependent = canary_bounds.of_seeds(canaries, [None, None], PLAN)
    assert dependent == canary_bounds.of_seeds([Guesses(1000, 1000, 620)], [None], PLAN)
    assert dependent < both


def test_bounds_of_one_run_share_the_error() -> None:
    (run,) = runs(1, 2000)
    whole = canary_bounds.of_one_run(*run, PLAN, independent=True)
    assert whole.trials == multi_run.correct(*run)
    assert 0 < whole.of_trials < joint([run]), "the joint bound of one run has the whole error"
    assert whole.best == whole.of_trials > whole.of_steps > whole.any
    dependent = canary_bounds.of_one_run(*run, PLAN, independent=False)
    assert dependent.of_trials is None
    assert dependent.of_steps >= whole.of_steps


@pytest.mark.parametrize("noise", [0.5, 0.0])
@pytest.mark.repeats(after=1)
def test_missing_noise_contradicts_the_claim_of_the_plan(noise: float) -> None:
    random = np.random.default_rng(3)
    members, scores = random.random(2000) < 0.5, np.zeros(2000)
    for _ in range(PLAN.steps):
        release = (members & (random.random(2000) < PLAN.sampling_probability)) + noise * random.standard_normal(2000)
        scores += canary_bounds.log_likelihood_ratio(release, PLAN)
    assert canary_bounds.of_one_run(scores, members, PLAN, independent=True).of_trials > 1.1 * CLAIMED
