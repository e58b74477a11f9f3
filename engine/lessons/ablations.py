"""DP-SGD without one of its ingredients, monitored by the noise check (:mod:`engine.privacy.noise_check.monitor`).

Each ablation is a run of the paper's tagger at full size with one bug built in. The noise check is that of every
private run; its result is recorded after 1, 2, 4 … steps, with the statistic that decides it. Nothing is patched: each
bug has a learner or a back end of its own, which no other run uses.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from engine.config import DEFAULT_CLIP_NORM, TrainingConfig
from engine.lessons.fixtures import GRADIENT_LOCK, LessonModel
from engine.privacy.plan import PrivacyPlan
from engine.records import NoiseCheck
from engine.seeds import Secrets

if TYPE_CHECKING:
    from engine.training.batches import Batch
    from engine.training.dpsgd import DPSGD, Backend, GradientSum

MOMENTS = (1, 2, 4, 8, 16, 32, 64)
"""Numbers of steps after which the noise check is evaluated."""
_LEAST = 8
"""Smallest number of steps, even if the bug is found earlier: it shows how the statistic develops after that. A run
also continues until its statistic deviates, since the comparison with draws finds most bugs before that.
"""
SIGMA, CLIP, BATCH, EPOCHS = 1.0, DEFAULT_CLIP_NORM, 32, 10
"""Noise multiplier, clip norm, batch size and epochs of the run: the paper settings."""
_LAYER = "linear"

Noise = Callable[[np.ndarray, np.ndarray | None, slice], np.ndarray]
"""Function that returns the noise to add at a step, [size].

Its arguments are the planned noise, the noise added at the step before (None at the first) and the slice of the linear
layer's weights.
"""


@dataclass(frozen=True)
class Figure:
    """A statistic of the noise check.

    Attributes:
        name: Axis label.
        read: Returns its value, or NaN before the first measurement.
        planned: Its planned value.
        tolerance: Returns the largest accepted difference from the planned value; None if another statistic decides.
    """

    name: str
    read: Callable[[NoiseCheck], float]
    planned: float
    tolerance: Callable[[NoiseCheck], float] | None = None

    def deviates(self, check: NoiseCheck) -> bool:
        """Return whether the value differs from the plan by more than the tolerance, or than 0.05 without one."""
        return abs(self.read(check) - self.planned) > (self.tolerance(check) if self.tolerance else 0.05)


def _ratio(check: NoiseCheck) -> float:
    return math.nan if check.noise_std is None else check.noise_std / check.noise_planned


def _layer(check: NoiseCheck) -> tuple[float, float]:
    """Return the linear layer's ratio and tolerance, or NaN before the first measurement."""
    linear = next(layer for layer in check.layers if layer.title == _LAYER)
    return (linear.ratio, linear.tolerance) if linear.tolerance else (math.nan, math.nan)


STRENGTH = Figure("noise ÷ planned", _ratio, 1.0, lambda check: check.noise_tolerance / check.noise_planned)
_LINEAR = Figure(
    "noise on the linear layer ÷ planned", lambda check: _layer(check)[0], 1.0, lambda check: _layer(check)[1]
)
_LONGEST = Figure(
    "largest gradient norm of one sentence ÷ C", lambda check: (check.clipped_norm_max or 0.0) / check.clip_norm, 1.0
)
_GAP = Figure("difference between the sum and its recomputation ÷ C", lambda check: check.largest_gap, 0.0)
_SIZES = Figure(
    "standard deviation of the batch size ÷ planned",
    lambda check: (check.batch_std or 0.0) / (check.batch_std_planned or math.nan),
    1.0,
)
_SHAPE = Figure("distance from the normal distribution", lambda check: check.shape_distance, 0.0)


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """DP-SGD without one ingredient.

    Attributes:
        name: Key of :data:`FAULTS`.
        title: The missing ingredient; links hold it.
        instead: The replacement, in a few words.
        figure: Statistic of the noise check that shows the bug, if any does.
        unseen: Why the check cannot find the bug here; empty if it can.
        noise: Changes the noise of a step; None leaves it as planned.
        clipping: Clips the gradient of "each" sentence, of "none", or of the whole "batch".
        turns: Whether batches are shuffled instead of Poisson-sampled.
    """

    name: str
    title: str
    instead: str
    figure: Figure = STRENGTH
    unseen: str = ""
    noise: Noise | None = None
    clipping: str = "each"
    turns: bool = False


@dataclass(frozen=True)
class Watched:
    """Results of the noise check after each of ``MOMENTS``, until it has found the bug."""

    fault: Ablation
    checks: tuple[NoiseCheck, ...]

    @property
    def found(self) -> int | None:
        """Number of steps after which the check first failed; None if it never failed."""
        return next((check.steps for check in self.checks if check.failed), None)

    @property
    def says(self) -> str:
        """First sentence of the check when it first failed; empty if it never failed."""
        return next((check.faults[0] for check in self.checks if check.failed), "")


def _skip_last_layer(noise: np.ndarray, before: np.ndarray | None, linear: slice) -> np.ndarray:
    result = noise.copy()
    result[linear] = 0
    return result


