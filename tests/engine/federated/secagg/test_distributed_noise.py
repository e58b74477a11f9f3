"""Distributed noise: after secure aggregation and rounding, the sum has at least the planned noise."""

import math

import numpy as np
import pytest
from scipy import stats

from engine.errors import InvalidConfig
from engine.federated.secagg.distributed_noise import aggregate_noise_std, per_client_noise_std
from engine.federated.secagg.protocol import SecAggParams, simulate_round
from engine.federated.secagg.quantization import FixedPoint
from engine.seeds import Secrets

SIGNIFICANCE = 1e-6
"""Probability that correct noise fails one of these tests."""
PARTIES, DROPPED, WEIGHTS, STD = 9, 3, 60_000, 0.8


@pytest.fixture(scope="module", params=[0, 1, 3], ids=lambda number: f"{number} dropouts")
def noise_of_sum(request):
    """Return the noise in the sum, and the number of clients that arrived."""
    random = np.random.default_rng(request.param)
    share = per_client_noise_std(STD, PARTIES, DROPPED)
    grid = FixedPoint(parties=PARTIES, clip_norm=1.0, noise_std=share)
    updates = random.normal(0, 1 / math.sqrt(WEIGHTS), (PARTIES, WEIGHTS))
    updates /= np.maximum(1, np.linalg.norm(updates, axis=1, keepdims=True))
    uploads = {n: grid.truncate(update) + random.normal(0, share, WEIGHTS) for n, update in enumerate(updates)}
    plan = SecAggParams(parties=PARTIES, weights=WEIGHTS, max_dropouts=DROPPED)
    dropouts = range(2, 2 + request.param)
    result = simulate_round(plan, grid, uploads, secrets=Secrets.seeded(0, "noise"), dropouts={"masked": dropouts})
    arrived = [n for n in range(PARTIES) if n not in dropouts]
    return result.total - sum(grid.truncate(updates[n]) for n in arrived), len(arrived)


def test_sum_has_the_noise_of_the_clients_that_arrived(noise_of_sum):
    noise, arrived = noise_of_sum
    std = aggregate_noise_std(per_client_noise_std(STD, PARTIES, DROPPED), arrived)
    assert std >= STD * (1 - 1e-12)
    assert stats.kstest(noise / std, "norm").pvalue > SIGNIFICANCE
    for wrong in (2 / 3, 1.5):
        assert stats.kstest(noise / (wrong * std), "norm").pvalue < SIGNIFICANCE


def test_aggregate_noise_is_not_less_than_planned(noise_of_sum):
    noise, arrived = noise_of_sum
    # The sum of squares over the planned variance has a chi-square distribution. Correct noise is below this quantile
    # once in a million sums; two thirds of the noise is below it.
    least = stats.chi2.ppf(SIGNIFICANCE, WEIGHTS)
    assert float(noise @ noise) / STD**2 > least
    assert float(noise @ noise) * (2 / 3) ** 2 / STD**2 < least or arrived == PARTIES


def test_noise_shares_equal_results_by_hand():
    assert per_client_noise_std(6.0, 12, 3) == 2.0
    assert aggregate_noise_std(2.0, 9) == 6.0
    assert aggregate_noise_std(2.0, 12) == pytest.approx(6 * math.sqrt(12 / 9))
    assert per_client_noise_std(0.0, 5, 0) == 0.0
    for parties in range(1, 30):
        for dropped in range(parties):
            share = per_client_noise_std(1.0, parties, dropped)
            assert aggregate_noise_std(share, parties - dropped) == pytest.approx(1.0)
            assert aggregate_noise_std(share, parties - dropped - 1) < 0.999


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ((-1.0, 3, 1), "noise_std"),
        ((math.nan, 3, 1), "noise_std"),
        ((1.0, 0, 0), "parties"),
        ((1.0, 3, 3), "max_dropouts"),
    ],
)
def test_invalid_parameters_are_refused(wrong, field):
    with pytest.raises(InvalidConfig, match=field):
        per_client_noise_std(*wrong)
