"""DP-SGD with one thing left out, under the eyes of the noise check (:mod:`engine.privacy.noise_check.monitor`).

A run of the paper's tagger at the size at which it trains, with one fault built in, and the check that each private run
has: what it says after 1, 2, 4 … steps, and the figure that this rests on. Nothing is patched: a fault is a learner, or
a back end, of its own, which nobody else uses.
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
"""Steps after which the check is asked."""
_LEAST = 8
"""Steps of a run whose fault was found before: what the figure does after that is worth seeing."""
SIGMA, CLIP, BATCH, EPOCHS = 1.0, DEFAULT_CLIP_NORM, 32, 10
"""Of the run: the paper's."""
_LAYER = "linear"

Noise = Callable[[np.ndarray, np.ndarray | None, slice], np.ndarray]
"""What becomes of a step's noise [size]: given it, what was added at the step before (None at the first) and which
weights are the linear layer's."""


@dataclass(frozen=True)
class Figure:
    """A figure that the check works out. name: on an axis. read: it, NaN where nothing was measured yet. planned: what
    it should be. tolerance: how far from that it may lie; None where the check judges it by something else."""

    name: str
    read: Callable[[NoiseCheck], float]
    planned: float
    tolerance: Callable[[NoiseCheck], float] | None = None


def _ratio(check: NoiseCheck) -> float:
    return math.nan if check.noise_std is None else check.noise_std / check.noise_planned


def _layer(check: NoiseCheck) -> tuple[float, float]:
    """The linear layer's ratio and tolerance; NaN before it was measured."""
    found = next(layer for layer in check.layers if layer.title == _LAYER)
    return (found.ratio, found.tolerance) if found.tolerance else (math.nan, math.nan)


STRENGTH = Figure("noise ÷ planned", _ratio, 1.0, lambda check: check.noise_tolerance / check.noise_planned)
_LINEAR = Figure(
    "noise on the linear layer ÷ planned", lambda check: _layer(check)[0], 1.0, lambda check: _layer(check)[1]
)
_LONGEST = Figure("longest gradient of one sentence ÷ C", lambda check: check.clipped_norm_max / check.clip_norm, 1.0)
_GAP = Figure("gap between the sum and its sentences ÷ C", lambda check: check.largest_gap, 0.0)
_SIZES = Figure(
    "spread of the batch sizes ÷ planned", lambda check: check.batch_std / (check.batch_std_planned or math.nan), 1.0
)
_SHAPE = Figure("distance from the normal distribution", lambda check: check.shape_distance, 0.0)


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """One thing left out. name: in links. title: what. instead: what is done, in a few words. figure: of the check,
    where it shows if anywhere. unseen: why the check cannot find it here, empty where it can. noise: what becomes of
    the noise; clipping: of "each" sentence, of "none", or of the whole "batch"; turns: whether sentences come in turn,
    not by chance."""

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
    """What the check said of a run after each of ``MOMENTS``, up to those where it had found the fault."""

    fault: Ablation
    checks: tuple[NoiseCheck, ...]

    @property
    def found(self) -> int | None:
        """After how many steps the check first failed; None where it did not."""
        return next((check.steps for check in self.checks if check.failed), None)

    @property
    def says(self) -> str:
        """Its first sentence when it first failed; empty where it did not."""
        return next((check.faults[0] for check in self.checks if check.failed), "")


def _skip_last_layer(noise: np.ndarray, before: np.ndarray | None, linear: slice) -> np.ndarray:
    left = noise.copy()
    left[linear] = 0
    return left


