"""One step of DP-SGD (Abadi et al. 2016, algorithm 1) on the paper's tagger: the clipped sum and its noise.

The training code (:class:`engine.training.dpsgd.DPSGD`) computes everything: the sample, the gradients and their norms,
the clipped sum and the noise. Samples of one step are nested: a sentence in a batch of 32 is also in the batch of 64.

The signal-to-noise ratio is ‖Σ clipped gradients‖ ÷ ‖noise‖ of one step, both over all weights. The means over the
batch have the same ratio. The page Training diagnostics shows its inverse
(:attr:`engine.records.RoundRecord.noise_to_signal`).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from engine.config import DEFAULT_CLIP_NORM, TrainingConfig
from engine.errors import InvalidConfig
from engine.lessons.fixtures import GRADIENT_LOCK, LessonModel
from engine.privacy import accounting
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets

if TYPE_CHECKING:
    from engine.training.dpsgd import DPSGD

BATCHES = (16, 32, 64, 128, 256, 512, 1024)
"""Expected batch sizes, in sentences."""
NOISES = (0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
"""Noise multipliers σ."""
BEFORE = (0, 10, 100)
"""Numbers of steps before the one that is examined."""
DELTA = 1e-5
_SECRETS = Secrets.seeded(6, "lesson 6")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Settings of a step.

    Attributes:
        noise_multiplier: σ.
        clip_norm: C, L2.
        batch_size: Expected batch size, one of ``BATCHES``.
        before: Number of steps before this one, one of ``BEFORE``. They add no noise, so that the tagger is the same
            for every σ.

    Raises:
        InvalidConfig: If a value is not one of the listed ones.
    """

    noise_multiplier: float = 1.0
    clip_norm: float = DEFAULT_CLIP_NORM
    batch_size: int = 32
    before: int = 0

    def __post_init__(self) -> None:
        for name, value, valid in (("batch_size", self.batch_size, BATCHES), ("before", self.before, BEFORE)):
            if value not in valid:
                raise InvalidConfig(f"{name}={value!r}, expected one of {', '.join(map(str, valid))}")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step.

    Attributes:
        setting: Its settings.
        sentences: Indices of the sampled sentences, int [b].
        norms: L2 norms of their gradients before clipping, [b].
        signal: L2 norm of the clipped sum.
        noise: L2 norm of the noise.
        along: Component of the noise in the direction of the clipped sum; negative if opposite.
        moved: L2 norm of the change of the weights.
        weights: L2 norm of the weights.
        size: Number of weights.
    """

    setting: Setting
    sentences: np.ndarray
    norms: np.ndarray
    signal: float
    noise: float
    along: float
    moved: float
    weights: float
    size: int

    @property
    def times(self) -> float:
        """Noise-to-signal ratio, ``noise`` ÷ ``signal``."""
        return self.noise / self.signal

    @property
    def clipped(self) -> int:
        """Number of sentences whose gradient was clipped."""
        return int((self.norms > self.setting.clip_norm).sum())

    @property
    def cut(self) -> float:
        """Share of the sum of all gradient norms that clipping removes, 0 to 1."""
        kept = np.minimum(self.norms, self.setting.clip_norm).sum()
        return float(1 - kept / self.norms.sum())


@dataclass(frozen=True, kw_only=True)
class Price:
    """Training settings with their privacy cost.

    Attributes:
        noise_multiplier: σ.
        batch_size: Expected batch size, in sentences.
        steps: Number of steps.
        epsilon: Upper bound on ε at δ = 1e-5, by Rényi accounting.
        times: Noise-to-signal ratio of the examined step.
    """

    noise_multiplier: float
    batch_size: int
    steps: int
    epsilon: float
    times: float


@lru_cache(maxsize=512)
def step(model: LessonModel, setting: Setting) -> Step:
    """Take one step.

    The first call with ``before`` > 0 takes some seconds to compute the earlier steps; they are then cached.
    """
    total, norms, sentences = _sum(model, setting.clip_norm, setting.before, setting.batch_size)
    unit, scale = _noise(model, setting.before), setting.noise_multiplier * setting.clip_norm
    signal = float(np.linalg.norm(total.astype(np.float64)))
    along = float(unit.astype(np.float64) @ total) / signal
    norm = float(np.linalg.norm(unit.astype(np.float64)))
    noisy = np.sqrt(signal**2 + 2 * scale * along * signal + (scale * norm) ** 2)
    return Step(
        setting=setting,
        sentences=sentences,
        norms=norms,
        signal=signal,
        noise=scale * norm,
        along=scale * along,
        moved=TrainingConfig().learning_rate * float(noisy) / setting.batch_size,
        weights=float(np.linalg.norm(_weights(model, setting.before).astype(np.float64))),
        size=len(unit),
    )


def price(model: LessonModel, setting: Setting, steps: int) -> Price:
    """Return the privacy cost of a number of steps, all with the σ and batch size of the setting."""
    plan = plan_of(model, setting, steps)
    return Price(
        noise_multiplier=setting.noise_multiplier,
        batch_size=setting.batch_size,
        steps=steps,
        epsilon=accounting.epsilon(plan, steps, "rdp"),
        times=step(model, setting).times,
    )


def prices(model: LessonModel, setting: Setting, steps: int, batch_size: int, *, passes: bool) -> tuple[Price, ...]:
    """Return the privacy cost with another batch size, at each of ``NOISES``.

    Args:
        model: The model and its data.
        setting: Settings to compare with.
        steps: Steps with these settings.
        batch_size: The other batch size.
        passes: Whether the training processes as many sentences in total as with ``setting``; otherwise it takes as
            many steps.
    """
    taken = max(1, round(steps * setting.batch_size / batch_size)) if passes else steps
    return tuple(
        price(
            model,
            Setting(noise_multiplier=sigma, clip_norm=setting.clip_norm, batch_size=batch_size, before=setting.before),
            taken,
        )
        for sigma in NOISES
    )


def plan_of(model: LessonModel, setting: Setting, steps: int) -> PrivacyPlan:
    """Return the privacy plan of a number of steps on the training sentences of the model."""
    return PrivacyPlan(
        examples=len(model.split),
        batch_size=setting.batch_size,
        steps=steps,
        noise_multiplier=setting.noise_multiplier,
        clip_norm=setting.clip_norm,
        delta=DELTA,
        sampling="poisson",
    )


@lru_cache(maxsize=32)
def _sum(
    model: LessonModel, clip_norm: float, before: int, batch_size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the clipped sum [size], gradient norms [b] and indices [b] of a batch.

    They extend those of the next smaller batch, which is nested in this one.
    """
    from engine.training.batches import physical_batches

    learner = _learner(model, Setting(noise_multiplier=0, clip_norm=clip_norm, batch_size=batch_size, before=before))
    sampled, smaller = learner.sample(before), BATCHES.index(batch_size) - 1
    total, norms, sentences = (
        _sum(model, clip_norm, before, BATCHES[smaller])
        if smaller >= 0
        else (np.zeros(len(model.weights), np.float32), np.zeros(0), np.zeros(0, dtype=np.int64))
    )
    more = np.setdiff1d(sampled, sentences)
    with GRADIENT_LOCK:
        added, statistics = learner.clipped_sum(more)
    order = [batch.sentences for batch in physical_batches(model.split, model.table, more)]
    return total + added, np.concatenate([norms, statistics.norms]), np.concatenate([sentences, *order])


