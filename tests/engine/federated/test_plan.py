"""Plans of federations: shards, steps and participants of rounds, and worst-case ε over clients."""

from dataclasses import replace

import numpy as np
import pytest

from engine.config import FederationConfig, PrivacyConfig, SimulationConfig, TrainingConfig
from engine.config.mechanism_registry import DP_FEDAVG, LOCAL
from engine.errors import InvalidConfig
from engine.federated.accounting import privacy_spent
from engine.federated.plan import FederatedPlan, federated_plan
from engine.privacy.plan import PrivacyPlan
from engine.records import assumption_texts
from engine.seeds import Secrets
from tests.engine.privacy.prv import assert_priced, gaussian_by_mpmath

TRAINING = TrainingConfig(batch_size=8, epochs=2)
SECRETS = Secrets.seeded(0, "run")


def plan_of(
    sentences: int = 400,
    privacy: PrivacyConfig | None = None,
    training: TrainingConfig = TRAINING,
    **federation: object,
) -> FederatedPlan:
    config = SimulationConfig(
        training=training,
        federation=FederationConfig(**federation),
        privacy=privacy or PrivacyConfig(),
    )
    return federated_plan(
        config, sentences, lambda: pytest.fail("the layout is not needed"), lambda: Secrets.seeded(config.seed, "run")
    )


def test_plan_of_one_client_equals_central_training() -> None:
    plan, config = plan_of(), SimulationConfig(training=TRAINING)
    assert plan.parts == (PrivacyPlan.from_config(config, 400),)
    assert plan.steps == 100
    np.testing.assert_array_equal(plan.sentences[0], np.arange(400))
    assert_priced(privacy_spent(plan, 37, 0).epsilon, 8 / 400, 1.0, 37, 1e-5)


def test_each_client_has_a_plan_for_its_shard() -> None:
    plan = plan_of(403, clients=4)
    assert sorted(part.examples for part in plan.parts) == [100, 101, 101, 101]
    assert sorted(part.sampling_probability for part in plan.parts) == [8 / 101, 8 / 101, 8 / 101, 8 / 100]
    # 25 steps each, two epochs of 100 or 101 by 8; the smallest shard has the largest ε.
    spent = privacy_spent(plan, plan.steps, 1)
    assert_priced(spent.epsilon, 8 / 100, 1.0, 25, 1e-5)
    assert assumption_texts.DISJOINT in spent.assumptions


def test_steps_of_rounds_add_up_for_each_client() -> None:
    one_round, three_rounds = plan_of(clients=2), plan_of(clients=2, rounds=3)
    assert [part.steps for part in one_round.parts] == [50, 50]
    assert [part.steps for part in three_rounds.parts] == [150, 150]
    firsts = [visit.first for visits in three_rounds.rounds for visit in visits if visit.client == 1]
    assert firsts == [0, 50, 100]
    assert_priced(privacy_spent(three_rounds, three_rounds.steps, 3).epsilon, 8 / 200, 1.0, 150, 1e-5)
    assert list(three_rounds.ends) == [100, 200, 300]


def test_epsilon_within_a_round_counts_finished_steps() -> None:
    plan = plan_of(clients=4)
    assert plan.taken(0) == [0, 0, 0, 0]
    assert plan.taken(30) == [25, 5, 0, 0]
    assert plan.taken(1000) == [25, 25, 25, 25]
    assert privacy_spent(plan, 0, 0).epsilon == 0
    assert_priced(privacy_spent(plan, 30, 0).epsilon, 8 / 100, 1.0, 25, 1e-5)
    assert_priced(privacy_spent(plan, 13, 0).epsilon, 8 / 100, 1.0, 13, 1e-5)


def test_incremental_phases_take_disjoint_pieces() -> None:
    plan = plan_of(clients=4, rounds=10, schedule="incremental")
    assert len(plan.parts) == 40
    np.testing.assert_array_equal(np.sort(np.concatenate(plan.sentences)), np.arange(400))
    parts_by_client = [
        [visit.part for visits in plan.rounds for visit in visits if visit.client == client] for client in range(4)
    ]
    assert parts_by_client == [list(range(10 * client, 10 * client + 10)) for client in range(4)]
    # Ten sentences a piece, eight a step: 2 epochs are 2.5 steps, rounded; a sentence is in one piece.
    assert {(part.examples, part.steps) for part in plan.parts} == {(10, 2)}
    spent = privacy_spent(plan, plan.steps, 10)
    assert_priced(spent.epsilon, 8 / 10, 1.0, 2, 1e-5)
    assert assumption_texts.PIECES in spent.assumptions