HONEST = Ablation(name="nothing", title="nothing", instead="correct DP-SGD")
FAULTS = {
    fault.name: fault
    for fault in (
        HONEST,
        Ablation(
            name="noise",
            title="the noise",
            instead="the clipped sum without noise",
            noise=lambda noise, before, linear: np.zeros_like(noise),
        ),
        Ablation(
            name="half",
            title="half of the noise",
            instead="σ = 0.5 instead of the stated 1",
            noise=lambda noise, before, linear: noise / 2,
        ),
        Ablation(
            name="little",
            title="3 % of the noise",
            instead="σ = 0.97 instead of the stated 1",
            noise=lambda noise, before, linear: np.float32(0.97) * noise,
        ),
        Ablation(
            name="mean",
            title="the scale of the noise",
            instead="noise divided by the batch size, 32",
            noise=lambda noise, before, linear: noise / BATCH,
        ),
        Ablation(
            name="layer",
            title="the noise on one layer",
            instead="no noise on the last 1,809 weights",
            figure=_LINEAR,
            noise=_skip_last_layer,
        ),
        Ablation(
            name="fresh",
            title="new noise at each step",
            instead="the same noise at each step",
            noise=lambda noise, before, linear: noise if before is None else before,
        ),
        Ablation(
            name="tails",
            title="the tails of the noise",
            instead="no draw beyond 4 standard deviations",
            figure=_SHAPE,
            noise=lambda noise, before, linear: np.clip(noise, -3.99 * SIGMA * CLIP, 3.99 * SIGMA * CLIP),
        ),
        Ablation(name="clip", title="clipping", instead="gradients of any norm", figure=_LONGEST, clipping="none"),
        Ablation(
            name="each",
            title="clipping of each gradient",
            instead="only the sum of the batch clipped to C",
            figure=_GAP,
            clipping="batch",
        ),
        Ablation(
            name="chance",
            title="Poisson sampling",
            instead="batches in turn from a shuffled list",
            figure=_SIZES,
            turns=True,
        ),
        Ablation(
            name="secret",
            title="the secrecy of the noise key",
            instead="noise from a public seed",
            unseen="The noise is as it should be. The check cannot see who knows its key.",
        ),
    )
}


@lru_cache(maxsize=len(FAULTS))
def run_with_noise_check(model: LessonModel, name: str) -> Watched:
    """Run one of ``FAULTS`` with the noise check.

    The first run of a bug that the check does not find takes one to two seconds.
    """
    run = _run(model, FAULTS[name])
    if run.monitor is None:
        raise TypeError("a private run has a monitor")
    checks, steps = [], 0
    for moment in MOMENTS:
        with GRADIENT_LOCK:
            while steps < moment:
                run.step(steps)
                steps += 1
        checks.append(run.monitor.verdict())
        if checks[-1].failed and steps >= _LEAST and FAULTS[name].figure.deviates(checks[-1]):
            break
    return Watched(FAULTS[name], tuple(checks))


def _run(model: LessonModel, fault: Ablation) -> "DPSGD":
    """Return the run with this bug, before its first step."""
    from engine.privacy.mechanisms import shuffled_batch
    from engine.privacy.noise_check.monitor import NoiseMonitor
    from engine.training.dpsgd import DPSGD
    from engine.training.optimisers import Optimiser

    class Broken(DPSGD):
        """DP-SGD with the bug."""

        before: np.ndarray | None = None

        def add_noise(self, total: np.ndarray, step: int) -> None:
            if fault.noise is None:
                return super().add_noise(total, step)
            noise = np.zeros_like(total)
            super().add_noise(noise, step)
            self.before = fault.noise(noise, self.before, linear)
            total += self.before

        def sample(self, step: int) -> np.ndarray:
            if fault.turns:
                return shuffled_batch(self.streams, self.plan.examples, self.plan.batch_size, step)
            return super().sample(step)

    tagger, secrets = model.tagger, Secrets.seeded(6, "left out")
    parts = zip(tagger.titles, tagger.parts, tagger.slices, strict=True)
    layers = [(title, weights) for title, part, weights in parts if part.shapes]
    linear = dict(layers)[_LAYER]
    plan = PrivacyPlan(
        examples=len(model.split),
        batch_size=BATCH,
        steps=round(EPOCHS * len(model.split) / BATCH),
        noise_multiplier=SIGMA,
        clip_norm=CLIP,
        delta=1e-5,
        sampling="poisson",
    )
    return Broken(
        _Clipper(model.backend, fault.clipping),
        plan,
        Optimiser(TrainingConfig(), tagger.size),
        secrets,
        model.split,
        model.table,
        model.weights.copy(),
        monitor=NoiseMonitor([plan], tagger.size, layers=layers, secrets=secrets),
    )


@dataclass(frozen=True)
class _Clipper:
    """The back end of the lessons with the clipping of a bug."""

    backend: "Backend"
    clipping: str

    def clipped_gradient(
        self, weights: np.ndarray, batch: "Batch", clip_norm: float | None, by_layer: bool = False
    ) -> "GradientSum":
        """Return the clipped gradient; see :class:`engine.training.dpsgd.Backend`."""
        one_by_one = clip_norm if self.clipping == "each" else None
        result = self.backend.clipped_gradient(weights, batch, one_by_one, by_layer)
        if self.clipping == "batch" and clip_norm is not None:
            norm = float(np.linalg.norm(result.total.astype(np.float64)))
            result.total[:] *= np.float32(min(1.0, clip_norm / max(norm, 1e-30)))
        return result

    def scores(self, weights: np.ndarray, batch: "Batch") -> np.ndarray:
        """Return the scores of a batch; see :class:`engine.training.dpsgd.Backend`."""
        return self.backend.scores(weights, batch)
