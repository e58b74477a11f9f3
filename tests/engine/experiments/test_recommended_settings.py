"""Each ablation step adds one change at the same ε."""

import dataclasses
import math

import numpy as np
import pytest

from engine.config import SimulationConfig
from engine.corpus import synthetic
from engine.experiments import recommended_settings
from engine.experiments.recommended_settings import EPSILONS, STEPS, WITH_MINILM
from engine.privacy.accounting import epsilon
from engine.privacy.plan import PrivacyPlan

CORPORA = {"conll2003": 14_041, "synthetic": synthetic.SIZES["train"]}


@pytest.mark.repeats(after=2)
@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("number", [0, 1, WITH_MINILM, len(STEPS) - 1])
def test_sigma_is_the_smallest_within_epsilon(corpus, number) -> None:
    config = recommended_settings.recipe_step(number, corpus, CORPORA[corpus], 3.0)
    assert recommended_settings.found_noise(config, CORPORA[corpus], 3.0) == config.privacy.noise_multiplier


@pytest.mark.parametrize("clients", recommended_settings.CLIENTS)
def test_each_client_spends_at_most_epsilon(clients) -> None:
    for rounds in recommended_settings.ROUNDS:
        config = recommended_settings.federated("conll2003", 14_041, clients, rounds, 3.0)
        assert config.federation.clients == clients
        assert config.federation.rounds * config.training.epochs == 20
        shard = 14_041 // clients
        plan = PrivacyPlan.from_config(config, shard)
        whole = dataclasses.replace(plan, steps=rounds * plan.steps)
        assert 2.9 < epsilon(whole, whole.steps) <= 3.0
        assert plan.batch_size <= shard / 3


def test_table_of_sigma_covers_the_ablation_and_the_federation() -> None:
    for corpus, sentences in CORPORA.items():
        for number in range(len(STEPS)):
            training = recommended_settings.recipe_step(number, corpus, sentences, 1.0).training
            stored = recommended_settings._KNOWN[sentences, training.batch_size, training.epochs]
            assert list(stored) == list(EPSILONS)
            assert stored[1.0] > stored[3.0] > stored[8.0]


def divergence(order: float, probability: float, sigma: float) -> float:
    """Return the Rényi divergence of a step by numerical integration (Mironov, Talwar and Zhang 2019, equation 6)."""
    x = np.linspace(-40 * sigma, 40 * sigma + order, 100_001)
    log_ratio = np.log1p(-probability + probability * np.exp((2 * x - 1) / (2 * sigma**2)))
    values = order * log_ratio - x**2 / (2 * sigma**2) - 0.5 * math.log(2 * math.pi * sigma**2)
    highest = values.max()
    total = highest + math.log(np.exp(values - highest).sum() * (x[1] - x[0]))
    return total / (order - 1)


@pytest.mark.parametrize("delta", [1e-7, 1e-5])
def test_a_smaller_delta_needs_more_noise(delta) -> None:
    """An independent upper bound gives ε = 3, so a σ stored for δ = 1e-5 fails for δ = 1e-7."""
    config = recommended_settings.with_minilm("conll2003", 14_041, 3.0)
    config = dataclasses.replace(config, privacy=dataclasses.replace(config.privacy, delta=delta))
    sigma = recommended_settings.noise(config, 14_041, 3.0)
    assert sigma == {1e-7: 1.75, 1e-5: 1.48}[delta]
    steps, probability = round(10 * 14_041 / 1024), 1024 / 14_041
    orders = [0.5 * half for half in range(6, 21)]
    rdp = [
        steps * divergence(order, probability, sigma)
        + math.log((order - 1) / order)
        - (math.log(delta) + math.log(order)) / (order - 1)
        for order in orders
    ]
    assert 3.0 <= min(rdp) <= 3.4  # the exact ε is 3, Rényi accounting is a tenth above it


def test_stored_sigmas_are_used_for_poisson_sampling_only(monkeypatch) -> None:
    monkeypatch.setattr(recommended_settings, "found_noise", lambda config, sentences, epsilon: 99.0)
    config = recommended_settings.with_minilm("conll2003", 14_041, 3.0)
    assert recommended_settings.noise(config, 14_041, 3.0) == 1.48
    shuffled = dataclasses.replace(config, privacy=dataclasses.replace(config.privacy, sampling="shuffle"))
    recommended_settings.noise.cache_clear()
    assert recommended_settings.noise(shuffled, 14_041, 3.0) == 99.0
    recommended_settings.noise.cache_clear()


def test_first_step_is_the_paper_and_last_step_the_recommended_settings() -> None:
    first = recommended_settings.recipe_step(0, "conll2003", 14_041, 1.0)
    assert first == SimulationConfig.from_flat({"corpus": "conll2003", "noise_multiplier": 0.89})
    recommended = recommended_settings.with_minilm("conll2003", 14_041, 1.0)
    assert recommended == recommended_settings.recipe_step(WITH_MINILM, "conll2003", 14_041, 1.0)
    assert recommended.tagger.name == "linear-crf"
    assert recommended.training.averaging == 0.95


def test_recommended_settings_are_the_last_step_for_a_large_corpus_with_known_types() -> None:
    found = recommended_settings.recommended_settings
    for target in (3.0, None):
        last = recommended_settings.recipe_step(len(STEPS) - 1, "conll2003", 14_041, target)
        assert found("conll2003", 14_041, target, ("LOC", "DATE")) == last
        other = found("conll2003", 14_041, target, ("Drug",))
        assert other == SimulationConfig.from_flat(last.flat() | {"pretrained": False})
        assert other.privacy.noise_multiplier == last.privacy.noise_multiplier


@pytest.mark.parametrize(("sentences", "target", "epochs"), [(300, 3.0, 10), (300, 8.0, 20), (2000, 0.5, 20)])
def test_a_small_corpus_has_fewer_steps_at_a_small_epsilon(sentences, target, epochs) -> None:
    config = recommended_settings.recommended_settings("small", sentences, target, ("PER",))
    assert config.training.epochs == epochs
    assert config.training.batch_size == sentences // 3
    plan = PrivacyPlan.from_config(config, sentences)
    assert 0.99 * target < epsilon(plan, plan.steps) <= target


def test_each_step_changes_the_fields_it_names() -> None:
    for number in range(1, len(STEPS)):
        before, after = (
            recommended_settings.recipe_step(n, "conll2003", 14_041, 1.0).flat() for n in (number - 1, number)
        )
        changed = {name for name in before if before[name] != after[name]} - {"noise_multiplier"}
        assert changed == set(STEPS[number].changes)


@pytest.mark.repeats
def test_a_batch_is_at_most_a_third_of_the_sentences() -> None:
    assert recommended_settings.with_minilm("small", 300, 8.0).training.batch_size == 100


def test_steps_without_privacy_do_not_clip() -> None:
    assert recommended_settings.recipe_step(3, "conll2003", 14_041, None).privacy.clip_norm is None


def test_steps_without_privacy_have_smaller_batches() -> None:
    private, without = (
        recommended_settings.recipe_step(5, "conll2003", 14_041, epsilon).training for epsilon in (1.0, None)
    )
    assert private.batch_size == 1024
    assert without.batch_size == 128
    assert without.learning_rate < private.learning_rate