def test_a_shard_smaller_than_the_batch_is_used_in_full() -> None:
    plan = plan_of(clients=100, training=replace(TRAINING, batch_size=32))
    assert {(part.examples, part.batch_size, part.sampling_probability) for part in plan.parts} == {(4, 4, 1.0)}


def test_participants_are_sampled_in_each_round_and_charged_for_it() -> None:
    plan = plan_of(clients=10, participants=3, rounds=20)
    joined = [tuple(visit.client for visit in visits) for visits in plan.rounds]
    assert {len(clients) for clients in joined} == {3}
    assert len(set(joined)) > 10
    times = np.bincount([client for clients in joined for client in clients], minlength=10)
    # Ten steps a round: two epochs of 40 sentences in batches of 8.
    assert_priced(privacy_spent(plan, plan.steps, 20).epsilon, 8 / 40, 1.0, int(times.max()) * 10, 1e-5)


def test_a_client_that_never_joined_takes_no_steps() -> None:
    plan = plan_of(clients=10, participants=1)
    assert sum(steps > 0 for steps in plan.taken(plan.steps)) == 1


@pytest.mark.parametrize(
    ("weighting", "mechanism", "equal"),
    [(None, "dp-sgd", False), ("equal", "dp-sgd", True), (None, "dp-fedavg", True), (None, "local", True)],
)
def test_equal_weighting_is_chosen_or_implied_by_client_level_privacy(weighting, mechanism, equal) -> None:
    privacy = PrivacyConfig(mechanism=mechanism)
    assert plan_of(clients=4, weighting=weighting, privacy=privacy).equal == equal


class TestClientLevelPrivacy:
    def test_server_noise_is_charged_for_poisson_sampled_rounds(self) -> None:
        plan = plan_of(
            clients=50, participants=10, rounds=30, privacy=PrivacyConfig(mechanism="dp-fedavg", noise_multiplier=1.3)
        )
        assert plan.server == PrivacyPlan(
            examples=50, batch_size=10, steps=30, noise_multiplier=1.3, clip_norm=1.5, delta=1e-5, sampling="poisson"
        )
        assert not any(part.private or part.clip_norm for part in plan.parts)
        assert len({len(visits) for visits in plan.rounds}) > 3
        spent = privacy_spent(plan, plan.steps, 12)
        assert_priced(spent.epsilon, 10 / 50, 1.3, 12, 1e-5)
        assert spent.unit == DP_FEDAVG.protected
        assert DP_FEDAVG.trusted in spent.assumptions
        assert privacy_spent(plan, 5, 0).epsilon == 0

    def test_local_noise_is_charged_for_each_update(self) -> None:
        plan = plan_of(clients=5, rounds=4, privacy=PrivacyConfig(mechanism="local", noise_multiplier=8))
        spent = privacy_spent(plan, plan.steps, 4)
        assert spent.epsilon == pytest.approx(gaussian_by_mpmath(0.5, 1e-5))
        assert spent.neighbouring == LOCAL.neighbours
        assert privacy_spent(plan, plan.steps, 1).epsilon == pytest.approx(gaussian_by_mpmath(0.25, 1e-5))

    def test_epsilon_without_noise_is_infinite(self) -> None:
        plan = plan_of(clients=5, privacy=PrivacyConfig(mechanism="dp-fedavg", noise_multiplier=0))
        assert plan.server is None
        assert privacy_spent(plan, plan.steps, 1).epsilon == float("inf")


@pytest.mark.parametrize(
    ("sentences", "federation", "words"),
    [
        (40, {"clients": 41}, "clients=41, expected at most the 40"),
        (40, {"clients": 5, "rounds": 10, "schedule": "incremental"}, "too few for one in each round"),
        (40, {"clients": 20, "rounds": 100_000}, "expected at most 1,000,000 trainings"),
        (7, {}, "batch_size=8, expected at most the 7"),
    ],
)
def test_impossible_plans_are_refused(sentences: int, federation: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        plan_of(sentences, **federation)
