"""Bounds from independent trials: confidence of the error rates, and the trade-off curves that they rule out."""

import numpy as np
import pytest
from scipy.stats import binomtest, norm

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
