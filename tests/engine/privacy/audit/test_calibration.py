"""Audits where the truth is known: a bound that holds, and that is worth something."""

import numpy as np
import pytest

from engine.errors import InvalidConfig
from engine.privacy.audit import calibration
from engine.privacy.audit.tradeoff_functions import delta_of_gaussian


@pytest.mark.parametrize("family", calibration.FAMILIES)
@pytest.mark.parametrize("epsilon", [1.0, 3.0, 8.0])
def test_the_bound_holds_and_is_worth_something(epsilon, family):
    """The long form, 1,000 repetitions, is in ``benchmarks.audit_known``."""
    found = calibration.gaussian_mechanism(epsilon, repetitions=40, canaries=20_000, family=family)
    assert found.coverage >= 0.95
    assert found.median > {"gaussian": 0.5, "any": 0.35, "trials": 0.6}[family] * epsilon


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 8.0])
def test_who_takes_more_for_granted_bounds_more(epsilon):
    any_mechanism, gaussian, trials = (
        calibration.gaussian_mechanism(epsilon, repetitions=10, canaries=20_000, family=name).median
        for name in ("any", "gaussian", "trials")
    )
    assert any_mechanism < gaussian < trials < epsilon


def test_a_mechanism_with_half_its_noise_is_found_out():
    """ε = 3 claimed, half of its σ there: ε is then 6.9."""
    truth = calibration.epsilon_at(3.0, 1e-5, noise=0.5)
    assert truth == pytest.approx(6.9, abs=0.3)
    found = calibration.gaussian_mechanism(truth, repetitions=20, canaries=100_000)
    assert (found.bounds > 3.0).mean() >= 0.9


def test_bounds_are_so_bad_as_they_may_be_where_the_noise_is_of_another_size():
    """That coverage can fail: against a claim that is too small it does."""
    found = calibration.gaussian_mechanism(8.0, repetitions=10, canaries=20_000)
    assert not (found.bounds <= 1.0).any()


def test_repetitions_differ_and_come_again():
    one, again = (calibration.gaussian_mechanism(3.0, repetitions=5, canaries=500) for _ in range(2))
    assert np.array_equal(one.bounds, again.bounds)
    assert len(set(one.bounds.tolist())) > 1
    assert delta_of_gaussian(3.0, 1 / calibration.sigma(3.0, 1e-5)) == pytest.approx(1e-5, rel=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [{"repetitions": 0}, {"canaries": 0}, {"canaries": 4}, {"family": "laplace"}, {"delta": 0.0}, {"delta": 1.0}],
)
def test_values_out_of_range_are_named(wrong):
    with pytest.raises(InvalidConfig, match=next(iter(wrong))):
        calibration.gaussian_mechanism(**{"epsilon": 3.0, "repetitions": 2} | wrong)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 51.0, float("nan")])
def test_an_epsilon_out_of_range_is_named(epsilon):
    with pytest.raises(InvalidConfig, match="epsilon="):
        calibration.gaussian_mechanism(epsilon, repetitions=1)
