"""Noise in shares: the sum of those who arrive has what was planned, through the secure sum, grid and all."""

import math

import numpy as np
import pytest
from scipy import stats

from engine.errors import InvalidConfig
from engine.federated.secagg.distributed_noise import aggregate_noise_std, per_client_noise_std
from engine.federated.secagg.protocol import SecAggParams, simulate_round
from engine.federated.secagg.quantization import FixedPoint
from engine.seeds import Secrets

CHANCE = 1e-6
"""That honest noise fails one of these tests."""
PARTIES, DROPPED, WEIGHTS, STD = 9, 3, 60_000, 0.8


@pytest.fixture(scope="module", params=[0, 1, 3], ids=lambda gone: f"{gone} vanish")
def summed(request):
    """What the sum has beyond the updates, and how many arrived."""
    random = np.random.default_rng(request.param)
    share = per_client_noise_std(STD, PARTIES, DROPPED)
    grid = FixedPoint(parties=PARTIES, clip_norm=1.0, noise_std=share)
    updates = random.normal(0, 1 / math.sqrt(WEIGHTS), (PARTIES, WEIGHTS))
    updates /= np.maximum(1, np.linalg.norm(updates, axis=1, keepdims=True))
    uploads = {n: grid.truncate(update) + random.normal(0, share, WEIGHTS) for n, update in enumerate(updates)}
    plan = SecAggParams(parties=PARTIES, weights=WEIGHTS, max_dropouts=DROPPED)
    gone = range(2, 2 + request.param)
    opened = simulate_round(plan, grid, uploads, secrets=Secrets.seeded(0, "noise"), dropouts={"masked": gone})
    arrived = [n for n in range(PARTIES) if n not in gone]
    return opened.total - sum(grid.truncate(updates[n]) for n in arrived), len(arrived)


def test_the_sum_has_the_noise_of_those_who_arrived(summed):
    noise, arrived = summed
    std = aggregate_noise_std(per_client_noise_std(STD, PARTIES, DROPPED), arrived)
    assert std >= STD * (1 - 1e-12)
    assert stats.kstest(noise / std, "norm").pvalue > CHANCE
    for wrong in (2 / 3, 1.5):
        assert stats.kstest(noise / (wrong * std), "norm").pvalue < CHANCE


def test_that_is_never_less_than_planned(summed):
    noise, arrived = summed
    # The sum of squares over the planned variance has the chi-square distribution, with a lower tail that is crossed by
    # chance once in a million sums; two thirds of the noise crosses it.
    least = stats.chi2.ppf(CHANCE, WEIGHTS)
    assert float(noise @ noise) / STD**2 > least
    assert float(noise @ noise) * (2 / 3) ** 2 / STD**2 < least or arrived == PARTIES


def test_shares_by_hand():
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
    ("wrong", "named"),
    [
        ((-1.0, 3, 1), "noise_std"),
        ((math.nan, 3, 1), "noise_std"),
        ((1.0, 0, 0), "parties"),
        ((1.0, 3, 3), "max_dropouts"),
    ],
)
def test_what_cannot_be_meant_is_refused(wrong, named):
    with pytest.raises(InvalidConfig, match=named):
        per_client_noise_std(*wrong)
