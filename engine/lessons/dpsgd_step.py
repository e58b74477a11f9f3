"""DP-SGD, one step at a time (Abadi et al. 2016, algorithm 1): what one step of the paper's tagger sums up, and the
noise beside it.

Everything is done by the code that trains (:class:`engine.training.dpsgd.DPSGD`): who is sampled, each sentence's
gradient and its norm, the clipped sum, the noise. Samples of one step are nested: who is in a batch of 32 is in one of
64 as well.

Signal to noise is ‖Σ clipped gradients‖ ÷ ‖noise‖ of one step, both over all weights. Dividing both by the batch size
gives the same for their means. Diagnose shows its inverse (:attr:`engine.records.RoundRecord.noise_to_signal`).
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
"""Expected sentences a step."""
NOISES = (0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
"""Noise multipliers σ."""
BEFORE = (0, 10, 100)
"""Steps that the tagger may have taken before."""
DELTA = 1e-5
_SECRETS = Secrets.seeded(6, "lesson 6")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """noise_multiplier: σ. clip_norm: C, L2. batch_size: one of ``BATCHES``. before: steps that the tagger has taken
    before, one of ``BEFORE``; they are taken without noise, so that it is the same tagger whatever σ is. Raises
    InvalidConfig."""

    noise_multiplier: float = 1.0
    clip_norm: float = DEFAULT_CLIP_NORM
    batch_size: int = 32
    before: int = 0

    def __post_init__(self) -> None:
        for name, value, known in (("batch_size", self.batch_size, BATCHES), ("before", self.before, BEFORE)):
            if value not in known:
                raise InvalidConfig(f"{name}={value!r}, expected one of {', '.join(map(str, known))}")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step. sentences: that were sampled, int [b]. norms: of their gradients before clipping, L2 [b]. signal: norm
    of the clipped sum. noise: norm of the noise that is added to it, of which ``along`` points the sum's way (negative:
    the other way). moved: how far the weights move, L2; weights: how long they are. size: how many there are."""

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
        """How many times as long as the sum the noise is: one by signal to noise."""
        return self.noise / self.signal

    @property
    def clipped(self) -> int:
        """Sentences whose gradient was shortened."""
        return int((self.norms > self.setting.clip_norm).sum())

    @property
    def cut(self) -> float:
        """The share of all gradients' length that clipping takes, 0 to 1."""
        kept = np.minimum(self.norms, self.setting.clip_norm).sum()
        return float(1 - kept / self.norms.sum())


@dataclass(frozen=True, kw_only=True)
class Price:
    """A way to train. epsilon: at δ = 1e-5, an upper bound, by Rényi accounting. times: how many times as long as the
    sum the noise is at the step that is looked at."""

    noise_multiplier: float
    batch_size: int
    steps: int
    epsilon: float
    times: float


@lru_cache(maxsize=512)
def step(bench: LessonModel, setting: Setting) -> Step:
    """Take one step. The first of a tagger that has trained takes some seconds, which are not spent again."""
    total, norms, sentences = _sum(bench, setting.clip_norm, setting.before, setting.batch_size)
    unit, scale = _noise(bench, setting.before), setting.noise_multiplier * setting.clip_norm
    signal = float(np.linalg.norm(total.astype(np.float64)))
    along = float(unit.astype(np.float64) @ total) / signal
    length = float(np.linalg.norm(unit.astype(np.float64)))
    both = np.sqrt(signal**2 + 2 * scale * along * signal + (scale * length) ** 2)
    return Step(
        setting=setting,
        sentences=sentences,
        norms=norms,
        signal=signal,
        noise=scale * length,
        along=scale * along,
        moved=TrainingConfig().learning_rate * float(both) / setting.batch_size,
        weights=float(np.linalg.norm(_weights(bench, setting.before).astype(np.float64))),
        size=len(unit),
    )


