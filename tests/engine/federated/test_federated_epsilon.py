"""ε of federations against the PRV accountant.

The tests derive the sentences, steps and sampling probabilities of clients by hand, not from the plan.
"""

import math
from typing import Any

import numpy as np
import pytest

from engine.config import FederationConfig, PrivacyConfig, SimulationConfig, TrainingConfig
from engine.errors import InvalidConfig
from engine.federated.accounting import noise_multiplier_for, privacy_spent
from engine.federated.plan import FederatedPlan, LocalTraining, federated_plan
from engine.privacy import second_accountant
from engine.privacy.plan import PrivacyPlan
from engine.records.assumption_texts import DISJOINT, SHUFFLE
from engine.seeds import Secrets
from tests.engine.privacy.prv import assert_priced, gaussian_by_mpmath

SECRETS = Secrets.seeded(3, "run")


def plan_of(sentences: int, batch_size: int, epochs: float, privacy: PrivacyConfig, **chosen: object) -> FederatedPlan:
    config = SimulationConfig(
        training=TrainingConfig(batch_size=batch_size, epochs=epochs),
        federation=FederationConfig(**chosen),
        privacy=privacy,
        seed=3,
    )
    return federated_plan(
        config, sentences, lambda: pytest.fail("the layout is not needed"), lambda: Secrets.seeded(config.seed, "run")
    )


def assert_worst_case(epsilon: float, clients: list[tuple[float, int]], sigma: float, delta: float) -> None:
    """Check that ε is the maximum over clients, given as (sampling probability, steps)."""
    costs = {
        client: second_accountant.sampled(client[0], sigma, client[1], delta).estimate
        for client in set(clients)
        if client[1]
    }
    probability, steps = max(costs, key=lambda client: costs[client])
    assert_priced(epsilon, probability, sigma, steps, delta)


@pytest.mark.parametrize(
    ("clients", "rounds", "epochs", "examples", "steps", "reference"),
    [
        # 14,041 = 2,809 + 4 · 2,808 sentences; 10 epochs of 2,808 by 32 are 877.5 steps.
        (5, 1, 10, 2_808, 878, 1.9783),
        # 14,041 = 703 + 19 · 702 sentences; an epoch of 702 by 32 is 21.9 steps, ten rounds have ten times 22.
        (20, 10, 1, 702, 220, 4.5232),
    ],
)
def test_equal_clients(clients: int, rounds: int, epochs: float, examples: int, steps: int, reference: float) -> None:
    plan = plan_of(14_041, 32, epochs, PrivacyConfig(noise_multiplier=1.0), clients=clients, rounds=rounds)
    epsilon = privacy_spent(plan, plan.steps, rounds).epsilon
    assert_priced(epsilon, 32 / examples, 1.0, steps, 1e-5)
    assert epsilon == pytest.approx(reference, rel=3e-4)


def test_unequal_clients() -> None:
    """404 sentences in proportion to 1, 1/2, 1/3, 1/4: one for each client, and 12, 6, 4 and 3 parts of 400 ÷ 25."""
    plan = plan_of(404, 8, 3, PrivacyConfig(noise_multiplier=2.5, delta=1e-4), clients=4, rounds=2, partition="unequal")
    # 3 epochs by 8 sentences, in each round: 193 · 3/8 = 72.4, 97 · 3/8 = 36.4, 65 · 3/8 = 24.4, 49 · 3/8 = 18.4.
    by_hand = [(8 / 193, 144), (8 / 97, 72), (8 / 65, 48), (8 / 49, 36)]
    assert plan.steps == 300
    assert_worst_case(privacy_spent(plan, 300, 2).epsilon, by_hand, 2.5, 1e-4)
    assert_priced(privacy_spent(plan, 300, 2).epsilon, 8 / 49, 2.5, 36, 1e-4)
    # Within the second round, the first two clients have finished it, and the third has taken 10 steps.
    steps_taken = 72 + 36 + 24 + 18 + 72 + 36 + 10
    assert_worst_case(
        privacy_spent(plan, steps_taken, 1).epsilon,
        [(8 / 193, 144), (8 / 97, 72), (8 / 65, 34), (8 / 49, 18)],
        2.5,
        1e-4,
    )
    # Within the first round, only the largest client has trained.
    assert_priced(privacy_spent(plan, 40, 0).epsilon, 8 / 193, 2.5, 40, 1e-4)