HONEST = Ablation(name="nothing", title="nothing", instead="the step as it should be")
FAULTS = {
    fault.name: fault
    for fault in (
        HONEST,
        Ablation(
            name="noise",
            title="the noise",
            instead="the clipped sum as it is",
            noise=lambda noise, before, linear: np.zeros_like(noise),
        ),
        Ablation(
            name="half",
            title="half of the noise",
            instead="σ = 0.5 where 1 is written",
            noise=lambda noise, before, linear: noise / 2,
        ),
        Ablation(
            name="little",
            title="3 % of the noise",
            instead="σ = 0.97 where 1 is written",
            noise=lambda noise, before, linear: np.float32(0.97) * noise,
        ),
        Ablation(
            name="mean",
            title="the right scale",
            instead="noise divided by the batch size, 32",
            noise=lambda noise, before, linear: noise / BATCH,
        ),
        Ablation(
            name="layer",
            title="the noise on one layer",
            instead="the last 1,809 weights, whose turn to be measured comes late, get none",
            figure=_LINEAR,
            noise=_skip_last_layer,
        ),
        Ablation(
            name="fresh",
            title="fresh draws",
            instead="the same noise at each step",
            noise=lambda noise, before, linear: noise if before is None else before,
        ),
        Ablation(
            name="tails",
            title="the tails",
            instead="no draw beyond 4 standard deviations",
            figure=_SHAPE,
            unseen="One draw in 16,000 lies out there: so few steps cannot prove that none does.",
            noise=lambda noise, before, linear: np.clip(noise, -3.99 * SIGMA * CLIP, 3.99 * SIGMA * CLIP),
        ),
        Ablation(
            name="clip", title="clipping", instead="gradients as long as they are", figure=_LONGEST, clipping="none"
        ),
        Ablation(
            name="each",
            title="clipping one by one",
            instead="the batch's sum clipped to C",
            figure=_GAP,
            clipping="batch",
        ),
        Ablation(
            name="chance",
            title="sampling by chance",
            instead="batches in turn, from a shuffled list",
            figure=_SIZES,
            turns=True,
        ),
        Ablation(
            name="secret",
            title="the key's secrecy",
            instead="noise from a seed that is printed",
            unseen="The noise is as it should be. Who knows its key, the check cannot see.",
        ),
    )
}


@lru_cache(maxsize=len(FAULTS))
def run_with_noise_check(bench: LessonModel, name: str) -> Watched:
    """Run one of ``FAULTS`` and ask the check, which takes a second or two the first time where it finds nothing."""
    run = _run(bench, FAULTS[name])
    if run.monitor is None:
        raise TypeError("a private run has a monitor")
    checks, taken = [], 0
    for moment in MOMENTS:
        with GRADIENT_LOCK:
            while taken < moment:
                run.step(taken)
                taken += 1
        checks.append(run.monitor.verdict())
        if checks[-1].failed and taken >= _LEAST:
            break
    return Watched(FAULTS[name], tuple(checks))


def _run(bench: LessonModel, fault: Ablation) -> "DPSGD":
    """The run at its first step."""
    from engine.privacy.mechanisms import shuffled_batch
    from engine.privacy.noise_check.monitor import NoiseMonitor
    from engine.training.dpsgd import DPSGD
    from engine.training.optimisers import Optimiser

    class Broken(DPSGD):
        """The learner with its fault."""

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

    tagger, secrets = bench.tagger, Secrets.seeded(6, "left out")
    named = zip(tagger.titles, tagger.parts, tagger.slices, strict=True)
    layers = [(title, stretch) for title, part, stretch in named if part.shapes]
    linear = dict(layers)[_LAYER]
    plan = PrivacyPlan(
        examples=len(bench.split),
        batch_size=BATCH,
        steps=round(EPOCHS * len(bench.split) / BATCH),
        noise_multiplier=SIGMA,
        clip_norm=CLIP,
        delta=1e-5,
        sampling="poisson",
    )
    return Broken(
        _Clipper(bench.backend, fault.clipping),
        plan,
        Optimiser(TrainingConfig(), tagger.size),
        secrets,
        bench.split,
        bench.table,
        bench.weights.copy(),
        monitor=NoiseMonitor([plan], tagger.size, layers=layers, secrets=secrets),
    )


@dataclass(frozen=True)
class _Clipper:
    """The bench's back end, clipping as a fault has it."""

    backend: "Backend"
    clipping: str

    def clipped_gradient(
        self, weights: np.ndarray, batch: "Batch", clip_norm: float | None, by_layer: bool = False
    ) -> "GradientSum":
        """See :class:`engine.training.dpsgd.Backend`."""
        one_by_one = clip_norm if self.clipping == "each" else None
        found = self.backend.clipped_gradient(weights, batch, one_by_one, by_layer)
        if self.clipping == "batch" and clip_norm is not None:
            length = float(np.linalg.norm(found.total.astype(np.float64)))
            found.total[:] *= np.float32(min(1.0, clip_norm / max(length, 1e-30)))
        return found

    def scores(self, weights: np.ndarray, batch: "Batch") -> np.ndarray:
        """See :class:`engine.training.dpsgd.Backend`."""
        return self.backend.scores(weights, batch)