def price(bench: LessonModel, setting: Setting, steps: int) -> Price:
    """What so many steps cost, all with the setting's σ and batch size."""
    plan = plan_of(bench, setting, steps)
    return Price(
        noise_multiplier=setting.noise_multiplier,
        batch_size=setting.batch_size,
        steps=steps,
        epsilon=accounting.epsilon(plan, steps, "rdp"),
        times=step(bench, setting).times,
    )


def prices(bench: LessonModel, setting: Setting, steps: int, batch_size: int, *, passes: bool) -> tuple[Price, ...]:
    """With batches of another size, at each of ``NOISES``. passes: whether the tagger reads as many sentences in all
    as with the setting; else it takes as many steps."""
    taken = max(1, round(steps * setting.batch_size / batch_size)) if passes else steps
    return tuple(
        price(
            bench,
            Setting(noise_multiplier=sigma, clip_norm=setting.clip_norm, batch_size=batch_size, before=setting.before),
            taken,
        )
        for sigma in NOISES
    )


def plan_of(bench: LessonModel, setting: Setting, steps: int) -> PrivacyPlan:
    """The plan of so many steps on the bench's sentences."""
    return PrivacyPlan(
        examples=len(bench.split),
        batch_size=setting.batch_size,
        steps=steps,
        noise_multiplier=setting.noise_multiplier,
        clip_norm=setting.clip_norm,
        delta=DELTA,
        sampling="poisson",
    )


@lru_cache(maxsize=32)
def _sum(
    bench: LessonModel, clip_norm: float, before: int, batch_size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clipped sum [size], norms [b] and numbers [b] of the sentences of a batch, from those of a smaller one, which
    are among them."""
    from engine.training.batches import physical_batches

    learner = _learner(bench, Setting(noise_multiplier=0, clip_norm=clip_norm, batch_size=batch_size, before=before))
    sampled, smaller = learner.sample(before), BATCHES.index(batch_size) - 1
    total, norms, sentences = (
        _sum(bench, clip_norm, before, BATCHES[smaller])
        if smaller >= 0
        else (np.zeros(len(bench.weights), np.float32), np.zeros(0), np.zeros(0, dtype=np.int64))
    )
    more = np.setdiff1d(sampled, sentences)
    with GRADIENT_LOCK:
        added, seen = learner.clipped_sum(more)
    order = [batch.sentences for batch in physical_batches(bench.split, bench.table, more)]
    return total + added, np.concatenate([norms, seen.norms]), np.concatenate([sentences, *order])


@lru_cache(maxsize=len(BEFORE))
def _noise(bench: LessonModel, number: int) -> np.ndarray:
    """The noise of a step at σ·C = 1, float32 [size]."""
    unit = np.zeros(len(bench.weights), dtype=np.float32)
    _learner(bench, Setting(clip_norm=1.0), at_first=True).add_noise(unit, number)
    return unit


@lru_cache(maxsize=len(BEFORE))
def _weights(bench: LessonModel, number: int) -> np.ndarray:
    """The tagger's weights after so many steps without noise, with the paper's clip norm, batch size and learning
    rate, float32 [size]."""
    if number == 0:
        return bench.weights
    earlier = BEFORE[BEFORE.index(number) - 1]
    learner = _learner(bench, Setting(noise_multiplier=0, before=earlier))
    for done in range(earlier, number):
        with GRADIENT_LOCK:
            learner.step(done)
    return learner.weights


def _learner(bench: LessonModel, setting: Setting, *, at_first: bool = False) -> "DPSGD":
    """What trains, at the weights that the setting wants, or at the first ones."""
    from engine.training.dpsgd import DPSGD
    from engine.training.optimisers import Optimiser

    weights = (bench.weights if at_first else _weights(bench, setting.before)).copy()
    plan, optimiser = plan_of(bench, setting, BEFORE[-1] + 1), Optimiser(TrainingConfig(), len(weights))
    return DPSGD(bench.backend, plan, optimiser, _SECRETS, bench.split, bench.table, weights)
