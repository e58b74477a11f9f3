"""Cross-check of a run's first steps with TensorFlow Privacy, an independent and slower implementation.

The tagger is built from Keras layers with the same weights; ``DPKerasSGDOptimizer`` gets each sentence as a microbatch.
Without noise its update must equal our clipped mean; with noise it must have the same standard deviation. It divides by
the realised batch size, so our sum is divided by that size too before the comparison.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from engine.config import SimulationConfig
from engine.errors import InvalidConfig
from engine.experiments.papers.jana_biemann_2021 import TAGGERS
from engine.settings import Settings
from engine.simulation.setup import prepare
from engine.taggers import Tagger
from engine.taggers.layers import BidirectionalLSTM, Dense
from engine.training.backends import require_tensorflow
from engine.training.batches import Batch, batch_of

AGREEMENT = 1e-4
"""Largest relative difference of two clipped means that float32 rounding can explain."""
SPREAD = 5.0
"""Tolerance of the measured standard deviation of the noise, in sampling errors."""


@dataclass(frozen=True)
class Opinion:
    """Comparison of one step.

    Attributes:
        step: number of the step.
        sentences: number of sentences in the batch.
        difference: ‖ours − theirs‖ / ‖theirs‖ of the clipped means without noise.
        our_noise: standard deviation of our noise on the clipped sum.
        their_noise: that of TensorFlow Privacy.
        planned: σ·C.
        tolerance: largest deviation from ``planned`` by sampling error.
        ours_ms: milliseconds of our private step.
        theirs_ms: milliseconds of TensorFlow Privacy's.
    """

    step: int
    sentences: int
    difference: float
    our_noise: float
    their_noise: float
    planned: float
    tolerance: float
    ours_ms: float
    theirs_ms: float

    @property
    def agrees(self) -> bool:
        """Whether both implementations agree."""
        spreads = (self.our_noise, self.their_noise)
        return self.difference <= AGREEMENT and all(abs(s - self.planned) <= self.tolerance for s in spreads)


def second_opinions(config: SimulationConfig, settings: Settings, steps: int) -> Iterator[Opinion]:
    """Compare the first steps of a private run; with several clients, those of the first client.

    Args:
        config: the configuration of the run.
        settings: where corpora and vectors are.
        steps: number of steps.

    Raises:
        InvalidConfig: for a run without noise, for a mechanism that TensorFlow Privacy's optimiser lacks, and if
            TensorFlow is not installed. Also raises the errors of :func:`engine.simulation.run.simulate`.
    """
    require_tensorflow("The cross-check")
    if not config.privacy.private or config.privacy.clip_norm is None:
        raise InvalidConfig("noise_multiplier=0, expected a private run: TensorFlow Privacy supports no others")
    if config.tagger.name not in TAGGERS:
        raise InvalidConfig(f"tagger={config.tagger.name!r}, expected one of {', '.join(TAGGERS)} for the cross-check")
    if config.privacy.clipping != "joint" or config.privacy.kind.client_level:
        raise InvalidConfig(
            f"clipping={config.privacy.clipping!r}, mechanism={config.privacy.mechanism!r}, expected joint clipping of "
            "each sentence's gradient: TensorFlow Privacy's optimiser supports no other mechanism"
        )
    if steps < 1:
        raise InvalidConfig(f"steps={steps}, expected at least 1")
    # Sizes of samples and the measured noise are printed, so keys of the system would protect nothing here.
    prepared = prepare(replace(config, privacy=replace(config.privacy, noise_source="seeded")), settings)
    tagger, run = prepared.sides[0].tagger, prepared.run
    learner = run.learner(run.plan.rounds[0][0])
    theirs = TensorFlowPrivacy(tagger, mean=config.training.loss == "mean")
    everywhere, plan = (slice(0, tagger.size), np.zeros(0, dtype=np.int64)), learner.plan
    clip, sigma = config.privacy.clip_norm, config.privacy.noise_multiplier
    for step in range(min(steps, plan.steps)):
        sentences = learner.sample(step)
        if not len(sentences):
            learner.step(step)
            continue
        batch, weights = batch_of(learner.split, learner.table, sentences), learner.weights.copy()
        mean = theirs.update(weights, batch, clip, 0.0)
        total, _ = learner.clipped_sum(sentences)
        difference = np.linalg.norm(total / len(sentences) - mean) / np.linalg.norm(mean)
        begun = time.perf_counter()
        noisy = theirs.update(weights, batch, clip, sigma)
        theirs_ms = 1000 * (time.perf_counter() - begun)
        before, begun = learner.optimiser.look(learner.weights, *everywhere), time.perf_counter()
        learner.step(step)
        ours_ms = 1000 * (time.perf_counter() - begun)
        after = learner.optimiser.look(learner.weights, *everywhere)
        noise = learner.optimiser.gradient_between(before, after, step)[0] * plan.batch_size - total
        yield Opinion(
            step=step,
            sentences=len(sentences),
            difference=float(difference),
            our_noise=float(noise.std()),
            their_noise=float(((noisy - mean) * len(sentences)).std()),
            planned=plan.noise_std,
            tolerance=plan.noise_std * SPREAD / math.sqrt(2 * tagger.size),
            ours_ms=ours_ms,
            theirs_ms=theirs_ms,
        )


@lru_cache
def _tape() -> type:
    """Return a gradient tape that computes Jacobians row by row.

    By default TensorFlow would build one graph of all rows for each step, which takes ten times as long as the step.
    """
    import tensorflow as tf

    class RowByRow(tf.GradientTape):
        """The tape that TensorFlow Privacy uses for each sentence's gradient."""

        def jacobian(self, *asked: Any, **more: Any) -> Any:
            """Return the Jacobian."""
            return super().jacobian(*asked, **more, experimental_use_pfor=False)

    return RowByRow


