"""Both back ends compared with independent gradients: Keras layers, one sentence at a time, in float64."""

import itertools
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from engine.errors import InvalidConfig
from engine.taggers import Tagger
from engine.taggers.layers import (
    CHARACTERS,
    CRF,
    BidirectionalLSTM,
    CharacterPool,
    Dense,
    Dropout,
    Softmax,
    Tanh,
    Window,
)
from engine.taggers.tagger import FEATURES, Input, Node, stack
from engine.training import backends
from engine.training.batches import Batch
from engine.training.compiled.backend import CompiledBackend
from engine.training.dpsgd import Backend
from engine.training.tensorflow_backend import TensorFlowBackend

DIMENSIONS, TAGS = 7, 4
TAGGERS = {
    "tddl": stack(DIMENSIONS, (BidirectionalLSTM(DIMENSIONS, 5), Dense(10, TAGS)), Softmax(TAGS)),
    "crf": stack(DIMENSIONS, (BidirectionalLSTM(DIMENSIONS, 5), Dense(10, TAGS)), CRF(TAGS)),
    "linear-crf": stack(DIMENSIONS, (Dense(DIMENSIONS, TAGS),), CRF(TAGS)),
    "window-crf": stack(DIMENSIONS, (Window(DIMENSIONS, 3, 2), Dense(DIMENSIONS + 12, TAGS)), CRF(TAGS)),
    "mlp": stack(
        DIMENSIONS,
        (Dense(DIMENSIONS, 5), Window(5, 5, 1), Tanh(15), Dense(15, 6), Tanh(6), Dense(6, TAGS)),
        Softmax(TAGS),
    ),
    "wide": stack(DIMENSIONS, (Window(DIMENSIONS, DIMENSIONS, 40), Dense(DIMENSIONS * 81, TAGS)), CRF(TAGS)),
    "two-lstm": stack(
        DIMENSIONS, (BidirectionalLSTM(DIMENSIONS, 4), BidirectionalLSTM(8, 3), Dense(6, TAGS)), Softmax(TAGS)
    ),
}
"""Each layer and each head, layers also above the lowest position, and a graph."""
TAGGERS["branches"] = Tagger(
    DIMENSIONS,
    (
        Node("context", BidirectionalLSTM(4, 3), ("words",)),
        Node("spelt", Dense(3, 2), ("spelling",), private=True),
        Node("bent", Tanh(2), ("spelt",)),
        Node("beside", Window(8, 2, 1), ("bent", "context")),
        Node("joined", Dense(12 + 4 + 2, 5), ("beside", "words", "bent"), private=True),
        Node("scores", Dense(5, TAGS), ("joined",)),
    ),
    CRF(TAGS),
    inputs=(Input("words", 0, 4), Input("spelling", 4, 7)),
)
LETTERS = 6
TAGGERS["characters"] = Tagger(
    DIMENSIONS,
    (
        Node("letters", CharacterPool(LETTERS, 3, 4, 1), (CHARACTERS,)),
        Node("further", CharacterPool(LETTERS, 2, 3, 2), (CHARACTERS,), private=True),
        Node("context", BidirectionalLSTM(DIMENSIONS + 7, 3), (FEATURES, "letters", "further")),
        Node("scores", Dense(6, TAGS), ("context",)),
    ),
    Softmax(TAGS),
    head_private=True,
)
TAGGERS["dropout"] = Tagger(
    DIMENSIONS,
    (
        Node("fewer", Dropout(DIMENSIONS, 0.3)),
        Node("letters", CharacterPool(LETTERS, 3, 4, 1), (CHARACTERS,)),
        Node("few", Dropout(DIMENSIONS + 4, 0.5), ("fewer", "letters")),
        Node("bent", Dense(DIMENSIONS + 4, 5), ("few",)),
        Node("last", Dropout(5, 0.2), ("bent",)),
        Node("scores", Dense(5, TAGS), ("last",)),
    ),
    CRF(TAGS),
)
TAGGERS["some values learn"] = Tagger(
    DIMENSIONS,
    (
        Node("letters", CharacterPool(LETTERS, 3, 4, 1), (CHARACTERS,)),
        Node("further", CharacterPool(LETTERS, 2, 3, 2), (CHARACTERS,)),
        Node("fewer", Dropout(DIMENSIONS + 7, 0.3), ("letters", FEATURES, "further")),
        Node("bent", Tanh(DIMENSIONS + 7), ("fewer",)),
        Node("all beside", Window(DIMENSIONS + 7, DIMENSIONS + 7, 2), ("bent",)),
        Node("some beside", Window(DIMENSIONS + 11, DIMENSIONS + 9, 1), ("letters", "fewer")),
        Node("far", Dense(5 * (DIMENSIONS + 7), 5), ("all beside",)),
        Node("near", BidirectionalLSTM(DIMENSIONS + 11 + 2 * (DIMENSIONS + 9), 3), ("some beside",)),
        Node("scores", Dense(11, TAGS), ("far", "near")),
    ),
    CRF(TAGS),
)
"""Layers without weights pass features between two trained layers; two layers read them, in more columns than a panel
has."""
TAGGERS["some scores learn"] = Tagger(
    DIMENSIONS,
    (
        Node("letters", CharacterPool(LETTERS, 3, 2, 1), (CHARACTERS,)),
        Node("fewer", Dropout(TAGS, 0.3), ("two", "letters")),
        Node("scores", Tanh(TAGS), ("fewer",)),
    ),
    CRF(TAGS),
    inputs=(Input("two", 0, 2),),
)
TAGGERS["no scores learn"] = Tagger(
    DIMENSIONS, (Node("scores", Tanh(TAGS), ("four",)),), CRF(TAGS), inputs=(Input("four", 0, TAGS),)
)
"""Only the chain above has weights."""


