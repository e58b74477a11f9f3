"""DP-SGD (Abadi et al. 2016, algorithm 1): sample, clip each sentence's gradient, add noise once to the sum, divide.

The sum is divided by the *expected* batch size: the realised one is private. Without noise and clipping the same code
is ordinary SGD. Sampling, noise and optimiser are the same for every back end.
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
from engine.privacy.noise_check.kernels import picked, to_noise
from engine.privacy.noise_check.monitor import NoiseMonitor
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets, Seeds
from engine.taggers.decoding import Decoder
from engine.training.batches import Batch, batches_of_few, physical_batches, prediction_batches
from engine.training.optimisers import Optimiser


@dataclass(frozen=True)
class GradientSum:
    """What one batch contributes. total: [weights], Σ_i c_i·G_i. parts: [P, B], ‖G_i‖ before clipping within each of
    the tagger's parts. losses: [B]."""

    total: np.ndarray
    parts: np.ndarray
    losses: np.ndarray

    @property
    def norms(self) -> np.ndarray:
        """‖G_i‖ before clipping, [B]."""
        return np.asarray(np.sqrt((self.parts**2).sum(0)))


Cut = Callable[[EncodedSplit, np.ndarray, np.ndarray, int | None], Iterator[Batch]]
"""Sentences → what is worked on at once."""


class Backend(Protocol):
    """What computes: one contract, whichever library does the work."""

    def clipped_gradient(
        self, weights: np.ndarray, batch: Batch, clip_norm: float | None, by_layer: bool = False
    ) -> GradientSum:
        """Σ over the batch of each sentence's gradient, scaled down to L2 norm ``clip_norm`` where it is longer.

        by_layer: each part of the tagger that has weights is scaled by itself, to ``clip_norm`` ÷ √(number of those),
        so that the whole is no longer than ``clip_norm`` either.
        """
        ...

    def scores(self, weights: np.ndarray, batch: Batch) -> np.ndarray:
        """What the layers below the head say of each tag, [N, K]."""
        ...


@dataclass(frozen=True)
class StepStatistics:
    """What one step saw. norms [b], parts [P, b], losses [b]: of the sampled sentences, before clipping; see
    :class:`GradientSum`. nonfinite: sentences left out. signal: L2 norm of the clipped sum, to hold the noise
    against."""

    norms: np.ndarray
    parts: np.ndarray
    losses: np.ndarray
    nonfinite: int
    signal: float