def test_incremental_pieces() -> None:
    """Five clients split 2,808 or 2,809 sentences into ten pieces of 280 or 281.

    A sentence is in one piece: the 10 · 280/32 = 87.5 steps on that piece count, not those of ten rounds.
    """
    plan = plan_of(14_041, 32, 10, PrivacyConfig(noise_multiplier=2.0), clients=5, rounds=10, schedule="incremental")
    epsilon = privacy_spent(plan, plan.steps, 10).epsilon
    assert_worst_case(epsilon, [(32 / 280, 88), (32 / 281, 88)], 2.0, 1e-5)
    # The cost after one phase of one client is the cost after all phases, since each piece is used once.
    assert privacy_spent(plan, 88, 0).epsilon == pytest.approx(epsilon, rel=0.01)


def test_pieces_smaller_than_the_batch_are_used_in_full() -> None:
    """100 clients of 4 sentences: two epochs are two steps with all four, without sampling."""
    plan = plan_of(400, 32, 2, PrivacyConfig(noise_multiplier=2.0), clients=100)
    exact = gaussian_by_mpmath(math.sqrt(2) / 2.0, 1e-5)
    assert exact - 1e-9 <= privacy_spent(plan, plan.steps, 1).epsilon <= exact + 2e-4


@pytest.mark.parametrize(("participants", "rounds"), [(2, 9), (1, 6)])
def test_partial_participation_of_sentence_level_clients(participants: int, rounds: int) -> None:
    """The sampled clients are not secret: each client's cost counts all epochs of the rounds that it joined."""
    plan = plan_of(
        404,
        8,
        3,
        PrivacyConfig(noise_multiplier=3.0),
        clients=4,
        participants=participants,
        rounds=rounds,
        partition="unequal",
    )
    sizes, steps_a_visit = (193, 97, 65, 49), (72, 36, 24, 18)
    for done in (1, rounds):
        joined = [visit.client for visits in plan.rounds[:done] for visit in visits]
        assert len(joined) == participants * done
        by_hand = [(8 / sizes[client], joined.count(client) * steps_a_visit[client]) for client in range(4)]
        taken = sum(steps for _, steps in by_hand)
        assert_worst_case(privacy_spent(plan, taken, done).epsilon, by_hand, 3.0, 1e-5)


@pytest.mark.parametrize(
    ("clients", "participants", "rounds", "sigma", "delta"),
    [(50, 10, 12, 1.3, 1e-5), (100, 3, 300, 0.8, 1e-3), (7, None, 5, 3.0, 1e-4)],
)
def test_client_level_noise_at_the_server(
    clients: int, participants: int | None, rounds: int, sigma: float, delta: float
) -> None:
    """Each of n clients joins with probability m/n. A round is one step, with any number of optimiser steps."""
    privacy = PrivacyConfig(mechanism="dp-fedavg", noise_multiplier=sigma, delta=delta)
    plan = plan_of(4 * clients, 2, 3, privacy, clients=clients, participants=participants, rounds=rounds + 5)
    epsilon = privacy_spent(plan, plan.steps_before(rounds), rounds).epsilon
    assert_priced(epsilon, (participants or clients) / clients, sigma, rounds, delta)


@pytest.mark.parametrize(
    ("rounds", "sigma", "delta"), [(1, 8.0, 1e-5), (4, 8.0, 1e-5), (9, 3.0, 1e-7), (2, 60.0, 1e-3)]
)
def test_client_level_noise_at_the_clients(rounds: int, sigma: float, delta: float) -> None:
    """Replacing an update moves it by up to 2C, and t rounds compose to √t · 2/σ."""
    privacy = PrivacyConfig(mechanism="local", noise_multiplier=sigma, delta=delta)
    plan = plan_of(60, 2, 1, privacy, clients=6, rounds=10)
    exact = gaussian_by_mpmath(2 * math.sqrt(rounds) / sigma, delta)
    assert privacy_spent(plan, plan.steps_before(rounds), rounds).epsilon == pytest.approx(exact, abs=1e-8)


