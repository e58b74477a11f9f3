"""Worst-case ε over the clients of federations, with plans by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from engine.config import PrivacyConfig, SimulationConfig, TrainingConfig
from engine.config.mechanism_registry import DP_FEDAVG, DP_SGD, LOCAL, MechanismKind
from engine.federated.accounting import (
    adjacency,
    event,
    max_cost_candidates,
    most_rounds,
    privacy_spent,
    training,
    with_adjacency,
)
from engine.federated.plan import FederatedPlan, LocalTraining
from engine.privacy import accounting as central_accounting
from engine.privacy import events
from engine.privacy.assumptions.scenario import Part, Training
from engine.privacy.plan import PrivacyPlan
from engine.records import assumption_texts

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
    """Return a plan in which each part trains its steps in the first round, and clients idle in later rounds."""
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
        drawn=True,
    )


def test_before_the_first_step_nothing_is_spent() -> None:
    spent = privacy_spent(federation([PART, replace(PART, examples=200)]), 0, 0)
    assert spent.epsilon == 0.0
    assert spent.delta == 1e-5
    assert privacy_spent(federation([PART]), 0, 0).epsilon == 0.0


def test_the_smallest_shard_has_the_largest_epsilon() -> None:
    small, large = replace(PART, examples=200), PART
    plan = federation([large, small])
    spent = privacy_spent(plan, 100, 1)
    assert spent.epsilon == central_accounting.epsilon(small, 50)
    assert spent.rdp_epsilon == central_accounting.epsilon(small, 50, "rdp")
    assert spent.assumptions[-1] == assumption_texts.INDEPENDENT
    assert spent.neighbouring == "add or remove one"
    fixed = privacy_spent(replace(plan, moves_sentences=True, drawn=False), 100, 1)
    assert (fixed.assumptions[-1], fixed.neighbouring) == (assumption_texts.DISJOINT, "zero out one")
    assert spent.poisson_epsilon is None
    # Before the small client begins, only the large one has a cost.
    assert privacy_spent(plan, 30, 0).epsilon == central_accounting.epsilon(large, 30)


def test_single_shards_and_runs_without_noise_do_not_assume_disjoint_shards() -> None:
    assert assumption_texts.INDEPENDENT not in privacy_spent(federation([PART]), 50, 1).assumptions
    without_noise = federation([replace(PART, noise_multiplier=0.0, clip_norm=None)] * 2)
    assert privacy_spent(without_noise, 100, 1).epsilon == math.inf
    assert privacy_spent(without_noise, 100, 1).assumptions == ()


def test_several_parts_of_a_client_are_an_assumption() -> None:
    plan = federation([PART, PART, PART, PART], clients=2)
    assert assumption_texts.DRAWN_PIECES in privacy_spent(plan, 200, 1).assumptions
    assert assumption_texts.PIECES in privacy_spent(replace(plan, drawn=False), 200, 1).assumptions
    assert "piece" not in "".join(privacy_spent(federation([PART, PART]), 100, 1).assumptions)


def test_shuffled_parts_report_the_maximum_of_each_epsilon() -> None:
    """Without amplification, more epochs cost more; with it, larger batches relative to the shard cost more."""
    many_epochs = replace(PART, sampling="shuffle", examples=80, batch_size=8, steps=50)
    large_batches = replace(PART, sampling="shuffle", examples=400, batch_size=200, steps=10)
    plan = federation([many_epochs, large_batches, many_epochs])
    assert max_cost_candidates(plan, 110) == [(many_epochs, 50), (large_batches, 10)]
    spent = privacy_spent(plan, 110, 1)
    separate = [central_accounting.privacy_spent(many_epochs, 50), central_accounting.privacy_spent(large_batches, 10)]
    assert separate[0].epsilon == separate[1].epsilon
    assert spent.poisson_epsilon == max(one.poisson_epsilon or 0.0 for one in separate)
    assert separate[0].poisson_epsilon != separate[1].poisson_epsilon


def test_max_cost_candidates_excludes_cheaper_parts() -> None:
    parts = [replace(PART, examples=examples) for examples in (4_000, 100, 400, 101, 150)]
    plan = federation(parts)
    candidates = max_cost_candidates(plan, 250)
    assert candidates[0] == (parts[1], 50)
    assert (parts[0], 50) not in candidates
    assert (parts[2], 50) not in candidates
    assert (parts[4], 50) not in candidates
    assert (parts[3], 50) not in candidates
    # A part whose bound is close to the largest ε is a candidate.
    close = [replace(PART, examples=examples) for examples in (10_000, 10_001)]
    assert len(max_cost_candidates(federation(close), 100)) == 2
    # Equal parts count once, and parts that have not begun do not count.
    assert len(max_cost_candidates(federation([PART, PART]), 100)) == 1
    assert max_cost_candidates(plan, 50) == [(parts[0], 50)]
    assert max_cost_candidates(federation(parts[:2]), 100) == [(parts[1], 50)], "also of two parts"


def test_client_level_epsilon_counts_rounds() -> None:
    server = replace(PART, examples=10, batch_size=4, steps=9)
    plan = federation([PART, PART], rounds=9, server=server, mechanism=DP_FEDAVG)
    spent = privacy_spent(plan, 100, 3)
    assert spent.epsilon == central_accounting.epsilon(server, 3)
    assert (spent.unit, spent.neighbouring) == (DP_FEDAVG.protected, "add or remove one")
    assert spent.assumptions[:2] == (assumption_texts.JOINED, DP_FEDAVG.trusted)
    all_clients = replace(server, batch_size=10)
    spent = privacy_spent(federation([PART, PART], rounds=9, server=all_clients, mechanism=DP_FEDAVG), 100, 3)
    assert spent.assumptions[0] == assumption_texts.EVERY_CLIENT


def test_local_epsilon_counts_the_rounds_of_the_busiest_client() -> None:
    server = replace(PART, examples=3, batch_size=1, steps=4, sampling="all", noise_multiplier=9.0)
    rounds = tuple(
        tuple(LocalTraining(client, client, 0, 1) for client in clients) for clients in ((0,), (2, 0), (2,), (2,))
    )
    plan = replace(federation([PART] * 3, server=server, mechanism=LOCAL), rounds=rounds)
    assert [most_rounds(plan, done) for done in range(5)] == [0, 1, 2, 2, 3]
    assert privacy_spent(plan, 0, 0).epsilon == 0.0
    spent = privacy_spent(plan, 3, 4)
    assert spent.epsilon == pytest.approx(central_accounting.gaussian_epsilon(2 * math.sqrt(3) / 9, 1e-5))
    assert (spent.unit, spent.neighbouring, spent.accountant) == (
        DP_FEDAVG.protected,
        LOCAL.neighbours,
        "exact",
    )
    assert spent.assumptions[0] == LOCAL.trusted
    assert assumption_texts.PUBLIC_CLIENTS in spent.assumptions


def test_epsilon_of_a_client_is_that_of_its_part() -> None:
    parts = [PART, replace(PART, examples=200), replace(PART, examples=100)]
    plan = federation(parts)
    for client, part in enumerate(parts):
        assert max_cost_candidates(plan, plan.steps, client) == [(part, part.steps)]
        assert privacy_spent(plan, plan.steps, 1, client).epsilon == central_accounting.epsilon(part, part.steps)


@pytest.mark.parametrize("mechanism", [DP_FEDAVG, LOCAL])
def test_client_level_silos_assume_private_heads_stay_local(mechanism: MechanismKind) -> None:
    plan = federation([PART, PART], server=replace(PART, examples=2, batch_size=2, steps=1), mechanism=mechanism)
    silos = replace(plan, platforms=True)
    either = {assumption_texts.OWN_PARTS, assumption_texts.PRIVATE_LAYERS}
    for each, stated in (
        (plan, set()),
        (silos, {assumption_texts.PRIVATE_LAYERS}),
        (replace(silos, in_common=1), {assumption_texts.OWN_PARTS}),
    ):
        assert either.intersection(privacy_spent(each, each.steps, 1).assumptions) == stated


def test_event_is_that_of_the_worst_case_client() -> None:
    """The worst-case client depends on δ, which is equal for all clients of a configuration."""
    small = replace(PART, examples=100)
    assert event(federation([PART]), 50, 0) == events.of(PART, 50)
    assert event(federation([PART, small]), 100, 0) == events.of(small, 50)
    assert event(federation([PART, small]), 0, 0) == events.none()
    once, twice = (replace(PART, sampling="shuffle", examples=examples) for examples in (400, 200))
    plan = federation([once, twice])
    assert [part for part, _ in max_cost_candidates(plan, 100)] == [once, twice]
    assert event(plan, 100, 0) == events.of(twice, 50) != events.of(once, 50)


def test_adjacency_is_of_the_unit() -> None:
    """Under client-level privacy, the loss of one sentence has an adjacency of its own."""
    plan = replace(federation([PART], mechanism=LOCAL), moves_sentences=True)
    assert adjacency(plan, "client") == LOCAL.neighbours
    assert adjacency(plan, "sentence") == "zero out one" != LOCAL.neighbours


@pytest.mark.parametrize(
    ("split", "mechanism", "stated"), [(True, DP_SGD, True), (False, DP_SGD, False), (True, DP_FEDAVG, False)]
)
def test_split_of_the_corpus_is_assumed_for_sentences(split: bool, mechanism: MechanismKind, stated: bool) -> None:
    """It is added where a loss has other assumptions without it, and removed where the program did not split."""
    plan = replace(federation([PART], mechanism=mechanism), split=split)
    loss = central_accounting.privacy_spent(PART, 50)
    bare = replace(loss, assumptions=tuple(each for each in loss.assumptions if each != assumption_texts.SPLIT))
    assert bare.assumptions
    for privacy in (loss, bare):
        expected = (*bare.assumptions, assumption_texts.SPLIT) if stated else bare.assumptions
        assert with_adjacency(privacy, plan).assumptions == expected
    assert with_adjacency(replace(loss, assumptions=()), plan).assumptions == ()


@pytest.mark.parametrize("sampling", ["poisson", "shuffle"])
def test_assumptions_training_has_all_parts_and_epochs(sampling: str) -> None:
    """50 batches of 8 and 30 of 16, from 400 + 400 sentences, are 1.1 epochs."""
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


def test_epsilon_of_a_mechanism_without_sampled_clients_needs_no_further_code() -> None:
    """The row of the registry decides: here the server adds the noise, and all of a client may be replaced."""
    kind = replace(DP_FEDAVG, name="fixed", neighbours=LOCAL.neighbours, poisson_clients=False)
    server = PrivacyPlan(
        examples=3, batch_size=3, steps=4, noise_multiplier=4.0, clip_norm=1.0, delta=1e-3, sampling="all"
    )
    plan = federation([PART] * 3, rounds=4, server=server, mechanism=kind)
    spent = privacy_spent(plan, 0, 4)
    assert spent.epsilon == pytest.approx(central_accounting.gaussian_epsilon(math.sqrt(4) * 2 / 4.0, 1e-3))
    assert spent.epsilon == central_accounting.event_epsilon(event(plan, 0, 4), 1e-3)
    assert (spent.neighbouring, spent.accountant) == (LOCAL.neighbours, "exact")


def test_assumptions_training_of_clients_counts_rounds_or_messages() -> None:
    """Two of 3 clients are expected in each of 5 rounds; with local noise, the busiest client's messages count."""
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
    messages = replace(rounds, mechanism=LOCAL, server=replace(server, sampling="all"))
    assert training(config, messages) == Training(
        examples=3,
        batch_size=3,
        epochs=4.0,
        parts=(Part(3, 3, 4),),
        noise_multiplier=4.0,
        delta=1e-3,
        unit="client",
        messages=True,
    )