class TensorFlowPrivacy:
    """The same tagger, trained by TensorFlow Privacy."""

    def __init__(self, tagger: Tagger, *, mean: bool) -> None:
        import tensorflow as tf

        from engine.experiments.tf_privacy import keras

        layers, inputs = keras.layers, keras.Input((None, tagger.dimensions))
        mask = keras.Input((None,), dtype="bool")
        hidden = inputs
        for layer in tagger.layers:
            if isinstance(layer, BidirectionalLSTM):
                hidden = layers.Bidirectional(layers.LSTM(layer.size, return_sequences=True))(hidden, mask=mask)
            elif isinstance(layer, Dense):
                hidden = layers.Dense(layer.outputs)(hidden)
        self._tagger, self._mean = tagger, mean
        self._model = keras.Model([inputs, mask], hidden)
        self._head = [tf.Variable(np.zeros(shape, dtype=np.float32)) for shape in tagger.head.shapes.values()]

    def update(self, weights: np.ndarray, batch: Batch, clip_norm: float, noise_multiplier: float) -> np.ndarray:
        """Return the clipped mean with noise, which one step subtracts from the weights at learning rate 1.

        Args:
            weights: float32 [size].
            batch: the sentences.
            clip_norm: C.
            noise_multiplier: σ.

        Returns:
            float32 [size].
        """
        import tensorflow as tf

        from engine.experiments.tf_privacy import DPKerasSGDOptimizer

        *below, head = self._tagger.views(weights)
        self._model.set_weights([view for views in below for view in views.values()])
        for variable, view in zip(self._head, head.values(), strict=True):
            variable.assign(view)
        lengths = batch.lengths.astype(np.int32)
        mask = np.arange(lengths[0]) < lengths[:, None]
        vectors, tags = tf.constant(batch.padded(batch.vectors)), tf.constant(batch.padded(batch.tags))
        optimiser = DPKerasSGDOptimizer(
            l2_norm_clip=clip_norm,
            noise_multiplier=noise_multiplier,
            num_microbatches=len(lengths),
            learning_rate=1.0,
        )
        variables = [*self._model.trainable_weights, *self._head]
        with _tape()(persistent=True) as tape:
            losses = self._losses(self._model([vectors, tf.constant(mask)]), tags, tf.constant(lengths))
        optimiser.minimize(losses, variables, tape=tape)
        after = np.concatenate([variable.numpy().ravel() for variable in variables])
        return np.asarray(weights - after)

    def _losses(self, scores: Any, tags: Any, lengths: Any) -> Any:
        import tensorflow as tf

        from engine.training.tensorflow_backend import chain_losses

        if self._head:
            transitions = tf.repeat(self._head[0][None], tf.shape(tags)[0], 0)
            losses = chain_losses(scores, transitions, tags, lengths)
        else:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(tags, scores)
            losses = tf.reduce_sum(each * tf.sequence_mask(lengths, tf.shape(tags)[1], each.dtype), 1)
        return losses / tf.cast(lengths, losses.dtype) if self._mean else losses
