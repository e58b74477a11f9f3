"""Bounds from independent trials: confidence of the error rates, and the trade-off curves that they rule out."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest, norm

from engine.privacy.audit import multi_run
from engine.privacy.audit.tradeoff_functions import gaussian


@pytest.mark.parametrize(("count", "number"), [(0, 10), (3, 50), (50, 50), (200, 1000)])
def test_error_bounds_equal_clopper_pearson(count: int, number: int) -> None:
    """The second half has the same count of each kind of error; the threshold, 0.5, comes from the first half."""
    first = np.array([0.0, 1.0] * number)
    outside = np.concatenate([np.ones(count), np.zeros(number - count)])
    scores = np.concatenate([first, outside, 1 - outside])
    members = np.concatenate([first > 0.5, np.zeros(number), np.ones(number)]).astype(bool)
    expected = binomtest(count, number, alternative="less").proportion_ci(0.975).high
    assert multi_run.errors(scores, members, 0.05) == pytest.approx((expected, expected))


def test_error_bounds_have_coverage() -> None:
    random, wrong = np.random.default_rng(0), 0
    for _ in range(300):
        members = random.random(400) < 0.5
        rates = multi_run.errors(members + random.standard_normal(400), members)
        wrong += multi_run.ruled_out(rates, gaussian(1.0))
    assert wrong <= 300 * 0.05 + 3 * np.sqrt(300 * 0.05)


def test_low_error_rates_rule_out_curve_in_both_directions() -> None:
    rates = (0.3, 0.2)
    assert norm.ppf(0.7) - norm.ppf(0.2) == pytest.approx(1.366, abs=1e-3)
    assert not multi_run.ruled_out(rates, gaussian(1.37))
    assert multi_run.ruled_out(rates, gaussian(1.36))
    assert multi_run.ruled_out(rates[::-1], gaussian(1.36))


@pytest.mark.parametrize(("made", "mu"), [(20, 0.5), (900, 0.26), (7200, 0.26), (900, 1.6)])
@pytest.mark.parametrize("error", [0.05, 0.04])
def test_count_of_the_best_attacker_is_ruled_out_with_at_most_the_error(made: int, mu: float, error: float) -> None:
    """The best guess on a fair coin under one Gaussian mechanism is right with probability Φ(μ/2)."""
    counts = np.arange(made + 1)
    out = [multi_run.count_ruled_out(right, made, gaussian(mu), error) for right in counts.tolist()]
    probability = binom.pmf(counts, made, norm.cdf(mu / 2))[out].sum()
    assert error / 3 < probability <= error


def test_count_needs_fewer_canaries_than_error_rates() -> None:
    random = np.random.default_rng(0)
    members = random.random(1000) < 0.5
    scores = members + random.standard_normal(1000)
    counted = multi_run.correct(scores, members)
    rates = multi_run.errors(scores, members)
    strengths = np.arange(0, 2, 0.01)
    by_count = max(mu for mu in strengths if multi_run.count_ruled_out(*counted, gaussian(mu)))
    by_rates = max(mu for mu in strengths if multi_run.ruled_out(rates, gaussian(mu)))
    assert 1.1 * by_rates < by_count <= 1.0


def test_threshold_depends_on_the_first_tenth_alone() -> None:
    random = np.random.default_rng(0)
    members = random.random(1000) < 0.5
    scores = members + 0.1 * random.standard_normal(1000)
    right, made = multi_run.correct(scores - 9, members)  # as in a faulty run, whose scores are all negative
    assert (right, made) == (900, 900)
    changed = scores.copy()
    changed[500] += 99 * (1 if members[500] else -1)
    assert multi_run.correct(changed, members) == (right, made)
    changed[500] *= -1
    assert multi_run.correct(changed, members) == (right - 1, made)
    assert multi_run.correct(np.array([1.0, -1.0, 1.0]), np.array([True, False, False])) == (2, 3)
