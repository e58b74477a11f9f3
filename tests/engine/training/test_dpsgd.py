"""A step's use of gradients: noise once, division by the expected batch size, non-finite sentences excluded."""

import numpy as np
import pytest
from scipy import stats

from engine.config import TrainingConfig
from engine.embeddings import EncodedSplit
from engine.errors import TrainingFailed
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets, Seeds
from engine.taggers.decoding import Decoder
from engine.taggers.layers import BidirectionalLSTM, Dense, Softmax
from engine.taggers.tagger import stack
from engine.training.batches import MAX_TOKENS, Batch
from engine.training.compiled.backend import CompiledBackend
from engine.training.dpsgd import DPSGD, GradientSum, predict
from engine.training.optimisers import Optimiser
from engine.training.tensorflow_backend import TensorFlowBackend

SIZE = 4000
TAGGER = stack(7, (BidirectionalLSTM(7, 5), Dense(10, 4)), Softmax(4))


class FixedGradients:
    """Every sentence's gradient is a fixed vector, so that sums can be computed by hand."""

    def __init__(self, gradients: np.ndarray) -> None:
        self.gradients = gradients

    def clipped_gradient(
        self, weights: np.ndarray, batch: Batch, clip_norm: float | None, by_layer: bool = False
    ) -> GradientSum:
        own = self.gradients[batch.sentences]
        norms = np.linalg.norm(own, axis=1)
        bound = np.inf if clip_norm is None else clip_norm
        return GradientSum((own * np.minimum(1, bound / norms)[:, None]).sum(0), norms[None], norms * 0 + 1.0)

    def scores(self, weights: np.ndarray, batch: Batch) -> np.ndarray:
        return np.eye(4)[batch.tags]


def split_of(lengths: list[int], seed: int = 0) -> EncodedSplit:
    random = np.random.default_rng(seed)
    total = sum(lengths)
    return EncodedSplit(
        random.integers(0, 20, total).astype(np.int32),
        random.integers(0, 4, total).astype(np.int16),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
    )


TABLE = np.random.default_rng(9).standard_normal((20, 7)).astype(np.float32)


def plan_of(examples: int, batch_size: int, **chosen: object) -> PrivacyPlan:
    values: dict = {
        "steps": 10,
        "noise_multiplier": 0.0,
        "clip_norm": None,
        "delta": 1e-5,
        "sampling": "poisson",
    } | chosen
    return PrivacyPlan(examples=examples, batch_size=batch_size, **values)


def streams_of(plan: PrivacyPlan, seed: int = 3) -> Secrets | Seeds:
    return Secrets.seeded(seed, "run") if plan.private else Seeds(seed)


def learner(gradients: np.ndarray, plan: PrivacyPlan, rate: float = 1.0, seed: int = 3) -> DPSGD:
    split = split_of([3] * len(gradients))
    optimiser = Optimiser(TrainingConfig(learning_rate=rate), gradients.shape[1])
    weights = np.zeros(gradients.shape[1], dtype=np.float32)
    return DPSGD(FixedGradients(gradients), plan, optimiser, streams_of(plan, seed), split, TABLE, weights)


def test_sum_is_divided_by_the_expected_batch_size() -> None:
    gradients = np.eye(12)
    sgd = learner(gradients, plan_of(12, 4))
    sgd.step(0)
    assert set(np.unique(sgd.weights)) <= {0.0, np.float32(-1 / 4)}
    sizes = {int((learned.weights != 0).sum()) for seed in range(8) for learned in [_stepped(gradients, seed)]}
    assert len(sizes) > 2  # the realised batch varies, the divisor does not


def _stepped(gradients: np.ndarray, seed: int) -> DPSGD:
    sgd = learner(gradients, plan_of(12, 4), seed=seed)
    sgd.step(0)
    assert set(np.unique(sgd.weights)) <= {0.0, np.float32(-1 / 4)}
    return sgd


def noise_of(step: int, sigma: float = 1.3, clip: float = 0.7, seed: int = 3) -> np.ndarray:
    """Return the addition to the clipped sum in units of σ·C: the gradients here are zero."""
    plan = plan_of(8, 4, noise_multiplier=sigma, clip_norm=clip)
    sgd = learner(np.full((8, SIZE), 1e-30), plan, seed=seed)
    sgd.step(step)
    return -sgd.weights * 4 / (sigma * clip)


def test_noise_reaches_the_weights_with_the_planned_scale() -> None:
    noise = noise_of(0)
    assert stats.kstest(noise, "norm").pvalue > 0.01
    assert stats.kstest(noise * 2 / 3, "norm").pvalue < 1e-6
    assert stats.kstest(noise * 3 / 2, "norm").pvalue < 1e-6


def test_noise_is_fresh_each_step_and_equal_when_a_step_is_repeated() -> None:
    assert abs(np.corrcoef(noise_of(0), noise_of(1))[0, 1]) < 0.08
    assert (noise_of(1) == noise_of(1)).all()
    assert not (noise_of(1, seed=4) == noise_of(1)).any()


