"""The assumptions of federations give the same ε as the accounting of their runs."""

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
    {"clients": 4, "rounds": 2, "partition": "dirichlet"},
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


CONFIGS = [config for pair in itertools.product(CLIENTS, MECHANISMS) if (config := config_of(*pair))]


@pytest.mark.repeats(after=4)
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_assumptions_and_accounting_give_equal_epsilon(config, settings):
    plan = plan_of(config, corpus.of_run(config, settings))
    described = training(config, plan)
    privacy = privacy_spent(plan, plan.steps, len(plan.rounds))
    assert assumptions.epsilon(described, described.promised) == pytest.approx(privacy.epsilon, rel=1e-9)
    rows = assumptions.rows(described)
    assert {row.assumption for row in rows} == set(assumptions.TITLES)
    assert all(row.epsilon is None or row.epsilon >= 0 for row in rows)


@pytest.mark.parametrize(
    ("clients", "rounds", "batch_size", "sampling"),
    [(6, 10, 480, "poisson"), (7, 10, 64, "poisson"), (1, 3, 1000, "poisson"), (6, 10, 480, "shuffle")],
)
def test_assumptions_of_equal_clients_need_no_corpus(clients, rounds, batch_size, sampling, settings):
    """Each round has whole steps: 733 sentences in batches of 480 are two steps, not 1.53."""
    config = SimulationConfig(
        training=TrainingConfig(epochs=1, batch_size=batch_size),
        federation=FederationConfig(clients=clients, rounds=rounds),
        privacy=PrivacyConfig(noise_multiplier=2.0, sampling=sampling),
    )
    handle = corpus.of_run(config, settings)
    plan = plan_of(config, handle)
    described = assumptions.Training.of(config, handle.train_sentences)
    privacy = privacy_spent(plan, plan.steps, len(plan.rounds))
    assert assumptions.epsilon(described, described.promised) == pytest.approx(privacy.epsilon, rel=1e-9)


def test_many_configurations_are_covered():
    assert len(CONFIGS) > 20


@pytest.mark.repeats
def test_assumptions_of_published_runs_give_their_epsilon(settings):
    """All private runs on the embedded corpus are checked, each setting once."""
    published = read_all(REPOSITORY / "cached_results").by_id.values()
    runs = {}
    for run in published:
        if run.config.corpus == "synthetic" and run.config.privacy.private and not run.outdated:
            described = training(run.config, plan_of(run.config, corpus.of_run(run.config, settings)))
            runs[described] = run
    assert len(runs) > 20
    for described, run in runs.items():
        assert assumptions.epsilon(described, described.promised) == pytest.approx(
            run.records[-1].privacy.epsilon, rel=2e-3
        )
