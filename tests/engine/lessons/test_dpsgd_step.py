"""One step of DP-SGD: sums of single sentences in float64, noise against its distribution, ε by dp_accounting."""

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


def clipped_one_by_one(lesson_model, sentences, clip, weights):
    """Return the norms and the clipped sum, with each sentence clipped on its own."""
    norms, total = [], np.zeros(len(weights))
    for sentence in sentences:
        batch = batch_of(lesson_model.split, lesson_model.table, np.array([sentence]))
        gradient = lesson_model.backend.clipped_gradient(weights, batch, None).total.astype(np.float64)
        norms.append(np.linalg.norm(gradient))
        total += gradient * min(1.0, clip / norms[-1])
    return np.array(norms), total


@pytest.mark.parametrize("before", [0, 10])
def test_sum_equals_per_sentence_sum(lesson_model, before):
    setting = Setting(clip_norm=0.7, batch_size=32, noise_multiplier=2.0, before=before)
    found = dpsgd_step.step(lesson_model, setting)
    weights = dpsgd_step._weights(lesson_model, before)
    norms, total = clipped_one_by_one(lesson_model, found.sentences, 0.7, weights)
    np.testing.assert_allclose(found.norms, norms, rtol=1e-4)
    assert found.signal == pytest.approx(np.linalg.norm(total), rel=1e-4)
    assert found.clipped == (norms > 0.7).sum()
    assert found.cut == pytest.approx(np.maximum(0, norms - 0.7).sum() / norms.sum(), rel=1e-3)
    assert found.weights == pytest.approx(np.linalg.norm(weights), rel=1e-5)
    if before:
        assert np.linalg.norm(weights - lesson_model.weights) > 0.01


def test_step_equals_training_step(lesson_model):
    """The weights equal those after one step of the engine with the same seeds."""
    setting = Setting(noise_multiplier=1.5)
    found = dpsgd_step.step(lesson_model, setting)
    learner = dpsgd_step._learner(lesson_model, setting)
    assert isinstance(learner, DPSGD)
    learner.step(0)
    assert np.linalg.norm(learner.weights.astype(np.float64) - lesson_model.weights) == pytest.approx(
        found.moved, rel=1e-4
    )


def test_noise_norm_is_chi_squared(lesson_model):
    """‖noise‖² ÷ (σC)² is χ² with one degree of freedom per weight; the noise along the sum is one normal draw."""
    for sigma, clip in ((1.0, 1.5), (3.0, 0.5)):
        found = dpsgd_step.step(lesson_model, Setting(noise_multiplier=sigma, clip_norm=clip))
        square = (found.noise / (sigma * clip)) ** 2
        assert abs(square - found.size) < 5 * math.sqrt(2 * found.size)
        assert norm.sf(abs(found.along) / (sigma * clip)) > 1e-4
        assert found.times == pytest.approx(found.noise / found.signal)


def test_batches_are_nested(lesson_model):
    before = dpsgd_step.step(lesson_model, Setting(batch_size=16))
    larger = dpsgd_step.step(lesson_model, Setting(batch_size=64))
    assert set(before.sentences) <= set(larger.sentences)
    assert len(set(larger.sentences)) == len(larger.sentences)
    learner = dpsgd_step._learner(lesson_model, Setting(batch_size=64))
    np.testing.assert_array_equal(np.sort(larger.sentences), learner.sample(0))
    whole, _ = learner.clipped_sum(learner.sample(0))
    assert larger.signal == pytest.approx(np.linalg.norm(whole.astype(np.float64)), rel=1e-5)
    assert 30 < len(larger.sentences) < 100


def test_prices_equal_dp_accounting(lesson_model):
    setting = Setting(batch_size=256)
    many = dpsgd_step.prices(lesson_model, setting, 100, 64, passes=False)
    read = dpsgd_step.prices(lesson_model, setting, 100, 64, passes=True)
    assert [price.steps for price in (many[0], read[0])] == [100, 400]
    for price in (many[1], read[3]):
        event = dp_accounting.PoissonSampledDpEvent(
            64 / len(lesson_model.split), dp_accounting.GaussianDpEvent(price.noise_multiplier)
        )
        accountant = RdpAccountant().compose(event, price.steps)
        assert price.epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-6)
    assert [price.epsilon for price in many] == sorted((price.epsilon for price in many), reverse=True)
    assert [price.times for price in many] == pytest.approx([sigma * many[1].times for sigma in dpsgd_step.NOISES])


@pytest.mark.parametrize("wrong", [{"batch_size": 33}, {"before": 5}])
def test_setting_rejects_values_not_offered(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(InvalidConfig, match=f"{name}={value}, expected one of"):
        Setting(**wrong)