@dataclass(frozen=True)
class Unheard(Tanh):
    """A layer without an implementation."""


LENGTHS = np.array([9, 6, 4, 2, 1])
LONG = np.array([40, 1])
"""With so few weights, the norm of a sentence this long comes from the whole gradient, not from Gram matrices."""


@dataclass(frozen=True)
class Case:
    """One back end with one tagger and one loss, in one precision."""

    kind: str
    name: str
    mean: bool
    precision: type

    @property
    def tagger(self) -> Tagger:
        return TAGGERS[self.name]

    @property
    def relative(self) -> float:
        """Allowed error, relative to the largest number of the layer, sentence or loss."""
        return 1e-9 if self.precision is np.float64 else 3e-5

    def __str__(self) -> str:
        return f"{self.kind}-{self.name}-{'mean' if self.mean else 'sum'}-{np.dtype(self.precision).name}"


BOTH_LOSSES = ("tddl", "crf")
"""Taggers for which TensorFlow's back end computes the summed loss too: the division is outside the layers."""
ALWAYS = {("tddl", True), ("crf", False), ("branches", True), ("some values learn", True)}
"""Taggers that always test the compiled back end, and whether their loss is a mean: all layers and heads."""


def marked(case: Case) -> object:
    """Return a case whose tests run each time, or only if a source has changed.

    The compiled back end is tested in the precision of runs, whose code set-up has compiled. In float64 it takes two
    minutes to compile, and TensorFlow a second or two to trace each tagger.
    """
    wanted = {("tensorflow", np.float64): {("some values learn", True)}, ("compiled", np.float32): ALWAYS}
    always = (case.name, case.mean) in wanted.get((case.kind, case.precision), ())
    return pytest.param(case, marks=() if always else pytest.mark.repeats)


COMPILED = [
    marked(Case("compiled", name, mean, precision))
    for precision in (np.float32, np.float64)
    for name in TAGGERS
    for mean in (True, False)
]
CASES = [
    *(marked(Case("tensorflow", name, True, np.float64)) for name in TAGGERS),
    *(marked(Case("tensorflow", name, False, np.float64)) for name in BOTH_LOSSES),
    *COMPILED,
]


