"""Critical values of the noise check compared with independent computations."""

import math

import numpy as np
import pytest
from scipy import stats

from engine.privacy.noise_check import critical_values

PROBABILITIES = (0.1, 1e-3, 1e-10)


@pytest.mark.parametrize("chance", PROBABILITIES)
def test_square_bounds_equal_chi_squared(chance: float) -> None:
    draws = np.array([1, 2, 50, 4096, 10_000_000])
    low, high = critical_values.square_bounds(draws, chance)
    np.testing.assert_allclose(stats.chi2.cdf(low, draws), chance / 2, rtol=1e-4)
    np.testing.assert_allclose(stats.chi2.sf(high, draws), chance / 2, rtol=1e-4)


def test_square_bounds_approach_normal_limit() -> None:
    for draws in (1e9, 1e11):
        low, high = ((each - draws) / math.sqrt(2 * draws) for each in critical_values.square_bounds(draws, 1e-9))
        z = stats.norm.isf(5e-10)
        assert low == pytest.approx(-z, abs=1e-3)
        assert high == pytest.approx(z, abs=1e-3)
        assert low <= -z + (z * z - 1) / 3 * math.sqrt(2 / draws)  # no nearer than its skewness allows


@pytest.mark.parametrize("draws", [1, 7, 2048])
def test_square_scores_are_normal_quantiles(draws: int) -> None:
    for probability in (1e-12, 0.01, 0.4999, 0.5001, 0.99):
        square = stats.chi2.ppf(probability, draws)
        assert critical_values.square_score(square, draws) == pytest.approx(stats.norm.ppf(probability), abs=1e-6)
    assert critical_values.square_score(stats.chi2.isf(1e-12, draws), draws) == pytest.approx(
        -stats.norm.ppf(1e-12), abs=1e-6
    )
    assert critical_values.square_score(0.0, draws) == pytest.approx(stats.norm.ppf(1e-300))
    assert critical_values.square_score(1e9, draws) == pytest.approx(-stats.norm.ppf(1e-300))
    assert math.isnan(critical_values.square_score(math.nan, draws))


@pytest.mark.parametrize("chance", PROBABILITIES)
def test_normal_and_sum_bounds(chance: float) -> None:
    assert 2 * stats.norm.sf(critical_values.normal_bound(chance)) == pytest.approx(chance)
    for draws in (1, 400):
        # Never below the exact quantile of normal draws, and its own inverse.
        allowed = float(critical_values.sum_bound(draws, chance))
        assert allowed >= math.sqrt(draws) * critical_values.normal_bound(chance)
        assert 2 * math.exp(-(allowed**2) / (2 * draws)) == pytest.approx(chance)


def test_distance_bound_is_at_least_kolmogorov() -> None:
    for draws in (1, 10, 1000):
        for chance in (0.1, 1e-3):
            allowed = float(critical_values.distance_bound(draws, chance))
            assert stats.kstwo.sf(allowed, draws) <= chance
            assert 2 * math.exp(-2 * draws * allowed**2) == pytest.approx(chance)
    assert float(critical_values.distance_bound(0, 0.1)) == float(critical_values.distance_bound(1, 0.1))


@pytest.mark.parametrize(("number", "probability"), [(1, 0.3), (40, 0.1), (4_388, 0.0023), (14_041, 0.3), (50, 0.98)])
def test_count_scores_are_standard_normal(number: int, probability: float) -> None:
    random = np.random.default_rng(1)
    counts, ties = random.binomial(number, probability, 20_000), random.random(20_000)
    scores = critical_values.normal_scores(counts, ties, number, probability)
    assert stats.kstest(scores, "norm").pvalue > 1e-3
    singly = [
        critical_values.normal_score(int(k), float(u), number, probability) for k, u in zip(counts, ties, strict=True)
    ]
    np.testing.assert_allclose(singly[:500], scores[:500])
    exact = stats.binom.cdf(counts - 1, number, probability) + ties * stats.binom.pmf(counts, number, probability)
    np.testing.assert_allclose(scores, stats.norm.ppf(exact), atol=1e-6)


