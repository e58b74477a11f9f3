"""The reference back end, for any tagger that TensorFlow can differentiate, with one backward pass per batch.

Every weight below the head is in an affine map z = a·W + b that is applied at each token. One backward pass gives dL/dz
of all maps. L is the sum of the sentences' losses, and a sentence affects only its own z, so the gradient of sentence i
is G_i = Σ_t a_t ⊗ dz_t over its tokens. It is never materialised. Its squared norm is

    ‖G_i‖² = Σ_{t,s} (a_t · a_s)(dz_t · dz_s),

the sum of an elementwise product of two Gram matrices ("ghost norm", Li et al. 2022, section 4). The clipped sum
Σ_i c_i G_i with c_i = min(1, C/‖G_i‖) is one more contraction of a with c_i·dz. The few weights of the head (a CRF's
transitions) are copied for each sentence instead, which gives their per-example gradients directly.
"""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

from engine.taggers import Tagger
from engine.taggers.layers import (
    CHARACTERS,
    CRF,
    DIRECTIONS,
    BidirectionalLSTM,
    CharacterPool,
    Dense,
    Dropout,
    Tanh,
    Window,
)
from engine.training.batches import Batch
from engine.training.dpsgd import GradientSum

Tensor = Any
"""A tf.Tensor; TensorFlow 2.15 has no type annotations."""


@dataclass(frozen=True)
class _Affine:
    """An affine map z = Σ a·W + b in a forward pass.

    T may count other positions of a sentence than its tokens, such as all its characters.

    Attributes:
        part: index of the tagger's part.
        kernels: name of each W with the input a [B, T, I] it is applied to.
        bias: name of b, None without a bias.
        outputs: z [B, T, O], or the part of it at which the derivative is taken.
    """

    part: int
    kernels: Mapping[str, Tensor]
    bias: str | None
    outputs: Tensor