class DPSGD:
    """Training of one tagger on one shard, step by step. ``weights`` [size] is changed in place by :meth:`step`.

    monitor: of the run, which measures where noise is added; part: which of its plans this one is. first: the number of
    the first step that this optimiser takes. streams: of this shard alone. Raises TypeError where noise would be drawn
    from streams of a seed alone.
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
            raise TypeError("streams of a seed alone are shared between runs: a private plan needs Secrets")
        self.backend, self.plan, self.optimiser, self.streams = backend, plan, optimiser, streams
        self.split, self.table, self.weights = split, table, weights
        self.part, self.first = part, first
        self.monitor = monitor
        self._left: tuple[slice, int, dict[str, np.ndarray]] | None = None
        """How the last update left what was looked at: at which weights, of which others set the first so many, and the
        look."""
        self._chance: int | None = None
        """What dropout draws from at the step that is under way."""
        if plan.private and monitor is None:
            self.monitor = NoiseMonitor([plan], weights.size)

    def step(self, step: int) -> StepStatistics:
        """Take step number ``step`` (from 0, of all on this shard). Raises TrainingFailed if the weights stop being
        finite."""
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
                f"a smaller learning rate than {self.optimiser.config.learning_rate:g} or less noise may help"
            )
        return statistics

    def _update(self, total: np.ndarray, step: int) -> None:
        """Clipped sum → weights; the sum is used up."""
        if self.plan.private:
            self.add_noise(total, step)
        total /= np.float32(self.plan.batch_size)
        self.optimiser.move(self.weights, total, step - self.first)

    def add_noise(self, total: np.ndarray, step: int) -> None:
        """Add the noise of step number ``step`` to a clipped sum [size], in place."""
        add_gaussian_noise(total, cast(Secrets, self.streams).stream("noise", step=step), self.plan.noise_std)

    def _measured(self, monitor: NoiseMonitor, step: int, sentences: np.ndarray, total: np.ndarray) -> None:
        """The update, with the noise check's eyes on it."""
        number = monitor.steps_seen
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

        def tell() -> None:
            gradient, error = self.optimiser.gradient_between(before, after, step - self.first)
            to_noise(gradient, error, clipped, self.plan.batch_size)
            monitor.saw_noise(number, gradient, error, [clipped])
            monitor.saw_sample(sentences, self.part)

        monitor.later(tell)

    def _touched(self, where: slice, first: int, left: dict[str, np.ndarray], fixed: np.ndarray) -> bool:
        """Whether something but the update moved weights or moments since they were left so."""
        now = self.optimiser.look(self.weights, where, fixed)
        own = np.concatenate([np.arange(where.start, where.stop), fixed]) >= first if first else slice(None)
        return any(not np.array_equal(now[name][own], left[name][own]) for name in ("weights", *self.optimiser.state))

    def _look_closely(self, monitor: NoiseMonitor, number: int, sentences: np.ndarray, total: np.ndarray) -> None:
        """Make the sum that is about to be used once more, from groups of its sentences and from single ones."""
        groups = monitor.watch.groups(number, sentences)
        alone = [self.clipped_sum(np.array([sentence]))[0] for sentence in (groups[0] if groups else ())]
        norms = np.array([np.linalg.norm(gradient.astype(np.float64)) for gradient in alone])
        left = total.astype(np.float64)
        for gradient in alone:
            left -= gradient
        for group in groups[1:]:
            left -= self.clipped_sum(group, cut=batches_of_few)[0]
        gap = float(np.linalg.norm(left))
        monitor.observe_sum(norms, gap, lambda: self._unsure(groups))

    def _unsure(self, groups: list[np.ndarray]) -> float:
        """How far the sum over these groups moves when each weight does by its last digit (L2): an LSTM that much noise
        has driven into saturation is chaotic, and its gradients depend on how sums are rounded."""
        close = self.weights * (1 + np.float32(2**-23) * np.where(np.arange(self.weights.size) % 2, 1, -1))
        moved = np.zeros(self.weights.size)
        for group in groups:
            moved += self.clipped_sum(group)[0]
            moved -= self.clipped_sum(group, close.astype(np.float32))[0]
        return float(np.linalg.norm(moved))

    def sample(self, step: int) -> np.ndarray:
        """Numbers of the sentences that step number ``step`` uses."""
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
        """Σ over the sentences of their clipped gradients, at the weights as they are unless others are given. cut:
        into what is worked on at once."""
        weights = self.weights if weights is None else weights
        total = np.zeros(self.weights.size, dtype=np.float32)
        found, nonfinite = [], 0
        for batch in cut(self.split, self.table, sentences, self._chance):
            part, bad = finite_gradient(self.backend, weights, batch, self.plan)
            nonfinite += bad
            if part:
                total += part.total
                found.append(part)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is seen in the weights
            signal = math.sqrt(float(total @ total))
        return total, StepStatistics(
            norms=np.concatenate([part.norms for part in found] or [np.zeros(0)]),
            parts=np.concatenate([part.parts for part in found] or [np.zeros((0, 0))], axis=1),
            losses=np.concatenate([part.losses for part in found] or [np.zeros(0)]),
            nonfinite=nonfinite,
            signal=signal,
        )


def finite_gradient(
    backend: Backend, weights: np.ndarray, batch: Batch, plan: PrivacyPlan
) -> tuple[GradientSum | None, int]:
    """The clipped sum without the sentences whose gradient is not finite, and how many those are.

    One such sentence would turn the whole sum into NaN, so the batch is computed again without it.
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
    """Tag indices for every token of ``split``, int [tokens].

    transitions: of a CRF, part of ``weights``. ``check`` is called between batches and may raise. Raises
    TrainingFailed if a score is not finite: such a tag would be no prediction.
    """
    tags = np.zeros(int(split.offsets[-1]), dtype=np.int64)
    for batch in prediction_batches(split, table):
        check()
        scores = backend.scores(weights, batch)
        if not np.isfinite(scores).all():
            raise TrainingFailed("The tagger's scores are not finite: its weights have grown too large to predict with")
        tags[token_positions(split, batch.sentences)] = decoder.best(scores, batch.lengths, transitions)
    return tags


def losses(backend: Backend, weights: np.ndarray, split: EncodedSplit, table: np.ndarray) -> np.ndarray:
    """Of each sentence: −log of the probability of its true tags, or what the run trains on in its place, float64
    [sentences]; nothing is dropped out."""
    found = np.zeros(len(split))
    for batch in physical_batches(split, table, np.arange(len(split))):
        found[batch.sentences] = backend.clipped_gradient(weights, batch, None).losses
    return found