def test_count_scores_out_of_range_are_40() -> None:
    assert critical_values.normal_score(10_000, 0.5, 1_000_000, 1e-4) == 40.0
    assert critical_values.normal_score(0, 0.5, 1_000_000, 0.5) == -40.0
    np.testing.assert_array_equal(
        critical_values.normal_scores(np.array([0, 10**6]), np.array([0.5, 0.5]), 1_000_000, 0.5), [-40.0, 40.0]
    )


def test_count_scores_keep_precision_in_both_tails() -> None:
    expected = stats.norm.ppf(0.5 * 0.1**100)
    assert critical_values.normal_score(0, 0.5, 100, 0.9) == pytest.approx(expected, rel=1e-6)
    assert critical_values.normal_score(100, 0.5, 100, 0.1) == pytest.approx(-expected, rel=1e-6)
    assert critical_values.normal_scores(np.array([0]), np.array([0.5]), 100, 0.9) == pytest.approx(
        [expected], rel=1e-6
    )
    assert critical_values.normal_scores(np.array([100]), np.array([0.5]), 100, 0.1) == pytest.approx(
        [-expected], rel=1e-6
    )


@pytest.mark.parametrize(("number", "probability", "deviation"), [(1_000_000, 0.1, 300), (1_000_000, 0.9, 300)])
def test_range_of_counts_is_40_deviations_plus_40(number: int, probability: float, deviation: int) -> None:
    """Within this range, probabilities too small for a float count as 1e-300."""
    mean, reach = round(number * probability), 40 * deviation + 40
    ends = np.array([mean - reach - 1, mean - reach, mean + reach, mean + reach + 1])
    least = stats.norm.ppf(1e-300)
    expected = [-40.0, least, -least, 40.0]
    assert critical_values.normal_scores(ends, np.full(4, 0.5), number, probability) == pytest.approx(expected)
    singly = [critical_values.normal_score(int(count), 0.5, number, probability) for count in ends]
    assert singly == pytest.approx(expected)


@pytest.mark.parametrize(("number", "probability"), [(30, 0.3), (50, 0.02), (50, 0.97)])
def test_distribution_covers_zero_to_number(number: int, probability: float) -> None:
    first, chances = critical_values._distribution(number, probability)
    assert first == 0
    exact = [math.comb(number, k) * probability**k * (1 - probability) ** (number - k) for k in range(number + 1)]
    np.testing.assert_allclose(chances[0], exact, rtol=1e-9)
    np.testing.assert_allclose(chances[1], [math.fsum(exact[:k]) for k in range(number + 1)], rtol=1e-9)
    np.testing.assert_allclose(chances[2], [math.fsum(exact[k + 1 :]) for k in range(number + 1)], rtol=1e-9)


@pytest.mark.parametrize(("draws", "probability"), [(30, 0.3), (60, 0.02), (60, 0.97)])
def test_count_bounds_equal_summed_probabilities(draws: int, probability: float) -> None:
    """One more than the quantile is allowed on either side."""
    exact = [math.comb(draws, k) * probability**k * (1 - probability) ** (draws - k) for k in range(draws + 1)]
    for chance in (0.3, 1e-3, 1e-6):
        lowest = next(k for k in range(draws + 1) if math.fsum(exact[: k + 1]) >= chance / 2)
        highest = next(k for k in range(draws + 1) if math.fsum(exact[k + 1 :]) <= chance / 2)
        assert critical_values.count_bounds(draws, probability, chance) == (lowest - 1, highest + 1)


def test_false_alarm_budget_is_split_evenly() -> None:
    assert critical_values.FALSE_ALARM == 1e-6
    assert critical_values.share(1) == pytest.approx(1e-6 / 16)  # sixteen questions, listed beside FAMILIES
    assert critical_values.share(10) * 10 * 16 == pytest.approx(1e-6)
    assert critical_values.share(0) == critical_values.share(1)


def test_run_has_at_most_the_planned_verdicts() -> None:
    """Records by rounds and by steps, and the verdict on the saved model."""
    from engine.simulation.recorder import report_steps

    most = max(len(report_steps(steps)) for steps in (50, 1000, 4388, 100_000))
    assert 2 * most + 1 <= critical_values.VERDICTS == 64