def test_local_noise_counts_the_rounds_of_sampled_clients() -> None:
    plan = plan_of(
        60, 2, 1, PrivacyConfig(mechanism="local", noise_multiplier=9.0), clients=6, participants=2, rounds=8
    )
    for done in (1, 4, 8):
        joined = [visit.client for visits in plan.rounds[:done] for visit in visits]
        most = max(joined.count(client) for client in range(6))
        exact = gaussian_by_mpmath(2 * math.sqrt(most) / 9.0, 1e-5)
        assert privacy_spent(plan, plan.steps_before(done), done).epsilon == pytest.approx(exact, abs=1e-8)


def shuffled(examples: int, epochs: int, steps: int) -> PrivacyPlan:
    plan = PrivacyPlan(
        examples=examples,
        batch_size=8,
        steps=steps,
        noise_multiplier=1.0,
        clip_norm=1.0,
        delta=1e-5,
        sampling="shuffle",
    )
    assert steps == epochs * plan.steps_per_epoch
    return plan


def test_shuffled_clients_report_the_worst_case_without_amplification() -> None:
    """A client with few sentences and one epoch has the larger ε with Poisson sampling.

    A client with many sentences and two epochs has the larger ε with shuffled batches.
    """
    few, many = shuffled(24, 1, 3), shuffled(400, 2, 100)
    for parts in ((few, many), (many, few)):
        shards = tuple(np.arange(part.examples) for part in parts)
        visits = tuple(LocalTraining(number, number, 0, part.steps) for number, part in enumerate(parts))
        all_sentences = np.arange(sum(map(len, shards)))
        plan = FederatedPlan(
            parts=parts, chosen=all_sentences, sentences=shards, shards=shards, rounds=(visits,), server=None
        )
        spent = privacy_spent(plan, plan.steps, 1)
        assert spent.epsilon == pytest.approx(gaussian_by_mpmath(math.sqrt(10), 1e-5), abs=1e-7)
        assert spent.epsilon == spent.rdp_epsilon > gaussian_by_mpmath(math.sqrt(5), 1e-5)
        amplified = [
            second_accountant.sampled(8 / 24, 1.0, 3, 1e-5).estimate,
            second_accountant.sampled(8 / 400, 1.0, 100, 1e-5).estimate,
        ]
        assert amplified[0] > 1.1 * amplified[1], "the other order"
        assert_priced(spent.poisson_epsilon or 0.0, 8 / 24, 1.0, 3, 1e-5)
        assert SHUFFLE in spent.assumptions
        assert DISJOINT in spent.assumptions


def test_shuffled_clients_count_the_epochs_of_all_rounds() -> None:
    privacy = PrivacyConfig(noise_multiplier=4.0, sampling="shuffle")
    plan = plan_of(400, 8, 2, privacy, clients=4, rounds=3)
    # 100 sentences by 8: 13 batches an epoch, two epochs a round.
    assert plan.steps == 4 * 26 * 3
    for rounds, epochs in ((1, 2), (3, 6)):
        spent = privacy_spent(plan, plan.steps_before(rounds), rounds)
        assert spent.epsilon == pytest.approx(gaussian_by_mpmath(math.sqrt(5 * epochs) / 4.0, 1e-5), abs=1e-7)


@pytest.mark.repeats(after=1)
@pytest.mark.parametrize(
    ("chosen", "privacy"),
    [
        ({"clients": 5}, {}),
        ({"clients": 4, "partition": "unequal"}, {}),
        ({"clients": 20, "participants": 5, "rounds": 30}, {"mechanism": "dp-fedavg"}),
    ],
)
def test_noise_multiplier_for_is_the_smallest_within_epsilon(chosen: dict[str, Any], privacy: dict[str, Any]) -> None:
    def cost(sigma: float) -> float:
        plan = plan_of(800, 16, 2, PrivacyConfig(noise_multiplier=sigma, **privacy), **chosen)
        return privacy_spent(plan, plan.steps, len(plan.rounds)).epsilon

    plan = plan_of(800, 16, 2, PrivacyConfig(noise_multiplier=1.0, **privacy), **chosen)
    sigma = noise_multiplier_for(plan, 2.0)
    assert cost(sigma) <= 2.0 < cost(sigma - 3e-4)


def test_noise_multiplier_for_refuses_local_noise() -> None:
    plan = plan_of(60, 2, 1, PrivacyConfig(mechanism="local", noise_multiplier=9.0), clients=6)
    with pytest.raises(InvalidConfig, match=r"mechanism='local'.*each message"):
        noise_multiplier_for(plan, 2.0)