@lru_cache(maxsize=len(BEFORE))
def _noise(model: LessonModel, number: int) -> np.ndarray:
    """Return the noise of a step at σ·C = 1, float32 [size]."""
    unit = np.zeros(len(model.weights), dtype=np.float32)
    _learner(model, Setting(clip_norm=1.0), at_first=True).add_noise(unit, number)
    return unit


@lru_cache(maxsize=len(BEFORE))
def _weights(model: LessonModel, number: int) -> np.ndarray:
    """Return the tagger's weights after a number of steps, float32 [size].

    The steps add no noise and use the paper's clip norm, batch size and learning rate.
    """
    if number == 0:
        return model.weights
    earlier = BEFORE[BEFORE.index(number) - 1]
    learner = _learner(model, Setting(noise_multiplier=0, before=earlier))
    for index in range(earlier, number):
        with GRADIENT_LOCK:
            learner.step(index)
    return learner.weights


def _learner(model: LessonModel, setting: Setting, *, at_first: bool = False) -> "DPSGD":
    """Return DP-SGD at the weights that the setting requires, or at the initial weights (``at_first``)."""
    from engine.training.dpsgd import DPSGD
    from engine.training.optimisers import Optimiser

    weights = (model.weights if at_first else _weights(model, setting.before)).copy()
    plan, optimiser = plan_of(model, setting, BEFORE[-1] + 1), Optimiser(TrainingConfig(), len(weights))
    return DPSGD(model.backend, plan, optimiser, _SECRETS, model.split, model.table, weights)
