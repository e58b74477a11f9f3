"""Audits with known truth: their bounds are valid and useful."""

import numpy as np
import pytest

from engine.errors import InvalidConfig
from engine.privacy.audit import calibration
from engine.privacy.audit.tradeoff_functions import delta_of_gaussian


@pytest.mark.repeats(after=3)
@pytest.mark.parametrize("family", calibration.FAMILIES)
@pytest.mark.parametrize("epsilon", [1.0, 3.0, 8.0])
def test_bound_has_coverage_and_power(epsilon, family):
    """``benchmarks.audit_known`` has the long version with 1,000 repetitions."""
    found = calibration.gaussian_mechanism(epsilon, repetitions=40, canaries=20_000, family=family)
    assert found.coverage >= 0.95
    assert found.median > {"gaussian": 0.5, "any": 0.35, "trials": 0.6}[family] * epsilon


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 8.0])
def test_stronger_assumptions_give_larger_bounds(epsilon):
    any_mechanism, gaussian, trials = (
        calibration.gaussian_mechanism(epsilon, repetitions=10, canaries=20_000, family=name).median
        for name in ("any", "gaussian", "trials")
    )
    assert any_mechanism < gaussian < trials < epsilon


def test_half_of_the_noise_is_detected():
    """Claimed ε = 3 with half of its σ: the true ε is 6.9."""
    truth = calibration.epsilon_at(3.0, 1e-5, noise=0.5)
    assert truth == pytest.approx(6.9, abs=0.3)
    found = calibration.gaussian_mechanism(truth, repetitions=20, canaries=100_000)
    assert (found.bounds > 3.0).mean() >= 0.9


def test_coverage_fails_for_too_small_claim():
    """Coverage can fail: it does for a claim that is too small."""
    found = calibration.gaussian_mechanism(8.0, repetitions=10, canaries=20_000)
    assert not (found.bounds <= 1.0).any()


def test_repetitions_differ_and_are_reproducible():
    one, again = (calibration.gaussian_mechanism(3.0, repetitions=5, canaries=500) for _ in range(2))
    assert np.array_equal(one.bounds, again.bounds)
    assert len(set(one.bounds.tolist())) > 1
    assert delta_of_gaussian(3.0, 1 / calibration.sigma(3.0, 1e-5)) == pytest.approx(1e-5, rel=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [{"repetitions": 0}, {"canaries": 0}, {"canaries": 4}, {"family": "laplace"}, {"delta": 0.0}, {"delta": 1.0}],
)
def test_invalid_argument_is_named(wrong):
    with pytest.raises(InvalidConfig, match=next(iter(wrong))):
        calibration.gaussian_mechanism(**{"epsilon": 3.0, "repetitions": 2} | wrong)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 51.0, float("nan")])
def test_invalid_epsilon_is_named(epsilon):
    with pytest.raises(InvalidConfig, match="epsilon="):
        calibration.gaussian_mechanism(epsilon, repetitions=1)
