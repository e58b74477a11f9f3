"""DP-SGD (Abadi et al. 2016, algorithm 1): sample, clip each sentence's gradient, add noise once to the sum, divide.

The sum is divided by the *expected* batch size, since the realised one is private. Without noise and clipping the same
code is ordinary SGD. Sampling, noise and optimiser are the same for every back end.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from engine.embeddings import EncodedSplit
from engine.embeddings.encoding import token_positions
from engine.errors import TrainingFailed
from engine.privacy.mechanisms import add_gaussian_noise, poisson_sample, shuffled_batch
from engine.privacy.noise_check.kernels import differs, picked, to_noise
from engine.privacy.noise_check.monitor import NoiseMonitor
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets, Seeds
from engine.taggers.decoding import Decoder
from engine.training.batches import Batch, batches_of_few, physical_batches, prediction_batches
from engine.training.optimisers import Optimiser


@dataclass(frozen=True)
class GradientSum:
    """The contribution of one batch.

    Attributes:
        total: Σ_i c_i·G_i, [size].
        parts: ‖G_i‖ before clipping within each part of the tagger, [P, B].
        losses: loss of each sentence, [B].
    """

    total: np.ndarray
    parts: np.ndarray
    losses: np.ndarray

    @property
    def norms(self) -> np.ndarray:
        """The norms ‖G_i‖ before clipping, [B]."""
        return np.asarray(np.sqrt((self.parts**2).sum(0)))


Cut = Callable[[EncodedSplit, np.ndarray, np.ndarray, int | None], Iterator[Batch]]
"""A function that divides sentences into physical batches."""


class Backend(Protocol):
    """The interface of a back end, whatever library it uses."""

    def clipped_gradient(
        self, weights: np.ndarray, batch: Batch, clip_norm: float | None, by_layer: bool = False
    ) -> GradientSum:
        """Return the sum over the batch of each sentence's gradient, clipped to L2 norm ``clip_norm``.

        Args:
            weights: float32 [size].
            batch: the sentences.
            clip_norm: C, None for no clipping.
            by_layer: whether each part of the tagger with weights is clipped separately, to ``clip_norm`` ÷ √(number of
                such parts), so that the norm of the whole gradient is at most ``clip_norm``.
        """
        ...

    def scores(self, weights: np.ndarray, batch: Batch) -> np.ndarray:
        """Return the score of each tag at each token, from the layers below the head, [N, K]."""
        ...


@dataclass(frozen=True)
class StepStatistics:
    """Statistics of one step.

    Attributes:
        norms: gradient norms of the sampled sentences before clipping, [b].
        parts: the same within each part of the tagger, [P, b], see :class:`GradientSum`.
        losses: losses of the sampled sentences, [b].
        nonfinite: number of excluded sentences, whose gradient was not finite.
        signal: L2 norm of the clipped sum, for comparison with the noise.
    """

    norms: np.ndarray
    parts: np.ndarray
    losses: np.ndarray
    nonfinite: int
    signal: float


class DPSGD:
    """Training of one tagger on one shard, step by step; :meth:`step` changes ``weights`` [size] in place.

    Attributes:
        streams: random streams of this shard.
        monitor: noise check of the run.
        part: index of this plan in the monitor.
        first: number of the first step that this optimiser takes.

    Raises:
        TypeError: if the noise would come from streams that depend on the seed only.
    """

    def __init__(
        self,
        backend: Backend,
        plan: PrivacyPlan,
        optimiser: Optimiser,
        streams: Secrets | Seeds,
        split: EncodedSplit,
        table: np.ndarray,
        weights: np.ndarray,
        *,
        monitor: NoiseMonitor | None = None,
        part: int = 0,
        first: int = 0,
    ) -> None:
        if plan.private and not isinstance(streams, Secrets):
            raise TypeError("streams of a seed are shared between runs; a private plan needs Secrets")
        self.backend, self.plan, self.optimiser, self.streams = backend, plan, optimiser, streams
        self.split, self.table, self.weights = split, table, weights
        self.part, self.first = part, first
        self.monitor = monitor
        self._left: tuple[slice, int, dict[str, np.ndarray]] | None = None
        """State after the last update: the copied range, the number of leading weights set elsewhere, and the copy."""
        self._chance: int | None = None
        """Random state of dropout at the present step."""
        if plan.private and monitor is None:
            self.monitor = NoiseMonitor([plan], weights.size)

    def step(self, step: int) -> StepStatistics:
        """Take a training step.

        Args:
            step: number of the step on this shard, from 0.

        Raises:
            TrainingFailed: if a weight is no longer finite.
        """
        self._chance = int(self.streams.stream("dropout", step=step).random(1)[0] * 2**53)
        sentences = self.sample(step)
        total, statistics = self.clipped_sum(sentences)
        if self.monitor:
            self._measured(self.monitor, step, sentences, total)
        else:
            self._update(total, step)
        if not np.isfinite(self.weights).all():
            raise TrainingFailed(
                f"The weights are no longer finite after step {step + 1} of {self.plan.steps}; "
                f"try a learning rate below {self.optimiser.config.learning_rate:g} or less noise"
            )
        return statistics

    def _update(self, total: np.ndarray, step: int) -> None:
        """Update the weights by a clipped sum, which is overwritten."""
        if self.plan.private:
            self.add_noise(total, step)
        total /= np.float32(self.plan.batch_size)
        self.optimiser.move(self.weights, total, step - self.first)

    def add_noise(self, total: np.ndarray, step: int) -> None:
        """Add the noise of step number ``step`` to a clipped sum [size], in place."""
        add_gaussian_noise(total, cast(Secrets, self.streams).stream("noise", step=step), self.plan.noise_std)

    def _measured(self, monitor: NoiseMonitor, step: int, sentences: np.ndarray, total: np.ndarray) -> None:
        """Update the weights and let the noise check measure the update.

        Args:
            monitor: the noise check.
            step: number of the step.
            sentences: the sampled sentences.
            total: the clipped sum, which is overwritten.
        """
        number = monitor.steps_seen
        monitor.saw_settings(number, self.plan, self.optimiser.config, self.part)
        if monitor.watch.looks_closely(number):
            self._look_closely(monitor, number, sentences, total)
        where, fixed = monitor.watch.stretch(number), monitor.watch.fixed
        if self._left and self._touched(*self._left, fixed):
            monitor.saw_touched(number)
        clipped = picked(total, where.start, where.stop, fixed).astype(np.float64)
        before = self.optimiser.look(self.weights, where, fixed)
        self._update(total, step)
        after = self.optimiser.look(self.weights, where, fixed)
        self._left = where, self.optimiser.first, after

        streams = cast(Secrets, self.streams)

        def measure() -> None:
            gradient, error = self.optimiser.gradient_between(before, after, step - self.first)
            to_noise(gradient, error, clipped, self.plan.batch_size)
            monitor.saw_noise(number, gradient, error, [clipped], streams.stream("noise", step=step).key)
            monitor.saw_sample(sentences, self.part, streams.stream("sampling", step=step).key)

        monitor.later(measure)

    def _touched(self, where: slice, first: int, left: dict[str, np.ndarray], fixed: np.ndarray) -> bool:
        """Return whether weights or moments changed outside an update.

        Args:
            where: the copied range.
            first: number of leading weights that others set.
            left: copy after the last update.
            fixed: indices of further copied weights.
        """
        now = {"weights": self.weights, **self.optimiser.state}
        return any(differs(now[name], left[name], where.start, where.stop, fixed, first) for name in now)

    def _look_closely(self, monitor: NoiseMonitor, number: int, sentences: np.ndarray, total: np.ndarray) -> None:
        """Recompute the sum of the step from groups of its sentences and from single sentences.

        Args:
            monitor: the noise check.
            number: number of the measured step.
            sentences: the sampled sentences.
            total: the clipped sum of the step.
        """
        groups = monitor.watch.groups(number, sentences)
        measured = [self.clipped_sum(np.array([sentence])) for sentence in (groups[0] if groups else ())]
        alone = [gradient for gradient, _ in measured]
        norms = np.array([np.linalg.norm(gradient.astype(np.float64)) for gradient in alone])
        plan, layers = monitor.watch.plans[self.part], len(monitor.watch.layers)
        planned = np.array([planned_norm(statistics.parts, plan, layers) for _, statistics in measured])
        left = total.astype(np.float64)
        for gradient in alone:
            left -= gradient
        for group in groups[1:]:
            left -= self.clipped_sum(group, cut=batches_of_few)[0]
        gap = float(np.linalg.norm(left))
        monitor.observe_sum(norms, gap, lambda: self._unsure(groups), planned)

    def _unsure(self, groups: list[np.ndarray]) -> float:
        """Return the change of the sum over these groups (L2) when each weight changes by its last digit.

        An LSTM that strong noise has driven into saturation is chaotic, and its gradients depend on rounding.
        """
        close = self.weights * (1 + np.float32(2**-23) * np.where(np.arange(self.weights.size) % 2, 1, -1))
        moved = np.zeros(self.weights.size)
        for group in groups:
            moved += self.clipped_sum(group)[0]
            moved -= self.clipped_sum(group, close.astype(np.float32))[0]
        return float(np.linalg.norm(moved))

    def sample(self, step: int) -> np.ndarray:
        """Return the numbers of the sentences that a step samples."""
        if self.plan.sampling == "poisson":
            stream = self.streams.stream("sampling", step=step)
            return poisson_sample(stream, self.plan.examples, self.plan.sampling_probability)
        return shuffled_batch(self.streams, self.plan.examples, self.plan.batch_size, step)

    def clipped_sum(
        self,
        sentences: np.ndarray,
        weights: np.ndarray | None = None,
        cut: Cut = physical_batches,
    ) -> tuple[np.ndarray, StepStatistics]:
        """Return the sum of the sentences' clipped gradients, with statistics.

        Args:
            sentences: numbers of the sentences.
            weights: float32 [size], by default the present ones.
            cut: divides the sentences into physical batches.
        """
        weights = self.weights if weights is None else weights
        total = np.zeros(self.weights.size, dtype=np.float32)
        sums, nonfinite = [], 0
        for batch in cut(self.split, self.table, sentences, self._chance):
            part, bad = finite_gradient(self.backend, weights, batch, self.plan)
            nonfinite += bad
            if part:
                total += part.total
                sums.append(part)
        with np.errstate(over="ignore", invalid="ignore"):  # a value that is not finite is detected in the weights
            signal = math.sqrt(float(total @ total))
        return total, StepStatistics(
            norms=np.concatenate([part.norms for part in sums] or [np.zeros(0)]),
            parts=np.concatenate([part.parts for part in sums] or [np.zeros((0, 0))], axis=1),
            losses=np.concatenate([part.losses for part in sums] or [np.zeros(0)]),
            nonfinite=nonfinite,
            signal=signal,
        )


def planned_norm(parts: np.ndarray, plan: PrivacyPlan, layers: int) -> float:
    """Return the norm of a sentence's gradient after clipping by a plan.

    Args:
        parts: its norms before clipping, in each part of the tagger, [P, 1]; empty if it was excluded.
        plan: the clipping.
        layers: number of parts of the tagger with weights.
    """
    bound = math.inf if plan.clip_norm is None else plan.clip_norm
    if plan.by_layer:
        parts = np.minimum(parts, bound / math.sqrt(layers))
    return min(bound, float(np.linalg.norm(parts)))


def finite_gradient(
    backend: Backend, weights: np.ndarray, batch: Batch, plan: PrivacyPlan
) -> tuple[GradientSum | None, int]:
    """Return the clipped sum without sentences whose gradient is not finite, and their number.

    One such sentence would make the whole sum NaN, so the batch is recomputed without it.

    Args:
        backend: the back end.
        weights: float32 [size].
        batch: the sentences.
        plan: the clipping.
    """
    part = backend.clipped_gradient(weights, batch, plan.clip_norm, plan.by_layer)
    bad = ~np.isfinite(part.norms)
    if not bad.any():
        return part, 0
    if bad.all():
        return None, int(bad.sum())
    return backend.clipped_gradient(weights, batch.where(~bad), plan.clip_norm, plan.by_layer), int(bad.sum())


def predict(
    backend: Backend,
    decoder: Decoder,
    weights: np.ndarray,
    transitions: np.ndarray | None,
    split: EncodedSplit,
    table: np.ndarray,
    check: Callable[[], None],
) -> np.ndarray:
    """Predict the tag of every token of a split, int [tokens].

    Args:
        backend: computes the scores.
        decoder: decodes tags from scores.
        weights: float32 [size].
        transitions: transition scores of a CRF, part of ``weights``; None without a CRF.
        split: the sentences.
        table: features.
        check: called between batches; it may raise to stop.

    Raises:
        TrainingFailed: if a score is not finite, since its tag would not be a prediction.
    """
    tags = np.zeros(int(split.offsets[-1]), dtype=np.int64)
    for batch in prediction_batches(split, table):
        check()
        scores = backend.scores(weights, batch)
        if not np.isfinite(scores).all():
            raise TrainingFailed("The tagger's scores are not finite: its weights are too large for predictions")
        tags[token_positions(split, batch.sentences)] = decoder.best(scores, batch.lengths, transitions)
    return tags


def losses(backend: Backend, weights: np.ndarray, split: EncodedSplit, table: np.ndarray) -> np.ndarray:
    """Return the loss of each sentence without dropout, float64 [sentences].

    The loss is that of the run, usually −log of the probability of the true tags.

    Args:
        backend: the back end.
        weights: float32 [size].
        split: the sentences.
        table: features.
    """
    values = np.zeros(len(split))
    for batch in physical_batches(split, table, np.arange(len(split))):
        values[batch.sentences] = backend.clipped_gradient(weights, batch, None).losses
    return values
