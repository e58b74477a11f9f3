"""The ledger of any federation promises what its runs do."""

import itertools

import pytest

from engine import corpus
from engine.config import FederationConfig, PrivacyConfig, SimulationConfig, TrainingConfig
from engine.errors import InvalidConfig
from engine.federated.accounting import privacy_spent, training
from engine.federated.plan import plan_of
from engine.privacy import assumptions
from engine.settings import REPOSITORY
from engine.store.published import read_all

CLIENTS = (
    {"clients": 1, "rounds": 1},
    {"clients": 5, "rounds": 2},
    {"clients": 5, "rounds": 2, "schedule": "incremental"},
    {"clients": 5, "rounds": 3, "participants": 2},
    {"clients": 4, "rounds": 2, "partition": "unequal"},
    {"clients": 4, "rounds": 2, "partition": "label-skew"},
)
MECHANISMS = (
    {"noise_multiplier": 1.0},
    {"noise_multiplier": 2.0, "sampling": "shuffle"},
    {"noise_multiplier": 2.0, "mechanism": "dp-fedavg"},
    {"noise_multiplier": 20.0, "mechanism": "local"},
    {"noise_multiplier": 20.0, "mechanism": "secure-sum", "clip_norm": 1.0},
)


def config_of(federation, privacy):
    try:
        return SimulationConfig(
            training=TrainingConfig(epochs=2, batch_size=32),
            federation=FederationConfig(**federation),
            privacy=PrivacyConfig(**privacy),
        )
    except InvalidConfig:
        return None  # no such federation


EVERY = [each for pair in itertools.product(CLIENTS, MECHANISMS) if (each := config_of(*pair))]


@pytest.mark.parametrize("config", EVERY, ids=str)
def test_what_the_ledger_promises_is_what_the_run_does(config, settings):
    plan = plan_of(config, corpus.of_run(config, settings))
    made = training(config, plan)
    privacy = privacy_spent(plan, plan.steps, len(plan.rounds))
    assert assumptions.epsilon(made, made.promised) == pytest.approx(privacy.epsilon, rel=1e-9)
    rows = assumptions.rows(made)
    assert {row.assumption for row in rows} == set(assumptions.TITLES)
    assert all(row.epsilon is None or row.epsilon >= 0 for row in rows)


@pytest.mark.parametrize(
    ("clients", "rounds", "batch_size", "sampling"),
    [(6, 10, 480, "poisson"), (7, 10, 64, "poisson"), (1, 3, 1000, "poisson"), (6, 10, 480, "shuffle")],
)
def test_of_equal_clients_it_promises_the_same_without_their_corpus(clients, rounds, batch_size, sampling, settings):
    """Each round has whole steps: of 733 sentences in batches of 480 two, not 1.53."""
    config = SimulationConfig(
        training=TrainingConfig(epochs=1, batch_size=batch_size),
        federation=FederationConfig(clients=clients, rounds=rounds),
        privacy=PrivacyConfig(noise_multiplier=2.0, sampling=sampling),
    )
    found = corpus.of_run(config, settings)
    plan = plan_of(config, found)
    made = assumptions.Training.of(config, found.train_sentences)
    privacy = privacy_spent(plan, plan.steps, len(plan.rounds))
    assert assumptions.epsilon(made, made.promised) == pytest.approx(privacy.epsilon, rel=1e-9)


def test_many_kinds_are_looked_at():
    assert len(EVERY) > 20


def test_published_runs_are_promised_what_they_say(settings):
    """Of the embedded corpus, all that are private; each setting once."""
    known = read_all(REPOSITORY / "cached_results").by_id.values()
    seen = {}
    for run in known:
        if run.config.corpus == "synthetic" and run.config.privacy.private and not run.outdated:
            seen[run.config.privacy, run.config.federation, run.config.training] = run
    assert len(seen) > 20
    for run in seen.values():
        made = training(run.config, plan_of(run.config, corpus.of_run(run.config, settings)))
        assert assumptions.epsilon(made, made.promised) == pytest.approx(run.records[-1].privacy.epsilon, rel=2e-3)
