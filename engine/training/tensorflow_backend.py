"""The reference back end: any tagger that TensorFlow can differentiate, one backward pass a batch.

Every weight of a tagger sits in an affine map z = a·W + b that is applied at each token. One backward pass gives
dL/dz at all of them; L is the sum of the sentences' losses and a sentence touches only its own z, so the gradient of
sentence i is G_i = Σ_t a_t ⊗ dz_t over its tokens. It is never formed. Its squared norm is

    ‖G_i‖² = Σ_{t,s} (a_t · a_s)(dz_t · dz_s),

the sum of an elementwise product of two Gram matrices ("ghost norm", Li et al. 2022, section 4), and the clipped sum
Σ_i c_i G_i with c_i = min(1, C/‖G_i‖) is one more contraction of a with c_i·dz.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

from engine.taggers import BiLSTM
from engine.taggers.bilstm import DIRECTIONS
from engine.training.batches import Batch
from engine.training.dpsgd import GradientSum

Tensor = Any
"""A tf.Tensor; TensorFlow 2.15 ships no types."""


@dataclass(frozen=True)
class _Affine:
    """One affine map z = Σ a·W + b seen in a forward pass.

    kernels: name of each W and the a [B, T, I] it is applied to. bias: name of b. outputs: z [B, T, O], or the part of
    it that the derivative is taken at.
    """

    kernels: Mapping[str, Tensor]
    bias: str
    outputs: Tensor


class TensorFlowBackend:
    """Clipped gradients and predictions of one tagger. ``dtype`` is float32, or float64 for tests."""

    def __init__(self, tagger: BiLSTM, dtype: Any = np.float32) -> None:
        self.tagger = tagger
        self.dtype = tf.as_dtype(dtype)
        weights = tf.TensorSpec([tagger.layout.size], self.dtype)
        vectors = tf.TensorSpec([None, None, tagger.dimensions], self.dtype)
        tags = tf.TensorSpec([None, None], tf.int32)
        lengths = tf.TensorSpec([None], tf.int32)
        clip = tf.TensorSpec([], self.dtype)
        self._gradient: Callable[..., Any] = tf.function(self._gradient_graph, [weights, vectors, tags, lengths, clip])
        self._logits: Callable[..., Any] = tf.function(self._logits_graph, [weights, vectors, lengths])

    def clipped_gradient(self, weights: np.ndarray, batch: Batch, clip_norm: float | None) -> GradientSum:
        """Sum over the batch of each sentence's gradient, scaled down to L2 norm ``clip_norm`` where it is longer.

        weights: [layout.size]. A sentence whose norm is not finite makes the total so too: see
        :func:`engine.training.dpsgd.finite_gradient`.
        """
        total, norms, losses = self._gradient(
            weights, batch.vectors, batch.tags, batch.lengths, np.inf if clip_norm is None else clip_norm
        )
        return GradientSum(total.numpy(), norms.numpy(), losses.numpy())

    def predict(self, weights: np.ndarray, batch: Batch) -> np.ndarray:
        """The likeliest tag at each place, int [B, T]; padded places mean nothing."""
        return np.asarray(self._logits(weights, batch.vectors, batch.lengths).numpy().argmax(-1))

    def _gradient_graph(
        self, flat: Tensor, vectors: Tensor, tags: Tensor, lengths: Tensor, clip_norm: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            logits, affines = self._forward(flat, vectors, lengths, tape)
            losses = _mean_loss(logits, tags, lengths)
        slopes = tape.gradient(losses, [affine.outputs for affine in affines])
        squares = tf.add_n([_ghost_square(a, dz) for a, dz in zip(affines, slopes, strict=True)])
        norms = tf.sqrt(squares)
        # Without clipping the bound is ∞ and every factor is 1; a norm of 0 gives ∞, cut to 1.
        factors = tf.minimum(tf.constant(1, self.dtype), clip_norm / norms)
        total: dict[str, Tensor] = {}
        for affine, slope in zip(affines, slopes, strict=True):
            total |= _contract(affine, slope * factors[:, None, None])
        return tf.concat([tf.reshape(total[name], [-1]) for name in self.tagger.layout.shapes], 0), norms, losses

    def _logits_graph(self, flat: Tensor, vectors: Tensor, lengths: Tensor) -> Tensor:
        return self._forward(flat, vectors, lengths, None)[0]

    def _forward(
        self, flat: Tensor, vectors: Tensor, lengths: Tensor, tape: tf.GradientTape | None
    ) -> tuple[Tensor, list[_Affine]]:
        """Logits [B, T, K] and the affine maps on the way, their outputs watched by ``tape``."""
        layout, size = self.tagger.layout, self.tagger.hidden_size
        weights = {name: tf.reshape(flat[part], layout.shapes[name]) for name, part in layout.slices.items()}
        # The backward direction reads each sentence from its last real token; padding stays at the end in both.
        inputs = [vectors, tf.reverse_sequence(vectors, lengths, seq_axis=1)]
        gates = [
            _project(inputs[d], weights[f"{name}/kernel"], weights[f"{name}/bias"]) for d, name in enumerate(DIRECTIONS)
        ]
        if tape:
            # What the recurrence adds later is added to the same place, so this derivative is that of the whole z.
            tape.watch(gates)
        hidden = _lstm(tf.stack(gates), tf.stack([weights[f"{name}/recurrent"] for name in DIRECTIONS]), size)
        previous = tf.pad(hidden[:, :, :-1], [[0, 0], [0, 0], [1, 0], [0, 0]])  # h before each token, 0 at the first
        features = tf.concat([hidden[0], tf.reverse_sequence(hidden[1], lengths, seq_axis=1)], -1)  # [B, T, 2H]
        logits = _project(features, weights["dense/kernel"], weights["dense/bias"])
        if tape:
            tape.watch(logits)
        affines = [
            _Affine({f"{name}/kernel": inputs[d], f"{name}/recurrent": previous[d]}, f"{name}/bias", gates[d])
            for d, name in enumerate(DIRECTIONS)
        ]
        return logits, [*affines, _Affine({"dense/kernel": features}, "dense/bias", logits)]


def _project(inputs: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """[B, T, I] · [I, O] + [O] → [B, T, O]."""
    return tf.tensordot(inputs, kernel, 1) + bias


def _lstm(gates: Tensor, recurrent: Tensor, size: int) -> Tensor:
    """Both directions side by side: what the inputs give [2, B, T, 4H], recurrent [2, H, 4H] → h [2, B, T, H]."""
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


def _mean_loss(logits: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
    """Mean cross-entropy over the real tokens of each sentence, [B]."""
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(tags, logits)  # [B, T]
    real = tf.sequence_mask(lengths, tf.shape(tags)[1], each.dtype)
    return tf.reduce_sum(each * real, 1) / tf.cast(lengths, each.dtype)


def _ghost_square(affine: _Affine, slopes: Tensor) -> Tensor:
    """Squared norm of each sentence's gradient in one affine map, [B]; the bias is an input that is always 1."""
    inputs = tf.add_n([tf.matmul(a, a, transpose_b=True) for a in affine.kernels.values()])  # [B, T, T]
    return tf.reduce_sum((inputs + 1) * tf.matmul(slopes, slopes, transpose_b=True), [1, 2])


def _contract(affine: _Affine, slopes: Tensor) -> dict[str, Tensor]:
    """Σ over sentences and tokens of a ⊗ dz for each weight of the map."""
    flat = tf.reshape(slopes, [-1, slopes.shape[-1]])
    total = {
        name: tf.matmul(tf.reshape(a, [-1, a.shape[-1]]), flat, transpose_a=True) for name, a in affine.kernels.items()
    }
    return total | {affine.bias: tf.reduce_sum(flat, 0)}