class TensorFlowBackend:
    """Clipped gradients and scores of one tagger.

    Attributes:
        tagger: the tagger.
        mean: whether the loss of a sentence is the mean over its tokens, otherwise their sum.
        dtype: float32, or float64 for tests.
    """

    def __init__(self, tagger: Tagger, *, mean: bool = True, dtype: Any = np.float32) -> None:
        self.tagger, self.mean = tagger, mean
        self.dtype = tf.as_dtype(dtype)
        self._dropouts = [(n, layer) for n, layer in enumerate(tagger.layers) if isinstance(layer, Dropout)]
        """Dropout layers with their indices as parts of the tagger."""
        weights = tf.TensorSpec([tagger.size], self.dtype)
        vectors = tf.TensorSpec([None, None, tagger.dimensions], self.dtype)
        tags = tf.TensorSpec([None, None], tf.int32)
        characters = tf.TensorSpec([None, None, None], tf.int32)
        lengths = tf.TensorSpec([None], tf.int32)
        kept = tf.TensorSpec([None, None, sum(layer.size for _, layer in self._dropouts)], self.dtype)
        clip = tf.TensorSpec([], self.dtype)
        by_layer = tf.TensorSpec([], tf.bool)
        self._gradient: Callable[..., Any] = tf.function(
            self._gradient_graph, [weights, vectors, characters, tags, lengths, kept, clip, by_layer]
        )
        self._scores: Callable[..., Any] = tf.function(self._scores_graph, [weights, vectors, characters, lengths])

    def clipped_gradient(
        self, weights: np.ndarray, batch: Batch, clip_norm: float | None, by_layer: bool = False
    ) -> GradientSum:
        """Return the sum of the sentences' clipped gradients, see :class:`engine.training.dpsgd.Backend`.

        A sentence whose norm is not finite makes the total so too: see :func:`engine.training.dpsgd.finite_gradient`.

        Args:
            weights: float32 [size].
            batch: the sentences.
            clip_norm: C, None for no clipping.
            by_layer: whether each part of the tagger is clipped separately.
        """
        vectors, characters, tags = (batch.padded(values) for values in (batch.vectors, batch.spelt, batch.tags))
        bound = np.inf if clip_norm is None else clip_norm
        lengths = batch.lengths.astype(np.int32)
        each = [batch.kept(n, layer.size, layer.rate, self.dtype.as_numpy_dtype) for n, layer in self._dropouts]
        kept = batch.padded(np.concatenate([np.zeros((len(batch.tags), 0), self.dtype.as_numpy_dtype), *each], 1))
        total, parts, losses = self._gradient(weights, vectors, characters, tags, lengths, kept, bound, by_layer)
        return GradientSum(total.numpy(), parts.numpy(), losses.numpy())

    def scores(self, weights: np.ndarray, batch: Batch) -> np.ndarray:
        """Return the score of each tag at each token, from the layers below the head, [N, K]."""
        lengths = batch.lengths.astype(np.int32)
        vectors, characters = batch.padded(batch.vectors), batch.padded(batch.spelt)
        scores = self._scores(weights, vectors, characters, lengths).numpy()
        return np.asarray(scores[np.arange(scores.shape[1]) < batch.lengths[:, None]])

    def _gradient_graph(
        self,
        flat: Tensor,
        vectors: Tensor,
        characters: Tensor,
        tags: Tensor,
        lengths: Tensor,
        kept: Tensor,
        clip_norm: Tensor,
        by_layer: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        weights = self._weights(flat)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            scores, affines = self._forward(weights, vectors, characters, lengths, tape, kept)
            # A copy of the head's weights for each sentence: the derivative by the copy is that sentence's gradient.
            copies = {name: tf.repeat(weight[None], tf.shape(tags)[0], 0) for name, weight in weights[-1].items()}
            tape.watch(list(copies.values()))
            losses = self._losses(scores, copies, tags, lengths)
        slopes, own = tape.gradient(losses, ([affine.outputs for affine in affines], copies))
        squares = [tf.zeros_like(losses) for _ in weights]
        for affine, slope in zip(affines, slopes, strict=True):
            squares[affine.part] += _ghost_square(affine, slope)
        for gradient in own.values():
            squares[-1] += tf.reduce_sum(gradient * gradient, [1, 2])
        parts = tf.sqrt(tf.stack(squares))  # [P, B]
        whole = tf.sqrt(tf.add_n(squares))
        # Without clipping the bound is ∞ and every factor is 1; a norm of 0 gives ∞, cut to 1.
        own_bound = clip_norm / tf.constant(math.sqrt(self.tagger.weighty), self.dtype)
        ratios = tf.where(by_layer, own_bound / parts, clip_norm / whole)
        factors = tf.minimum(tf.constant(1, self.dtype), ratios)
        total: list[dict[str, Tensor]] = [{} for _ in weights]
        for affine, slope in zip(affines, slopes, strict=True):
            total[affine.part] |= _contract(affine, slope * factors[affine.part][:, None, None])
        total[-1] = {name: tf.einsum("b,bij->ij", factors[-1], gradient) for name, gradient in own.items()}
        order = sorted(range(len(weights)), key=lambda part: self.tagger.slices[part].start)
        pieces = [tf.reshape(total[part][name], [-1]) for part in order for name in weights[part]]
        return tf.concat(pieces, 0), parts, losses

    def _scores_graph(self, flat: Tensor, vectors: Tensor, characters: Tensor, lengths: Tensor) -> Tensor:
        return self._forward(self._weights(flat), vectors, characters, lengths, None)[0]

    def _weights(self, flat: Tensor) -> list[dict[str, Tensor]]:
        """Return the weights of each part of the tagger by name, in the order of the flat vector."""
        weights = []
        for part, stretch in zip(self.tagger.parts, self.tagger.slices, strict=True):
            sizes = [math.prod(shape) for shape in part.shapes.values()]
            pieces = tf.split(flat[stretch], sizes) if sizes else []
            weights.append(
                {name: tf.reshape(piece, part.shapes[name]) for name, piece in zip(part.shapes, pieces, strict=True)}
            )
        return weights

    def _forward(
        self,
        weights: list[dict[str, Tensor]],
        vectors: Tensor,
        characters: Tensor,
        lengths: Tensor,
        tape: tf.GradientTape | None,
        kept: Tensor | None = None,
    ) -> tuple[Tensor, list[_Affine]]:
        """Return scores [B, T, K] and all affine maps, with outputs watched by ``tape``.

        Args:
            weights: weights of each part by name.
            vectors: features, [B, T, D].
            characters: characters of each token, [B, T, L].
            lengths: sentence lengths, [B].
            tape: gradient tape, None in prediction.
            kept: concatenated factors of all dropout layers, [B, T, …]; None in prediction.
        """
        values: dict[str, Tensor] = {}
        affines: list[_Affine] = []
        for number, node in enumerate(self.tagger.nodes):
            if node.reads == (CHARACTERS,):
                read = characters
            else:
                inputs = [values[n] if n in values else vectors[:, :, self.tagger.columns(n)] for n in node.reads]
                read = inputs[0] if len(inputs) == 1 else tf.concat(inputs, -1)
            if isinstance(node.layer, Dropout):
                values[node.name] = read
                if kept is not None:
                    factors, kept = tf.split(kept, [node.layer.size, -1], -1)
                    values[node.name] = read * factors
                continue
            outputs, own = _LAYERS[type(node.layer)](number, node.layer, weights[number], read, lengths, tape)
            values[node.name] = outputs
            affines += own
        return values[self.tagger.nodes[-1].name], affines

    def _losses(self, scores: Tensor, weights: dict[str, Tensor], tags: Tensor, lengths: Tensor) -> Tensor:
        """Return the loss of each sentence, [B].

        Args:
            scores: [B, T, K].
            weights: weights of the head, a copy for each sentence.
            tags: true tags, [B, T].
            lengths: sentence lengths, [B].
        """
        if isinstance(self.tagger.head, CRF):
            losses = chain_losses(scores, weights["transitions"], tags, lengths)
        else:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(tags, scores)  # [B, T]
            losses = tf.reduce_sum(each * tf.sequence_mask(lengths, tf.shape(tags)[1], each.dtype), 1)
        return losses / tf.cast(lengths, losses.dtype) if self.mean else losses


_Given = tuple[Tensor, list[_Affine]]
"""Output of a layer, [B, T, O], with its affine maps."""


def _bidirectional_lstm(
    part: int, shape: BidirectionalLSTM, weights: dict[str, Tensor], inputs: Tensor, lengths: Tensor, tape: Any
) -> _Given:
    # The backward direction reads each sentence from its last token; padding is at the end in both directions.
    read = [inputs, tf.reverse_sequence(inputs, lengths, seq_axis=1)]
    gates = [_project(read[d], weights[f"{name}/kernel"], weights[f"{name}/bias"]) for d, name in enumerate(DIRECTIONS)]
    if tape:
        # The recurrence adds to the same values later, so this derivative is that of the whole z.
        tape.watch(gates)
    recurrents = tf.stack([weights[f"{name}/recurrent"] for name in DIRECTIONS])
    hidden = _lstm(tf.stack(gates), recurrents, shape.size)
    previous = tf.pad(hidden[:, :, :-1], [[0, 0], [0, 0], [1, 0], [0, 0]])  # h before each token, 0 at the first
    outputs = tf.concat([hidden[0], tf.reverse_sequence(hidden[1], lengths, seq_axis=1)], -1)  # [B, T, 2H]
    return outputs, [
        _Affine(part, {f"{name}/kernel": read[d], f"{name}/recurrent": previous[d]}, f"{name}/bias", gates[d])
        for d, name in enumerate(DIRECTIONS)
    ]


def _dense(part: int, shape: Dense, weights: dict[str, Tensor], inputs: Tensor, lengths: Tensor, tape: Any) -> _Given:
    outputs = _project(inputs, weights["kernel"], weights["bias"])
    if tape:
        tape.watch(outputs)
    return outputs, [_Affine(part, {"kernel": inputs}, "bias", outputs)]


def _tanh(part: int, shape: Tanh, weights: dict[str, Tensor], inputs: Tensor, lengths: Tensor, tape: Any) -> _Given:
    return tf.tanh(inputs), []


def _window(part: int, shape: Window, weights: dict[str, Tensor], inputs: Tensor, lengths: Tensor, tape: Any) -> _Given:
    real = tf.sequence_mask(lengths, tf.shape(inputs)[1], inputs.dtype)[:, :, None]
    return tf.concat([inputs, *_neighbours(inputs[:, :, : shape.copied] * real, shape.reach)], -1), []


def _neighbours(values: Tensor, reach: int) -> list[Tensor]:
    """Return the neighbours of values [B, T, I], the nearest first and left before right, with zeros at the ends."""
    wide, steps = tf.pad(values, [[0, 0], [reach, reach], [0, 0]]), tf.shape(values)[1]
    return [wide[:, reach + step : reach + step + steps] for near in range(1, reach + 1) for step in (-near, near)]


def _character_pool(
    part: int, shape: CharacterPool, weights: dict[str, Tensor], inputs: Tensor, lengths: Tensor, tape: Any
) -> _Given:
    """Compute a character CNN with max-pooling.

    A sentence has T·L character positions, and its gradient is the sum over them.

    Args:
        part: index of the tagger's part.
        shape: the layer.
        weights: its weights by name.
        inputs: character indices, int32 [B, T, L].
        lengths: sentence lengths, [B].
        tape: gradient tape, None in prediction.
    """
    sentences, tokens, letters = (tf.shape(inputs)[axis] for axis in range(3))
    dtype, words = weights["embedding"].dtype, tf.reshape(inputs, [-1, letters])  # [B·T, L]
    real = tf.cast(words > 0, dtype)[:, :, None]
    ones = tf.one_hot(words, shape.characters, dtype=dtype) * real  # [B·T, L, C]
    width = (2 * shape.reach + 1) * shape.size

    def of_a_sentence(values: Tensor, each: int) -> Tensor:
        return tf.ensure_shape(tf.reshape(values, [sentences, tokens * letters, each]), [None, None, each])

    one_hot = of_a_sentence(ones, shape.characters)
    embedded = tf.tensordot(one_hot, weights["embedding"], 1)  # [B, T·L, E]
    if tape:
        tape.watch(embedded)
    rows = tf.reshape(embedded, [-1, letters, shape.size])
    wide = of_a_sentence(tf.concat([rows, *_neighbours(rows, shape.reach)], -1), width)
    convolved = _project(wide, weights["kernel"], weights["bias"])  # [B, T·L, O]
    if tape:
        tape.watch(convolved)
    values = tf.reshape(tf.tanh(convolved), [-1, letters, shape.outputs])
    largest = tf.reduce_max(tf.where(real > 0, values, tf.constant(-2, dtype)), 1)
    pooled = tf.where(tf.reduce_any(words > 0, 1)[:, None], largest, tf.zeros_like(largest))  # a word without letters
    return tf.reshape(pooled, [sentences, tokens, shape.outputs]), [
        _Affine(part, {"embedding": one_hot}, None, embedded),
        _Affine(part, {"kernel": wide}, "bias", convolved),
    ]


_LAYERS: dict[type, Callable[..., _Given]] = {
    BidirectionalLSTM: _bidirectional_lstm,
    CharacterPool: _character_pool,
    Dense: _dense,
    Tanh: _tanh,
    Window: _window,
}


def _project(inputs: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """Return inputs [B, T, I] · kernel [I, O] + bias [O], [B, T, O]."""
    return tf.tensordot(inputs, kernel, 1) + bias


def _lstm(gates: Tensor, recurrent: Tensor, size: int) -> Tensor:
    """Return the hidden states of both directions, [2, B, T, H].

    Args:
        gates: contribution of the inputs, [2, B, T, 4H].
        recurrent: recurrent weights, [2, H, 4H].
        size: H.
    """
    steps = tf.shape(gates)[2]
    by_time = tf.TensorArray(gates.dtype, steps).unstack(tf.transpose(gates, [2, 0, 1, 3]))
    zero = tf.zeros_like(gates[:, :, 0, :size])

    def advance(t: Tensor, h: Tensor, c: Tensor, out: tf.TensorArray) -> tuple[Tensor, Tensor, Tensor, tf.TensorArray]:
        z = by_time.read(t) + tf.matmul(h, recurrent)  # [2, B, 4H]
        i, f, g, o = tf.split(z, 4, -1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        h = tf.sigmoid(o) * tf.tanh(c)
        return t + 1, h, c, out.write(t, h)

    out = tf.TensorArray(gates.dtype, steps, element_shape=zero.shape)
    *_, out = tf.while_loop(lambda t, *_: t < steps, advance, (0, zero, zero, out))
    return tf.transpose(out.stack(), [1, 2, 0, 3])


def chain_losses(scores: Tensor, transitions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
    """Return the negative log-likelihood of a linear-chain CRF by the forward algorithm, [B].

    Args:
        scores: [B, T, K].
        transitions: a copy for each sentence, [B, K, K].
        tags: true tags, [B, T].
        lengths: sentence lengths, [B].
    """
    steps = tf.shape(tags)[1]

    def advance(t: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        longer = tf.reduce_logsumexp(alpha[:, :, None] + transitions, 1) + scores[:, t]
        return t + 1, tf.where((t < lengths)[:, None], longer, alpha)

    _, alpha = tf.while_loop(lambda t, _: t < steps, advance, (1, scores[:, 0]))
    real = tf.sequence_mask(lengths, steps, scores.dtype)
    own = tf.reduce_sum(tf.gather(scores, tags, axis=2, batch_dims=2) * real, 1)
    pairs = tf.gather_nd(transitions, tf.stack([tags[:, :-1], tags[:, 1:]], -1), batch_dims=1)  # [B, T − 1]
    return tf.reduce_logsumexp(alpha, 1) - own - tf.reduce_sum(pairs * real[:, 1:], 1)


def _ghost_square(affine: _Affine, slopes: Tensor) -> Tensor:
    """Return the squared norm of each sentence's gradient in one affine map, [B]; the bias has the constant input 1."""
    inputs = tf.add_n([tf.matmul(a, a, transpose_b=True) for a in affine.kernels.values()])  # [B, T, T]
    ones = 0 if affine.bias is None else 1
    return tf.reduce_sum((inputs + ones) * tf.matmul(slopes, slopes, transpose_b=True), [1, 2])


def _contract(affine: _Affine, slopes: Tensor) -> dict[str, Tensor]:
    """Return Σ a ⊗ dz over sentences and tokens, for each weight of the map."""
    flat = tf.reshape(slopes, [-1, slopes.shape[-1]])
    total = {
        name: tf.matmul(tf.reshape(a, [-1, a.shape[-1]]), flat, transpose_a=True) for name, a in affine.kernels.items()
    }
    return total if affine.bias is None else total | {affine.bias: tf.reduce_sum(flat, 0)}
