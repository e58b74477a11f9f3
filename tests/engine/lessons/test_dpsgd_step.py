"""One step of DP-SGD: the sum from single sentences in float64, noise against its law, ε against dp_accounting."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm

from engine.errors import InvalidConfig
from engine.lessons import dpsgd_step
from engine.lessons.dpsgd_step import Setting
from engine.training.batches import batch_of
from engine.training.dpsgd import DPSGD


def one_by_one(bench, sentences, clip, weights):
    """Norms and clipped sum from single sentences, each clipped here."""
    norms, total = [], np.zeros(len(weights))
    for sentence in sentences:
        batch = batch_of(bench.split, bench.table, np.array([sentence]))
        gradient = bench.backend.clipped_gradient(weights, batch, None).total.astype(np.float64)
        norms.append(np.linalg.norm(gradient))
        total += gradient * min(1.0, clip / norms[-1])
    return np.array(norms), total


@pytest.mark.parametrize("before", [0, 10])
def test_the_sum_is_that_of_its_sentences_one_by_one(bench, before):
    setting = Setting(clip_norm=0.7, batch_size=32, noise_multiplier=2.0, before=before)
    found = dpsgd_step.step(bench, setting)
    weights = dpsgd_step._weights(bench, before)
    norms, total = one_by_one(bench, found.sentences, 0.7, weights)
    np.testing.assert_allclose(found.norms, norms, rtol=1e-4)
    assert found.signal == pytest.approx(np.linalg.norm(total), rel=1e-4)
    assert found.clipped == (norms > 0.7).sum()
    assert found.cut == pytest.approx(np.maximum(0, norms - 0.7).sum() / norms.sum(), rel=1e-3)
    assert found.weights == pytest.approx(np.linalg.norm(weights), rel=1e-5)
    if before:
        assert np.linalg.norm(weights - bench.weights) > 0.01


def test_the_step_is_the_one_that_training_takes(bench):
    """Weights after a step of the engine's own, with the same secrets."""
    setting = Setting(noise_multiplier=1.5)
    found = dpsgd_step.step(bench, setting)
    learner = dpsgd_step._learner(bench, setting)
    assert isinstance(learner, DPSGD)
    learner.step(0)
    assert np.linalg.norm(learner.weights.astype(np.float64) - bench.weights) == pytest.approx(found.moved, rel=1e-4)


def test_the_noise_is_as_long_as_normal_draws_are(bench):
    """‖noise‖² ÷ (σC)² is χ² with as many degrees of freedom as there are weights; along the sum it is one draw."""
    for sigma, clip in ((1.0, 1.5), (3.0, 0.5)):
        found = dpsgd_step.step(bench, Setting(noise_multiplier=sigma, clip_norm=clip))
        square = (found.noise / (sigma * clip)) ** 2
        assert abs(square - found.size) < 5 * math.sqrt(2 * found.size)
        assert norm.sf(abs(found.along) / (sigma * clip)) > 1e-4
        assert found.times == pytest.approx(found.noise / found.signal)


def test_smaller_batches_are_in_larger_ones(bench):
    before = dpsgd_step.step(bench, Setting(batch_size=16))
    larger = dpsgd_step.step(bench, Setting(batch_size=64))
    assert set(before.sentences) <= set(larger.sentences)
    assert len(set(larger.sentences)) == len(larger.sentences)
    learner = dpsgd_step._learner(bench, Setting(batch_size=64))
    np.testing.assert_array_equal(np.sort(larger.sentences), learner.sample(0))
    whole, _ = learner.clipped_sum(learner.sample(0))
    assert larger.signal == pytest.approx(np.linalg.norm(whole.astype(np.float64)), rel=1e-5)
    assert 30 < len(larger.sentences) < 100


def test_prices_are_those_of_dp_accounting(bench):
    setting = Setting(batch_size=256)
    many = dpsgd_step.prices(bench, setting, 100, 64, passes=False)
    read = dpsgd_step.prices(bench, setting, 100, 64, passes=True)
    assert [price.steps for price in (many[0], read[0])] == [100, 400]
    for price in (many[1], read[3]):
        event = dp_accounting.PoissonSampledDpEvent(
            64 / len(bench.split), dp_accounting.GaussianDpEvent(price.noise_multiplier)
        )
        accountant = RdpAccountant().compose(event, price.steps)
        assert price.epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-6)
    assert [price.epsilon for price in many] == sorted((price.epsilon for price in many), reverse=True)
    assert [price.times for price in many] == pytest.approx([sigma * many[1].times for sigma in dpsgd_step.NOISES])


@pytest.mark.parametrize("wrong", [{"batch_size": 33}, {"before": 5}])
def test_what_is_not_offered_is_refused(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(InvalidConfig, match=f"{name}={value}, expected one of"):
        Setting(**wrong)
