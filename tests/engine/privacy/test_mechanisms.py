"""Statistical tests of sampling and noise that reject wrong distributions."""

import numpy as np
import pytest
from scipy import stats

from engine.config import PrivacyConfig, SimulationConfig, TrainingConfig
from engine.errors import InvalidConfig
from engine.privacy.mechanisms import add_gaussian_noise, poisson_sample, shuffled_batch
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets, Seeds

EXAMPLES, STEPS, PROBABILITY = 400, 3000, 0.08
SECRETS = Secrets.seeded(5, "run")


def sampled(probability: float) -> np.ndarray:
    """Return whether each sentence joined each step, bool [steps, examples]."""
    joined = np.zeros((STEPS, EXAMPLES), dtype=bool)
    for step in range(STEPS):
        joined[step, poisson_sample(SECRETS.stream("sampling", step=step), EXAMPLES, probability)] = True
    return joined


def sizes_p_value(sizes: np.ndarray, probability: float) -> float:
    """Return the χ² p-value of batch sizes against the binomial distribution, in bins of equal probability."""
    edges = np.unique(stats.binom.ppf(np.linspace(0, 1, 9)[1:-1], EXAMPLES, probability))
    expected = np.diff([0, *stats.binom.cdf(edges, EXAMPLES, probability), 1]) * len(sizes)
    observed = np.bincount(np.searchsorted(edges, sizes, side="left"), minlength=len(expected))
    return float(stats.chisquare(observed, expected).pvalue)


def test_poisson_batch_sizes_are_binomial() -> None:
    sizes = sampled(PROBABILITY).sum(1)
    assert sizes_p_value(sizes, PROBABILITY) > 0.01
    assert sizes_p_value(sizes, PROBABILITY * 1.1) < 1e-6
    fixed = np.full(STEPS, round(PROBABILITY * EXAMPLES))
    assert sizes_p_value(fixed, PROBABILITY) < 1e-6


def test_sentences_join_independently_with_equal_probability() -> None:
    joined = sampled(PROBABILITY)
    per_sentence = joined.sum(0)
    z = (per_sentence - STEPS * PROBABILITY) / np.sqrt(STEPS * PROBABILITY * (1 - PROBABILITY))
    assert stats.kstest(z, "norm").pvalue > 0.01
    together = (joined[:, ::2] & joined[:, 1::2]).mean()
    assert together == pytest.approx(PROBABILITY**2, rel=0.03)
    again = (joined[1:] & joined[:-1]).mean()
    assert again == pytest.approx(PROBABILITY**2, rel=0.03)


def noise_of(step: int, size: int, std: float) -> np.ndarray:
    total = np.zeros(size, dtype=np.float32)
    add_gaussian_noise(total, SECRETS.stream("noise", step=step), std)
    return total


def test_noise_has_the_planned_standard_deviation() -> None:
    plan = PrivacyPlan.from_config(SimulationConfig(privacy=PrivacyConfig(noise_multiplier=1.3, clip_norm=0.5)), 1000)
    noise = noise_of(4, 20_000, plan.noise_std)
    assert plan.noise_std == pytest.approx(0.65)
    assert stats.kstest(noise, "norm", args=(0, 0.65)).pvalue > 0.01
    assert stats.kstest(noise, "norm", args=(0, 0.65 * 2 / 3)).pvalue < 1e-6
    assert stats.kstest(noise, "norm", args=(0, 0.65 * 1.5)).pvalue < 1e-6


def test_noise_is_reproducible_and_independent_between_steps() -> None:
    first, second, again = (noise_of(s, 20_000, 1.0) for s in (1, 2, 1))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03
    assert np.array_equal(first, again)


def test_shuffled_batches_contain_each_sentence_once_per_epoch() -> None:
    epochs = [np.concatenate([shuffled_batch(Seeds(2), 103, 10, step + 11 * e) for step in range(11)]) for e in (0, 1)]
    assert all(sorted(epoch) == list(range(103)) for epoch in epochs)
    assert not np.array_equal(*epochs)
    assert len(shuffled_batch(Seeds(2), 103, 10, 10)) == 3


def test_batch_larger_than_corpus_is_rejected() -> None:
    config = SimulationConfig(training=TrainingConfig(batch_size=64))
    with pytest.raises(InvalidConfig, match=r"batch_size=64,.* at most the 10\b"):
        PrivacyPlan.from_config(config, 10)