def test_a_private_plan_refuses_shared_streams() -> None:
    private = plan_of(8, 4, noise_multiplier=1.0, clip_norm=1.0)
    parts = Optimiser(TrainingConfig(), SIZE), Seeds(3), split_of([3] * 8), TABLE, np.zeros(SIZE, dtype=np.float32)
    with pytest.raises(TypeError, match="needs Secrets"):
        DPSGD(FixedGradients(np.ones((8, SIZE))), private, *parts)
    DPSGD(FixedGradients(np.ones((8, SIZE))), plan_of(8, 4), *parts)


def test_non_finite_gradient_is_excluded() -> None:
    gradients = np.eye(6)
    gradients[2] = np.nan
    sgd = learner(gradients, plan_of(6, 6, clip_norm=1.0))
    statistics = sgd.step(0)
    assert statistics.nonfinite == 1
    np.testing.assert_allclose(sgd.weights, -np.array([1, 1, 0, 1, 1, 1]) / 6, rtol=1e-6)


def test_non_finite_weights_end_the_run_with_the_step() -> None:
    sgd = learner(np.full((6, 5), 1e37), plan_of(6, 6), rate=1000.0)
    with pytest.raises(TrainingFailed, match="after step 1 of"):
        sgd.step(0)


@pytest.mark.repeats
def test_no_noise_and_large_clip_norm_is_plain_sgd() -> None:
    tagger = TAGGER
    start = tagger.initial_weights(np.random.default_rng(0))
    split = split_of([5, 2, 8, 3, 3, 6])
    results = []
    for clip in (None, 1e6):
        backend = TensorFlowBackend(tagger)
        weights = start.copy()
        optimiser = Optimiser(TrainingConfig(learning_rate=0.5), weights.size)
        sgd = DPSGD(backend, plan_of(6, 6, clip_norm=clip), optimiser, Seeds(0), split, TABLE, weights)
        for step in range(5):
            sgd.step(step)
        results.append(weights)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-7)
    assert np.abs(results[0] - start).max() > 1e-3


def test_splitting_a_sampled_batch_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = TAGGER
    split, weights = split_of([4, 9, 2, 7, 5, 5]), tagger.initial_weights(np.random.default_rng(0))
    totals = []
    for tokens in (MAX_TOKENS, 9):
        monkeypatch.setattr("engine.training.batches.MAX_TOKENS", tokens)
        optimiser = Optimiser(TrainingConfig(learning_rate=1.0), weights.size)
        sgd = DPSGD(
            TensorFlowBackend(tagger), plan_of(6, 6, clip_norm=0.2), optimiser, Seeds(0), split, TABLE, weights.copy()
        )
        sgd.step(0)
        totals.append(sgd.weights)
    np.testing.assert_allclose(totals[0], totals[1], rtol=1e-4, atol=1e-6)


def test_an_empty_sample_still_gets_its_noise() -> None:
    sgd = learner(np.ones((50, SIZE)), plan_of(50, 1, noise_multiplier=1.0, clip_norm=1.0))
    steps = [step for step in range(40) if not len(sgd.sample(step))]
    assert steps  # a Poisson sample of expected size 1 is empty a third of the time
    sgd.step(steps[0])
    assert stats.kstest(-sgd.weights, "norm").pvalue > 0.01


def test_predictions_are_in_the_order_of_the_split() -> None:
    split = split_of([4, 1, 9, 3])
    decoder = Decoder(("O", "B-X", "I-X", "B-Y"), well_formed=False)
    found = predict(FixedGradients(np.eye(4)), decoder, np.zeros(1), None, split, TABLE, lambda: None)
    np.testing.assert_array_equal(found, split.tags)


def test_non_finite_scores_are_refused() -> None:
    backend = CompiledBackend(TAGGER)
    weights = np.full(TAGGER.size, 3e38, dtype=np.float32)
    decoder = Decoder(("O", "B-X", "I-X", "B-Y"), well_formed=False)
    with pytest.raises(TrainingFailed, match="scores are not finite"):
        predict(backend, decoder, weights, None, split_of([4, 2]), TABLE, lambda: None)


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam"])
def test_optimisers_equal_keras(name: str) -> None:
    import tensorflow as tf
    import tf_keras

    peers = {
        "sgd": tf_keras.optimizers.SGD(0.1),
        "momentum": tf_keras.optimizers.SGD(0.1, momentum=0.9),
        "adam": tf_keras.optimizers.Adam(0.1, epsilon=1e-8),
    }
    random = np.random.default_rng(0)
    ours = random.standard_normal(6).astype(np.float32)
    theirs = tf.Variable(ours)
    optimiser = Optimiser(TrainingConfig(optimiser=name, learning_rate=0.1), 6)
    for step in range(12):
        gradient = random.standard_normal(6).astype(np.float32)
        optimiser.move(ours, gradient, step)
        peers[name].apply_gradients([(tf.constant(gradient), theirs)])
        np.testing.assert_allclose(
            ours, theirs.numpy(), rtol=1e-4, atol=1e-5
        )  # Keras rounds Adam's step size to float32 first
