"""Variants change only the named fields, fixes spend no more ε, and the noise walk matches its formula."""

import numpy as np
import pytest

from engine.config import FederationConfig, PrivacyConfig, SimulationConfig, TrainingConfig
from engine.corpus.sentence_metadata import Layout
from engine.experiments import diagnosis
from engine.experiments.diagnosis import BASE, COUNTERFACTUAL, FIX
from engine.federated.accounting import privacy_spent
from engine.federated.plan import federated_plan
from engine.seeds import Secrets

CONLL_SENTENCES = 14_041
TABLES = {"crf": diagnosis.crf, "phases": diagnosis.phases}


def epsilon(config: SimulationConfig) -> float:
    def layout() -> Layout:
        raise AssertionError("a random split needs no layout")

    plan = federated_plan(config, CONLL_SENTENCES, layout, lambda: Secrets.seeded(config.seed, "run"))
    return privacy_spent(plan, plan.steps, len(plan.rounds)).epsilon


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.repeats
def test_a_fix_has_the_smallest_sigma_within_the_epsilon_of_the_paper_settings(table) -> None:
    variants = TABLES[table]()
    base = next(each.config for each in variants if each.name == "σ = 1")
    allowed = epsilon(base)
    costs = {}
    for each in variants:
        if each.kind != FIX:
            continue
        sigma = each.config.privacy.noise_multiplier
        costs[each.name] = cost = epsilon(each.config)
        assert cost <= allowed, each.name
        if sigma != 1:
            lower = SimulationConfig.from_flat(each.config.flat() | {"noise_multiplier": sigma - 0.01})
            assert epsilon(lower) > allowed, each.name
    assert len(costs) in (6, 7)


@pytest.mark.parametrize("table", TABLES)
def test_variants_have_types_and_differ(table) -> None:
    variants = TABLES[table]("synthetic")
    assert len({each.config for each in variants}) == len(variants)
    assert {each.kind for each in variants} == {BASE, FIX, COUNTERFACTUAL}
    assert all(each.config.corpus == "synthetic" and each.config.seed == 0 for each in variants)
    off = [each for each in variants if each.name == "clipping, no noise"]
    assert all(not each.config.privacy.private and each.kind == COUNTERFACTUAL for each in off)


def test_a_fix_changes_only_the_fields_it_names() -> None:
    base, *_ = (each for each in diagnosis.crf() if each.name == "σ = 1")
    for each in diagnosis.crf():
        if each.kind == FIX and each.group == base.group:
            before, after = base.config.flat(), each.config.flat()
            changed = {name for name in before if before[name] != after[name]}
            assert changed
            assert changed <= {
                "loss",
                "clip_norm",
                "clipping",
                "learning_rate",
                "batch_size",
                "epochs",
                "noise_multiplier",
            }
    layers = next(each for each in diagnosis.phases() if each.name == "per-layer clipping")
    assert layers.config.privacy.clipping == "per-layer"
    assert layers.config.federation == FederationConfig(clients=5, rounds=10, schedule="incremental")


@pytest.mark.parametrize(("clients", "rounds"), [(1, 1), (4, 3)])
def test_noise_walk_equals_simulated_noisy_steps(clients, rounds) -> None:
    config = SimulationConfig(
        training=TrainingConfig(learning_rate=0.2, batch_size=8),
        privacy=PrivacyConfig(noise_multiplier=2.0, clip_norm=0.5),
        federation=FederationConfig(clients=clients, rounds=rounds),
    )
    random, steps, weights = np.random.default_rng(1), 25, np.zeros(40_000)
    for _ in range(rounds):  # with zero gradients, the weights are noise only
        noise = random.standard_normal((clients, steps, 40_000), dtype=np.float32).sum(axis=1)
        weights += (-0.2 * 2.0 * 0.5 / 8 * noise).mean(axis=0)
    expected = diagnosis.noise_walk(config, steps * clients * rounds)
    assert expected == pytest.approx(weights.std(), rel=0.02)


@pytest.mark.parametrize(
    "fields",
    [{"optimiser": "adam"}, {"clients": 3, "mechanism": "local"}, {"clients": 3, "participants": 2}],
)
def test_noise_walk_is_none_where_the_formula_does_not_apply(fields) -> None:
    assert diagnosis.noise_walk(SimulationConfig.from_flat(fields), 10) is None


def test_noise_walk_is_zero_without_noise() -> None:
    assert diagnosis.noise_walk(SimulationConfig(privacy=PrivacyConfig(noise_multiplier=0.0)), 10) == 0.0
