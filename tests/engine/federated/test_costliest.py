"""Who pays most in a federation, on plans that are written down by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from engine.config import PrivacyConfig, SimulationConfig, TrainingConfig
from engine.federated import accounting
from engine.federated.accounting import event, max_cost_candidates, most_rounds, privacy_spent, training
from engine.federated.plan import FederatedPlan, LocalTraining
from engine.privacy import accounting as prices
from engine.privacy import events
from engine.privacy.assumptions.scenario import Part, Training
from engine.privacy.mechanism_registry import DP_FEDAVG, DP_SGD, LOCAL, MechanismKind
from engine.privacy.plan import PrivacyPlan

PART = PrivacyPlan(
    examples=400,
    batch_size=8,
    steps=50,
    noise_multiplier=2.0,
    clip_norm=0.5,
    delta=1e-5,
    sampling="poisson",
)


def federation(
    parts: list[PrivacyPlan],
    clients: int | None = None,
    rounds: int = 1,
    server: PrivacyPlan | None = None,
    mechanism: MechanismKind = DP_SGD,
) -> FederatedPlan:
    """Each part trains its steps in the first round; in later ones only its client is there."""
    clients = clients or len(parts)
    first = tuple(LocalTraining(number % clients, number, 0, part.steps) for number, part in enumerate(parts))
    later = [
        tuple(LocalTraining(client, client, parts[client].steps, 0) for client in range(clients))
        for _ in range(1, rounds)
    ]
    return FederatedPlan(
        parts=tuple(parts),
        chosen=np.arange(sum(part.examples for part in parts)),
        sentences=tuple(np.arange(part.examples) for part in parts),
        shards=tuple(np.arange(PART.examples) for _ in range(clients)),
        rounds=(first, *later),
        server=server,
        mechanism=mechanism,
    )


def test_before_the_first_step_nothing_is_spent() -> None:
    found = privacy_spent(federation([PART, replace(PART, examples=200)]), 0, 0)
    assert found.epsilon == 0.0
    assert found.delta == 1e-5
    assert privacy_spent(federation([PART]), 0, 0).epsilon == 0.0


def test_the_smallest_shard_pays_most() -> None:
    small, large = replace(PART, examples=200), PART
    plan = federation([large, small])
    found = privacy_spent(plan, 100, 1)
    assert found.epsilon == prices.epsilon(small, 50)
    assert found.rdp_epsilon == prices.epsilon(small, 50, "rdp")
    assert found.assumptions[-1] == accounting.DISJOINT
    assert found.poisson_epsilon is None
    # Before it began, the other one is the only one to pay.
    assert privacy_spent(plan, 30, 0).epsilon == prices.epsilon(large, 30)


def test_one_shard_alone_and_runs_without_noise_say_nothing_of_others() -> None:
    assert accounting.DISJOINT not in privacy_spent(federation([PART]), 50, 1).assumptions
    quiet = federation([replace(PART, noise_multiplier=0.0, clip_norm=None)] * 2)
    assert privacy_spent(quiet, 100, 1).epsilon == math.inf
    assert privacy_spent(quiet, 100, 1).assumptions == ()


def test_pieces_of_a_client_are_named() -> None:
    assert accounting.PIECES in privacy_spent(federation([PART, PART, PART, PART], clients=2), 200, 1).assumptions
    assert accounting.PIECES not in privacy_spent(federation([PART, PART]), 100, 1).assumptions


def test_shuffled_parts_are_all_priced_and_the_worst_of_each_figure_is_shown() -> None:
    """More epochs cost more without amplification; a larger share of a shard costs more with it."""
    often = replace(PART, sampling="shuffle", examples=80, batch_size=8, steps=50)
    seldom = replace(PART, sampling="shuffle", examples=400, batch_size=200, steps=10)
    plan = federation([often, seldom, often])
    assert max_cost_candidates(plan, 110) == [(often, 50), (seldom, 10)]
    found = privacy_spent(plan, 110, 1)
    singly = [prices.privacy_spent(often, 50), prices.privacy_spent(seldom, 10)]
    assert singly[0].epsilon == singly[1].epsilon
    assert found.poisson_epsilon == max(one.poisson_epsilon or 0.0 for one in singly)
    assert singly[0].poisson_epsilon != singly[1].poisson_epsilon


def test_only_parts_that_may_be_the_costliest_are_priced() -> None:
    parts = [replace(PART, examples=examples) for examples in (4_000, 100, 400, 101, 150)]
    plan = federation(parts)
    found = max_cost_candidates(plan, 250)
    assert found[0] == (parts[1], 50)
    assert (parts[0], 50) not in found
    assert (parts[2], 50) not in found
    assert (parts[4], 50) not in found
    # Those whose ε by Rényi accounting is close to the largest exact one are.
    assert (parts[3], 50) in found
    # Equal ones once; those that have not begun not at all.
    assert len(max_cost_candidates(federation([PART, PART]), 100)) == 1
    assert max_cost_candidates(plan, 50) == [(parts[0], 50)]
    assert max_cost_candidates(federation(parts[:2]), 100) == [(parts[1], 50)], "of two as well"


def test_whole_clients_pay_round_by_round() -> None:
    server = replace(PART, examples=10, batch_size=4, steps=9)
    plan = federation([PART, PART], rounds=9, server=server, mechanism=DP_FEDAVG)
    found = privacy_spent(plan, 100, 3)
    assert found.epsilon == prices.epsilon(server, 3)
    assert (found.unit, found.neighbouring) == (DP_FEDAVG.protected, "add or remove one")
    assert found.assumptions[:2] == (accounting.JOINED, DP_FEDAVG.trusted)
    everybody = replace(server, batch_size=10)
    found = privacy_spent(federation([PART, PART], rounds=9, server=everybody, mechanism=DP_FEDAVG), 100, 3)
    assert found.assumptions[0] == accounting.EVERY_CLIENT


def test_local_clients_pay_for_the_rounds_of_the_busiest() -> None:
    server = replace(PART, examples=3, batch_size=1, steps=4, sampling="all", noise_multiplier=9.0)
    rounds = tuple(
        tuple(LocalTraining(client, client, 0, 1) for client in clients) for clients in ((0,), (2, 0), (2,), (2,))
    )
    plan = replace(federation([PART] * 3, server=server, mechanism=LOCAL), rounds=rounds)
    assert [most_rounds(plan, done) for done in range(5)] == [0, 1, 2, 2, 3]
    assert privacy_spent(plan, 0, 0).epsilon == 0.0
    found = privacy_spent(plan, 3, 4)
    assert found.epsilon == pytest.approx(prices.gaussian_epsilon(2 * math.sqrt(3) / 9, 1e-5))
    assert (found.unit, found.neighbouring, found.accountant) == (
        DP_FEDAVG.protected,
        LOCAL.neighbours,
        "exact",
    )
    assert found.assumptions[0] == LOCAL.trusted
    assert accounting.PUBLIC in found.assumptions


def test_a_clients_own_cost_is_that_of_its_own_part() -> None:
    parts = [PART, replace(PART, examples=200), replace(PART, examples=100)]
    plan = federation(parts)
    for client, part in enumerate(parts):
        assert max_cost_candidates(plan, plan.steps, client) == [(part, part.steps)]
        assert privacy_spent(plan, plan.steps, 1, client).epsilon == prices.epsilon(part, part.steps)


@pytest.mark.parametrize("mechanism", [DP_FEDAVG, LOCAL])
def test_platforms_whose_whole_updates_have_noise_are_told_that_they_keep_parts(mechanism: MechanismKind) -> None:
    plan = federation([PART, PART], server=replace(PART, examples=2, batch_size=2, steps=1), mechanism=mechanism)
    assert accounting.OWN_PARTS not in privacy_spent(plan, plan.steps, 1).assumptions
    assert accounting.OWN_PARTS in privacy_spent(replace(plan, platforms=True), plan.steps, 1).assumptions


def test_the_event_is_that_of_the_one_who_pays_most() -> None:
    """Of one client, and of two, where which of them it is depends on δ, which all have from one configuration."""
    small = replace(PART, examples=100)
    assert event(federation([PART]), 50, 0) == events.of(PART, 50)
    assert event(federation([PART, small]), 100, 0) == events.of(small, 50)
    assert event(federation([PART, small]), 0, 0) == events.none()


@pytest.mark.parametrize("sampling", ["poisson", "shuffle"])
def test_the_ledger_is_of_the_parts_and_of_all_that_was_drawn(sampling: str) -> None:
    """Of 400 + 400 sentences, 50 batches of 8 and 30 of 16 were drawn: 1.1 epochs."""
    other = replace(PART, examples=300, batch_size=16, steps=30)
    config = SimulationConfig(
        training=TrainingConfig(batch_size=24),
        privacy=PrivacyConfig(noise_multiplier=3.0, delta=1e-6, sampling=sampling),
    )
    assert training(config, federation([PART, other]), 17) == Training(
        examples=800,
        batch_size=24,
        epochs=1.1,
        parts=(Part(300, 16, 30), Part(400, 8, 50)),
        clients=2,
        noise_multiplier=3.0,
        delta=1e-6,
        shuffled=sampling == "shuffle",
        longest_document=17,
    )
    assert training(config, federation([PART])).longest_document is None


def test_the_ledger_of_whole_clients_is_of_rounds_or_of_messages() -> None:
    """Of 3 clients two are expected in each of 5 rounds; where each sends messages, the busiest one's count."""
    server = PrivacyPlan(
        examples=3, batch_size=2, steps=5, noise_multiplier=4.0, clip_norm=1.0, delta=1e-3, sampling="poisson"
    )
    config = SimulationConfig()
    rounds = federation([PART] * 3, rounds=4, server=server, mechanism=DP_FEDAVG)
    assert training(config, rounds) == Training(
        examples=3,
        batch_size=2,
        epochs=5 * 2 / 3,
        parts=(Part(3, 2, 5),),
        noise_multiplier=4.0,
        delta=1e-3,
        unit="client",
    )
    assert training(config, replace(rounds, mechanism=LOCAL)) == Training(
        examples=3,
        batch_size=3,
        epochs=4.0,
        parts=(Part(3, 3, 4),),
        noise_multiplier=4.0,
        delta=1e-3,
        unit="client",
        messages=True,
    )