@pytest.fixture(scope="module", params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture(scope="module")
def tagger(case: Case) -> Tagger:
    return case.tagger


@cache
def backend_of(case: Case) -> Backend:
    """Return a back end; TensorFlow traces the graph of each one, which takes seconds, so that tests share them."""
    if case.kind == "tensorflow":
        return TensorFlowBackend(case.tagger, mean=case.mean, dtype=case.precision)
    return CompiledBackend(case.tagger, mean=case.mean)


def reference(name: str, mean: bool) -> Backend:
    return backend_of(Case("tensorflow", name, mean, np.float64))


@pytest.fixture(scope="module")
def backend(case: Case) -> Backend:
    """Return each implementation of the interface."""
    return backend_of(case)


def in_precision(case: Case, batch: Batch) -> Batch:
    return replace(batch, words=batch.words.astype(case.precision))


def assert_close(case: Case, found: np.ndarray, expected: np.ndarray, *, least: float = 0.0) -> None:
    """Check that each number is within the case's error of the largest one; ``least`` is a lower limit of the largest
    one."""
    largest = max(float(np.abs(expected).max(initial=0)), least)
    np.testing.assert_allclose(found, expected, rtol=0, atol=case.relative * largest)


def assert_layers_close(case: Case, found: np.ndarray, expected: np.ndarray) -> None:
    """Compare layer by layer, since the gradient of one may be a thousand times as long as that of another."""
    assert found.shape == expected.shape
    for part in case.tagger.slices:
        # Rounding of a layer's input is relative to the whole.
        assert_close(case, found[part], expected[part], least=1e-3 * float(np.abs(expected).max()))


def test_compiled_backend_rejects_unknown_layers() -> None:
    with pytest.raises(InvalidConfig, match=r"“Tanh” .*TensorFlow"):
        CompiledBackend(stack(DIMENSIONS, (Dense(DIMENSIONS, TAGS), Unheard(TAGS)), CRF(TAGS)))


@pytest.fixture(scope="module")
def weights(case: Case) -> np.ndarray:
    return weights_of(case.tagger).astype(case.precision)


def weights_of(tagger: Tagger) -> np.ndarray:
    random = np.random.default_rng(1)
    return tagger.initial_weights(random).astype(np.float64) + 0.3 * random.standard_normal(tagger.size)


def batch_with(lengths: np.ndarray) -> Batch:
    random = np.random.default_rng(2)
    words, places = random.standard_normal((15, DIMENSIONS)), random.integers(0, 15, lengths.sum())  # with repeats
    tags = random.integers(0, TAGS, lengths.sum()).astype(np.int32)
    letters = random.integers(1, LETTERS, (15, 5)).astype(np.int32)
    letters[np.arange(5) >= random.integers(0, 6, 15)[:, None]] = 0  # words of 0 to 5 letters
    chances = random.integers(0, 2**64, len(lengths), dtype=np.uint64)
    spellings = np.where(places < 7, places, random.integers(0, 15, lengths.sum()))  # unknown words have one vector
    return Batch(np.arange(len(lengths)), words, places, tags, lengths, letters, spellings, chances)


def left_out(tagger: Tagger, batch: Batch) -> np.ndarray:
    """Return the factors of all dropouts side by side, [N, …], plus one column, since Keras requires at least one."""
    each = [
        batch.kept(number, layer.size, layer.rate, np.float64)
        for number, layer in enumerate(tagger.layers)
        if isinstance(layer, Dropout)
    ]
    return np.concatenate([*each, np.ones((len(batch.tags), 1))], axis=1)


@pytest.fixture(scope="module")
def batch(case: Case) -> Batch:
    return in_precision(case, batch_with(LENGTHS))


@lru_cache
def keras_model(tagger: Tagger) -> tf_keras.Model:
    """Build the layers below the head in Keras, with the tagger's weights."""
    layers = tf_keras.layers
    tf_keras.backend.set_floatx("float64")
    try:
        given, letters = tf_keras.Input((None, tagger.dimensions)), tf_keras.Input((None, 5), dtype=tf.int32)
        dropouts = sum(layer.size for layer in tagger.layers if isinstance(layer, Dropout))
        kept, passed = tf_keras.Input((None, dropouts + 1)), 0
        known, made = {CHARACTERS: letters, FEATURES: given}, []
        for each in tagger.inputs:
            known[each.name] = given[:, :, each.start : each.stop]
        for node in tagger.nodes:
            read = [known[name] for name in node.reads]
            hidden = read[0] if len(read) == 1 else layers.Concatenate()(read)
            layer, own = node.layer, None
            if isinstance(layer, BidirectionalLSTM):
                # The cell alone: ``LSTM`` would write a graph for each sentence length.
                own = layers.Bidirectional(layers.RNN(layers.LSTMCell(layer.size), return_sequences=True))
            elif isinstance(layer, Window):
                own = layers.Lambda(partial(neighbours, shape=layer))
            elif isinstance(layer, Tanh):
                own = layers.Activation("tanh")
            elif isinstance(layer, Dropout):
                own = layers.Multiply()
                hidden = [hidden, kept[:, :, passed : passed + layer.size]]
                passed += layer.size
            elif isinstance(layer, CharacterPool):
                own = Pooled(layer)
            else:
                own = layers.Dense(layer.outputs)
            known[node.name] = own(hidden)
            made.append(own)
        model = tf_keras.Model([given, letters, kept], known[tagger.nodes[-1].name])
        for own, views in zip(made, tagger.views(weights_of(tagger))[:-1], strict=True):
            own.set_weights(list(views.values()))
        model.ours = made  # Keras lists weights in its own order
        return model
    finally:
        tf_keras.backend.set_floatx("float32")


class Pooled(tf_keras.layers.Layer):
    """A character pool in Keras layers, with the letters of one sentence [1, T, 5] word by word."""

    def __init__(self, shape: CharacterPool) -> None:
        super().__init__()
        self.shape = shape
        ours = [0, *(side for near in range(1, shape.reach + 1) for side in (-near, near))]
        self.order = np.argsort(ours)
        """The engine puts a letter before its neighbours, the nearest first; Keras goes from left to right."""
        self.embedding = tf_keras.layers.Embedding(shape.characters, shape.size)
        self.convolution = tf_keras.layers.Conv1D(shape.outputs, 2 * shape.reach + 1, padding="same")
        self.embedding.build(None)
        self.convolution.build((None, None, shape.size))

    def set_weights(self, weights: list[np.ndarray]) -> None:
        table, kernel, bias = weights
        super().set_weights([table, kernel.reshape(-1, self.shape.size, self.shape.outputs)[self.order], bias])

    def call(self, letters: tf.Tensor) -> tf.Tensor:
        """Map [1, T, 5] to [1, T, outputs]."""
        real = tf.cast(letters[0] > 0, tf.float64)[:, :, None]
        values = tf.tanh(self.convolution(self.embedding(letters[0]) * real))
        largest = tf.reduce_max(values - 10 * (1 - real), 1)
        return tf.where(tf.reduce_any(letters[0] > 0, 1)[:, None], largest, 0.0)[None]


def in_our_order(layer: tf_keras.layers.Layer, gradients: list[tf.Tensor]) -> list[np.ndarray]:
    """Return the gradients of a layer's weights, flat and in the order of the flat vector."""
    dense = [tf.convert_to_tensor(each).numpy() for each in gradients]
    if isinstance(layer, Pooled):
        table, kernel, bias = dense
        dense = [table, kernel[np.argsort(layer.order)], bias]
    return [each.ravel() for each in dense]


def neighbours(tokens: tf.Tensor, shape: Window) -> tf.Tensor:
    """Return the output of a window for one sentence [1, T, I], neighbour by neighbour."""
    known, found = tokens[0, :, : shape.copied], [tokens[0]]
    for near in range(1, shape.reach + 1):
        gone = tf.zeros_like(known[:near])
        size = tf.shape(known)[0]
        left, right = tf.concat([gone, known], 0)[:size], tf.concat([known, gone], 0)[-size:]
        # A sentence shorter than the reach has no neighbours here.
        found += [left, right]
    return tf.concat(found, 1)[None]


def enumerated_loss(scores: tf.Tensor, transitions: tf.Tensor, tags: np.ndarray) -> tf.Tensor:
    """Compute the chain's negative log-likelihood by its definition: score every sequence of tags."""
    sequences = np.array(list(itertools.product(range(TAGS), repeat=len(tags))))
    return tf.reduce_logsumexp(_sequence_scores(scores, transitions, sequences)) - tf.reduce_sum(
        _sequence_scores(scores, transitions, tags[None])
    )


def _sequence_scores(scores: tf.Tensor, transitions: tf.Tensor, sequences: np.ndarray) -> tf.Tensor:
    own = sum(tf.gather(scores[t], sequences[:, t]) for t in range(sequences.shape[1]))
    pairs = np.stack([sequences[:, :-1], sequences[:, 1:]], -1)
    return own + tf.reduce_sum(tf.gather_nd(transitions, pairs), 1)


def forward_backward(scores: np.ndarray, transitions: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Return log Z, the marginals of tags [L, K] and of pairs [L − 1, K, K], by the standard two passes with
    rescaling."""
    length = len(scores)
    potentials, step = np.exp(scores - scores.max(1, keepdims=True)), np.exp(transitions)
    alpha, beta, scale = np.zeros_like(scores), np.ones_like(scores), np.zeros(length)
    for t in range(length):
        alpha[t] = potentials[t] * (alpha[t - 1] @ step if t else 1)
        scale[t] = alpha[t].sum()
        alpha[t] /= scale[t]
    for t in range(length - 2, -1, -1):
        beta[t] = step @ (potentials[t + 1] * beta[t + 1]) / scale[t + 1]
    pairs = [
        alpha[t][:, None] * step * (potentials[t + 1] * beta[t + 1])[None] / scale[t + 1] for t in range(length - 1)
    ]
    return np.log(scale).sum() + scores.max(1).sum(), alpha * beta, np.array(pairs)


@lru_cache
def single_gradients(tagger: Tagger, mean: bool, lengths: tuple[int, ...]) -> tuple[list, list]:
    """Return each sentence's whole gradient by a separate backward pass, and its loss."""
    weights, batch = weights_of(tagger), batch_with(np.array(lengths))
    model, gradients, losses = keras_model(tagger), [], []
    kept = left_out(tagger, batch)
    chain = isinstance(tagger.head, CRF)
    transitions = tf.constant(tagger.views(weights)[-1]["transitions"]) if chain else None
    for start, length in zip(batch.offsets, batch.lengths, strict=True):
        tags = batch.tags[start : start + length]
        with tf.GradientTape() as tape:
            here = slice(start, start + length)
            scores = model([batch.vectors[None, here], batch.spelt[None, here], kept[None, here]])[0]
            if not chain:
                loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(tags, scores))
            else:
                tape.watch(transitions)
                loss = (
                    enumerated_loss(scores, transitions, tags) if length < 6 else _chain_loss(scores, transitions, tags)
                )
            loss /= float(length) if mean else 1.0
        own = [layer.trainable_weights for layer in model.ours]
        parts, last = tape.gradient(loss, (own, [transitions] if chain else []), unconnected_gradients="zero")
        flat = np.zeros(tagger.size)
        ours = [in_our_order(layer, some) for layer, some in zip(model.ours, parts, strict=True)]
        for stretch, some in zip(tagger.slices, [*ours, [each.numpy().ravel() for each in last]], strict=True):
            flat[stretch] = np.concatenate([np.zeros(0), *some])
        gradients.append(flat)
        losses.append(float(loss))
    return gradients, losses


@tf.custom_gradient
def _chain_loss_of(scores: tf.Tensor, transitions: tf.Tensor, tags: tf.Tensor) -> tuple:
    mass, marginals, pairs = forward_backward(scores.numpy(), transitions.numpy())
    there = np.eye(TAGS)[tags.numpy()]
    count = np.einsum("ti,tj->ij", there[:-1], there[1:])
    own = (scores.numpy() * there).sum() + (transitions.numpy() * count).sum()
    return tf.constant(mass - own), lambda up: (up * (marginals - there), up * (pairs.sum(0) - count), None)


def _chain_loss(scores: tf.Tensor, transitions: tf.Tensor, tags: np.ndarray) -> tf.Tensor:
    return _chain_loss_of(scores, transitions, tf.constant(tags))


def test_independent_chain_losses_agree() -> None:
    random = np.random.default_rng(3)
    scores, transitions = 3 * random.standard_normal((5, TAGS)), 2 * random.standard_normal((TAGS, TAGS))
    tags = random.integers(0, TAGS, 5)
    with tf.GradientTape(persistent=True) as tape:
        s, a = tf.constant(scores), tf.constant(transitions)
        tape.watch([s, a])
        slow, quick = enumerated_loss(s, a, tags), _chain_loss(s, a, tags)
    assert float(slow) == pytest.approx(float(quick), rel=1e-12)
    for one, other in zip(tape.gradient(slow, [s, a]), tape.gradient(quick, [s, a]), strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(one), tf.convert_to_tensor(other), atol=1e-12)


def test_scores_equal_keras(case: Case, backend: Backend, tagger: Tagger, weights: np.ndarray, batch: Batch) -> None:
    """All values are used: prediction has no dropout."""
    model, exact, scores = keras_model(tagger), batch_with(LENGTHS), backend.scores(weights, batch)
    kept = np.ones_like(left_out(tagger, exact))
    for start, length in zip(exact.offsets, exact.lengths, strict=True):
        here = slice(start, start + length)
        expected = model([exact.vectors[None, here], exact.spelt[None, here], kept[None, here]]).numpy()[0]
        assert_close(case, scores[start : start + length], expected)


@pytest.mark.parametrize("quantile", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("lengths", [LENGTHS, LONG], ids=["short", "long"])
def test_clipped_sum_equals_a_loop_over_single_sentences(
    case: Case, backend: Backend, tagger: Tagger, weights: np.ndarray, lengths: np.ndarray, quantile: float
) -> None:
    singles, losses = single_gradients(tagger, case.mean, tuple(lengths))
    norms = np.array([np.linalg.norm(gradient) for gradient in singles])
    # If only the chain is trained, a sentence of one word has no gradient.
    clip = float(np.quantile(norms[norms > 0], quantile)) * (0.9 if quantile < 1 else 1.1)
    expected = np.sum([g * min(1.0, clip / max(norm, 1e-300)) for g, norm in zip(singles, norms, strict=True)], axis=0)
    found = backend.clipped_gradient(weights, in_precision(case, batch_with(lengths)), clip)
    assert_close(case, found.losses, losses)
    assert_close(case, found.norms, norms)
    assert_layers_close(case, found.total, expected)


def test_without_clipping_the_sum_is_the_plain_gradient(
    case: Case, backend: Backend, tagger: Tagger, weights: np.ndarray, batch: Batch
) -> None:
    expected = np.sum(single_gradients(tagger, case.mean, tuple(LENGTHS))[0], axis=0)
    assert_layers_close(case, backend.clipped_gradient(weights, batch, None).total, expected)


def test_no_sentence_contributes_more_than_the_clip_norm(
    case: Case, backend: Backend, weights: np.ndarray, batch: Batch
) -> None:
    for i in range(len(batch.lengths)):
        one = batch.where(np.arange(len(batch.lengths)) == i)
        total = backend.clipped_gradient(weights, one, 0.05).total.astype(np.float64)
        assert np.linalg.norm(total) <= 0.05 * (1 + case.relative)


@pytest.mark.parametrize("lengths", [LENGTHS, LONG], ids=["short", "long"])
def test_per_layer_clipping_equals_a_loop_over_single_sentences(
    case: Case, backend: Backend, tagger: Tagger, weights: np.ndarray, lengths: np.ndarray
) -> None:
    singles, _ = single_gradients(tagger, case.mean, tuple(lengths))
    parts = [part for part in tagger.slices if part.stop > part.start]
    norms = np.array([[np.linalg.norm(g[part]) for g in singles] for part in parts])
    clip = float(np.median(norms) * np.sqrt(len(parts)))
    expected = np.zeros(tagger.size)
    for g in singles:
        for part in parts:
            expected[part] += g[part] * min(1.0, clip / np.sqrt(len(parts)) / max(1e-300, np.linalg.norm(g[part])))
    batch = in_precision(case, batch_with(lengths))
    found = backend.clipped_gradient(weights, batch, clip, by_layer=True)
    assert_layers_close(case, found.total, expected)
    own = [row for row, part in zip(found.parts, tagger.slices, strict=True) if part.stop > part.start]
    for row, exact in zip(own, norms, strict=True):
        assert_close(case, row, exact, least=1e-3 * float(norms.max()))
    for number in range(len(lengths)):
        one = batch.where(np.arange(len(lengths)) == number)
        alone = backend.clipped_gradient(weights, one, clip, by_layer=True)
        assert np.linalg.norm(alone.total.astype(np.float64)) <= clip * (1 + case.relative)


@pytest.mark.repeats(after=1)
@pytest.mark.parametrize("name", TAGGERS)
def test_tensorflow_in_float32_agrees_with_float64(name: str) -> None:
    tagger, batch = TAGGERS[name], batch_with(LENGTHS)
    weights, single = weights_of(tagger), replace(batch, words=batch.words.astype(np.float32))
    exact = np.sum(single_gradients(tagger, True, tuple(LENGTHS))[0], axis=0)
    found = TensorFlowBackend(tagger).clipped_gradient(weights.astype(np.float32), single, None)
    assert_layers_close(Case("tensorflow", name, True, np.float32), found.total, exact)


@pytest.mark.repeats(after=1)
@pytest.mark.parametrize("clip_norm", [None, 0.3])
@pytest.mark.parametrize("case", COMPILED, ids=str, indirect=True)
def test_gradient_without_dropout_is_equal_in_both_backends(
    case: Case, backend: Backend, clip_norm: float | None
) -> None:
    """Without dropout, words and spellings are computed once, and are combined in the layers that read both."""
    exact = replace(batch_with(LENGTHS), chances=None)
    expected = reference(case.name, case.mean).clipped_gradient(weights_of(case.tagger), exact, clip_norm)
    single = in_precision(case, exact)
    found = backend.clipped_gradient(weights_of(case.tagger).astype(case.precision), single, clip_norm)
    assert_layers_close(case, found.total, expected.total)
    assert_close(case, found.parts, expected.parts)
    assert_close(case, found.losses, expected.losses)


def test_norm_of_non_finite_sentence_is_nan(backend: Backend, weights: np.ndarray, batch: Batch) -> None:
    words, places = np.vstack([batch.words, np.full(DIMENSIONS, np.nan)]), batch.places.copy()
    places[batch.offsets[2]] = len(words) - 1
    found = backend.clipped_gradient(weights, replace(batch, words=words, places=places), 0.3)
    assert np.isnan(found.norms[2])
    assert np.isfinite(np.delete(found.norms, 2)).all()


def test_extreme_scores_neither_overflow_nor_underflow() -> None:
    tagger = TAGGERS["linear-crf"]
    weights = (300.0 * np.random.default_rng(4).standard_normal(tagger.size)).astype(np.float32)
    batch = in_precision(Case("compiled", "linear-crf", True, np.float32), batch_with(LENGTHS))
    exact = replace(batch, words=batch.words.astype(np.float64))
    found = CompiledBackend(tagger).clipped_gradient(weights, batch, 1.0)
    expected = reference("linear-crf", True).clipped_gradient(weights.astype(np.float64), exact, 1.0)
    assert np.isfinite(found.total).all()
    assert found.losses.max() > 500
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(found.total, expected.total, rtol=1e-4, atol=1e-5)


def test_missing_tensorflow_is_named(monkeypatch):
    """A small installation, such as the container image, has none."""
    monkeypatch.setattr(backends.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidConfig, match="EPSILON_BACKEND=tensorflow needs TensorFlow, which is not installed"):
        backends.backend_of.__wrapped__(TAGGERS["tddl"], "sum", "tensorflow")
