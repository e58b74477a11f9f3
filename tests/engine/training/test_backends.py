"""Both back ends against independent gradients: Keras's own LSTM, one sentence at a time, in float64."""

import numpy as np
import pytest
import tensorflow as tf

from engine.taggers import BiLSTM
from engine.training.batches import Batch
from engine.training.compiled_backend import CompiledBackend
from engine.training.dpsgd import Backend
from engine.training.tensorflow_backend import TensorFlowBackend

TAGGER = BiLSTM(dimensions=7, hidden_size=5, tags=4)
LENGTHS = np.array([1, 2, 4, 9, 6], dtype=np.int32)


@pytest.fixture(scope="module", params=["tensorflow", "compiled"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """One contract, every implementation; in float64."""
    return TensorFlowBackend(TAGGER, dtype=np.float64) if request.param == "tensorflow" else CompiledBackend(TAGGER)


@pytest.fixture(scope="module")
def weights() -> np.ndarray:
    random = np.random.default_rng(1)
    return TAGGER.initial_weights(random).astype(np.float64) + 0.3 * random.standard_normal(TAGGER.layout.size)


@pytest.fixture(scope="module")
def batch() -> Batch:
    random = np.random.default_rng(2)
    real = np.arange(LENGTHS.max()) < LENGTHS[:, None]
    vectors = random.standard_normal((len(LENGTHS), LENGTHS.max(), TAGGER.dimensions)) * real[..., None]
    tags = (random.integers(0, TAGGER.tags, real.shape) * real).astype(np.int32)
    return Batch(np.arange(len(LENGTHS)), vectors, tags, LENGTHS)


def keras_model(weights: np.ndarray) -> tf.keras.Model:
    """The same tagger in Keras's own layers."""
    tf.keras.backend.set_floatx("float64")
    try:
        inputs = tf.keras.Input((None, TAGGER.dimensions))
        lstm = tf.keras.layers.LSTM(TAGGER.hidden_size, return_sequences=True)
        hidden = tf.keras.layers.Bidirectional(lstm)(inputs)
        model = tf.keras.Model(inputs, tf.keras.layers.Dense(TAGGER.tags)(hidden))
        model.set_weights(list(TAGGER.layout.views(weights).values()))
        return model
    finally:
        tf.keras.backend.set_floatx("float32")


def single_gradients(weights: np.ndarray, batch: Batch) -> list[np.ndarray]:
    """Each sentence's whole gradient by a backward pass of its own."""
    model, gradients = keras_model(weights), []
    for vectors, tags, length in zip(batch.vectors, batch.tags, batch.lengths, strict=True):
        with tf.GradientTape() as tape:
            logits = model(vectors[None, :length])
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tags[None, :length], logits))
        parts = tape.gradient(loss, model.trainable_weights)
        gradients.append(np.concatenate([part.numpy().ravel() for part in parts]))
    return gradients


def test_forward_pass_is_keras_own(backend: Backend, weights: np.ndarray, batch: Batch) -> None:
    model = keras_model(weights)
    best = backend.predict(weights, batch)
    for i, length in enumerate(batch.lengths):
        expected = model(batch.vectors[i][None, :length]).numpy().argmax(-1)[0]
        assert (best[i, :length] == expected).all()


@pytest.mark.parametrize("quantile", [0.0, 0.5, 1.0])
def test_clipped_sum_equals_a_loop_over_single_sentences(
    backend: Backend, weights: np.ndarray, batch: Batch, quantile: float
) -> None:
    singles = single_gradients(weights, batch)
    norms = np.array([np.linalg.norm(gradient) for gradient in singles])
    clip = float(np.quantile(norms, quantile)) * (0.9 if quantile < 1 else 1.1)
    expected = np.sum([g * min(1.0, clip / norm) for g, norm in zip(singles, norms, strict=True)], axis=0)
    found = backend.clipped_gradient(weights, batch, clip)
    np.testing.assert_allclose(found.norms, norms, rtol=1e-10)
    np.testing.assert_allclose(found.total, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_allclose(found.total, expected, rtol=1e-9, atol=1e-12)


def test_without_clipping_the_sum_is_the_plain_gradient(backend: Backend, weights: np.ndarray, batch: Batch) -> None:
    expected = np.sum(single_gradients(weights, batch), axis=0)
    np.testing.assert_allclose(backend.clipped_gradient(weights, batch, None).total, expected, rtol=1e-9, atol=1e-12)


def test_no_sentence_contributes_more_than_the_clip_norm(backend: Backend, weights: np.ndarray, batch: Batch) -> None:
    for i in range(len(batch.lengths)):
        one = batch.without(np.arange(len(batch.lengths)) != i)
        assert np.linalg.norm(backend.clipped_gradient(weights, one, 0.05).total) <= 0.05 * (1 + 1e-9)


def test_padding_changes_nothing(backend: Backend, weights: np.ndarray, batch: Batch) -> None:
    wide = [(0, 0), (0, 3)]
    padded = Batch(batch.sentences, np.pad(batch.vectors, [*wide, (0, 0)]), np.pad(batch.tags, wide), batch.lengths)
    narrow, broad = (backend.clipped_gradient(weights, each, 0.3) for each in (batch, padded))
    np.testing.assert_allclose(narrow.total, broad.total, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(narrow.norms, broad.norms, rtol=1e-10)


def test_float32_agrees_with_float64(backend: Backend, weights: np.ndarray, batch: Batch) -> None:
    single = Batch(batch.sentences, batch.vectors.astype(np.float32), batch.tags, batch.lengths)
    exact = backend.clipped_gradient(weights, batch, 0.3)
    for quick in (TensorFlowBackend(TAGGER), CompiledBackend(TAGGER)):
        found = quick.clipped_gradient(weights.astype(np.float32), single, 0.3)
        np.testing.assert_allclose(found.total, exact.total, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(found.losses, exact.losses, rtol=1e-5)


def test_a_non_finite_sentence_is_seen_in_its_norm(backend: Backend, weights: np.ndarray, batch: Batch) -> None:
    vectors = batch.vectors.copy()
    vectors[2, 0, 0] = np.nan
    found = backend.clipped_gradient(weights, Batch(batch.sentences, vectors, batch.tags, batch.lengths), 0.3)
    assert np.isnan(found.norms[2])
    assert np.isfinite(np.delete(found.norms, 2)).all()
