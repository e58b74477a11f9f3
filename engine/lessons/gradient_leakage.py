"""Gradient leakage: an honest-but-curious server reconstructs the words of the clients' sentences from their updates.

The training code computes a client's update: the clipped sum of one step, as in FedSGD, or the weights after several
local steps, as in FedAvg (McMahan et al. 2017). The server infers from it which words the sentences contain
(:mod:`engine.privacy.audit.gradient_inversion`).

If no exact inference is possible, the server tunes its method on its own sentences, from which it computes an update of
the same kind. The method is a number of directions and a largest distance of a word, or it ignores the update and
guesses frequent words. Its score is therefore at least about that of guessing, and the difference is the leakage.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from engine.config import TrainingConfig
from engine.lessons.background_task import PollDrivenTask
from engine.lessons.fixtures import GRADIENT_LOCK, LessonModel
from engine.privacy.audit import gradient_inversion
from engine.privacy.audit.gradient_inversion import Space
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Seeds
from engine.validation import integer, number

if TYPE_CHECKING:
    from engine.embeddings import EncodedSplit

NOISE = (0.0, 3e-4, 1e-3, 3e-3, 1e-2, 0.1, 1.0)
"""Noise multipliers of the curve; usual values are near 1."""
_KEPT = (1.0, 0.75, 0.5, 0.25)
"""Shares of the recovered directions that the server tries."""
_OWN = 1_000_003
"""Added to the seed for updates that the server computes itself."""
_MARGIN = 0.05
"""F1 by which a method that uses the update must exceed one that ignores it."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Settings of an update.

    Attributes:
        sentences: Sentences of a client in each step.
        steps: Local steps before the client sends its update, each on other sentences.
        clients: Number of clients whose summed update the server sees (secure aggregation); 1 is a single client.
        noise_multiplier: σ.
        clip_norm: C, for the gradient of each sentence; None means no clipping and is valid only without noise.
        seed: Seed of the clients' sentences and of the noise.

    Raises:
        InvalidConfig: If a value is out of range.
    """

    sentences: int = 2
    steps: int = 1
    clients: int = 1
    noise_multiplier: float = 0.0
    clip_norm: float | None = 1.5
    seed: int = 0

    def __post_init__(self) -> None:
        integer("sentences", self.sentences, 1, 1000)
        integer("steps", self.steps, 1, 100)
        integer("clients", self.clients, 1, 1000)
        number("noise_multiplier", self.noise_multiplier, 0, 10_000, "a number from 0 to 10000")
        if self.clip_norm is not None:
            number("clip_norm", self.clip_norm, 0, 1e6, "a number in (0, 1000000]", low_open=True)
        elif self.noise_multiplier:
            number("noise_multiplier", self.noise_multiplier, 0, 0, "0 without clipping")

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on each value of the sum over all steps and clients."""
        if self.clip_norm is None:
            return 0.0
        return self.noise_multiplier * self.clip_norm * float(np.sqrt(self.steps * self.clients))


@dataclass(frozen=True)
class Reading:
    """The words that the server reconstructs.

    Attributes:
        setting: Settings of the update.
        there: Number of distinct words with a vector in the clients' sentences.
        said: Number of words that the server claims.
        right: Number of claimed words that are correct.
        names: Number of words that belong to entities in these sentences.
        names_read: Number of these that the server claims.
        precision: Precision of the claimed words, 0 to 1.
        recall: Recall of the claimed words, 0 to 1.
        by_update: Whether the server used the update; otherwise frequent words scored better on its own sentences.
        sentences: Sentences of the first client: each word with whether it was claimed, None without a vector.
        rank: Number of directions of the update that the server used.
        dimensions: Number of dimensions of the space.
    """

    setting: Setting
    there: int
    said: int
    right: int
    names: int
    names_read: int
    precision: float
    recall: float
    by_update: bool
    sentences: tuple[tuple[tuple[str, bool | None], ...], ...]
    rank: int
    dimensions: int


@dataclass(frozen=True, eq=False)
class _Update:
    """The sum G over clients and steps of their clipped sums, restricted to the first kernels, [d, m].

    Attributes:
        own: G Gᵀ, float64 [d, d].
        cross: G Zᵀ + Z Gᵀ, float64 [d, d]; Z is the noise of a seed at σ·C = 1.
        columns: m.
        seed: Seed of the noise.
        rounding: Standard deviation of the rounding error.
        chosen: Indices of the sentences, [clients, sentences · steps].
    """

    own: np.ndarray
    cross: np.ndarray
    columns: int
    seed: int
    rounding: float
    chosen: np.ndarray


@dataclass(frozen=True)
class _Method:
    """The method of the server.

    Attributes:
        kept: Share of the recovered directions that it uses; 0 means that it guesses by frequency.
        largest: Largest distance of a claimed word, see :func:`engine.privacy.audit.gradient_inversion.read`.
    """

    kept: float
    largest: float


def read(model: LessonModel, setting: Setting) -> Reading:
    """Return the reconstruction from one update.

    The noise of a step does not depend on the gradient. The simulation omits that later steps start from noisier
    weights; this changes no word.
    """
    return _read(model, setting, _method(model, setting))


@lru_cache(maxsize=512)
def by_noise(model: LessonModel, setting: Setting) -> tuple[Reading, ...]:
    """Return the reconstructions at each of ``NOISE``, or only without noise if ``setting`` has no clipping.

    Once the server ignores the update, it also does so under more noise. ``setting`` itself has no noise.
    """
    readings: list[Reading] = []
    for sigma in NOISE if setting.clip_norm is not None else NOISE[:1]:
        noisy = replace(setting, noise_multiplier=sigma)
        given_up = readings and not readings[-1].by_update
        readings.append(_read(model, noisy, _blind(model, setting) if given_up else _method(model, noisy)))
    return tuple(readings)


@lru_cache(maxsize=4)
def ahead(model: LessonModel, settings: tuple[Setting, ...]) -> PollDrivenTask[None]:
    """Return a task that computes the settings that a user may choose next, one after another, while a page polls."""

    def compute(on_progress: Callable[[str], None]) -> Iterator[None]:
        for setting in settings:
            by_noise(model, setting)
            yield None

    return PollDrivenTask(compute)


def _read(model: LessonModel, setting: Setting, method: "_Method") -> Reading:
    update = _update(model, replace(setting, noise_multiplier=0.0), False)
    sentences, rank = update.chosen.reshape(-1), 0
    if method.kept:
        space = _space(update, setting)
        rank = round(method.kept * space.rank)
        distances = _outside(model, space, [rank])[0]
    else:
        distances = _rarity(model)
    claimed = (distances <= method.largest) & ~model.empty
    present = model.vocabulary_mask(model.split, sentences)
    names = model.vocabulary_mask(_names(model), sentences)
    precision, recall = gradient_inversion.precision_and_recall(claimed, present)
    return Reading(
        setting=setting,
        there=int(present.sum()),
        said=int(claimed.sum()),
        right=int((claimed & present).sum()),
        names=int(names.sum()),
        names_read=int((claimed & names).sum()),
        precision=precision,
        recall=recall,
        by_update=method.kept > 0,
        sentences=tuple(_marked(model, sentence, claimed) for sentence in update.chosen[0]),
        rank=rank,
        dimensions=len(update.own),
    )


@lru_cache(maxsize=1)
def _names(model: LessonModel) -> "EncodedSplit":
    """Return the sentences reduced to the words of entities, whose tag is not the first one, O."""
    split = model.split
    kept = np.flatnonzero(np.asarray(split.tags))
    return replace(
        split, rows=split.rows[kept], tags=split.tags[kept], offsets=np.searchsorted(kept, split.offsets), forms=None
    )


def _marked(model: LessonModel, sentence: int, claimed: np.ndarray) -> tuple[tuple[str, bool | None], ...]:
    """Return the words of a sentence, each with whether the server claims it; None without a vector."""
    rows = model.split.rows[model.split.offsets[sentence] : model.split.offsets[sentence + 1]]
    indices = model.place[rows]
    marks = (None if model.empty[index] else bool(claimed[index]) for index in indices)
    return tuple(zip(model.words[sentence], marks, strict=True))


def _space(update: _Update, setting: Setting) -> Space:
    """Return the space that the server recovers from an update with its noise."""
    products, std = update.own, setting.noise_std
    if std:
        products = products + std * update.cross + std**2 * _noise(len(products), update.columns, update.seed)[1]
    return gradient_inversion.space_of_products(products, update.columns, max(std, update.rounding))


@lru_cache(maxsize=4)
def _noise(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Z [d, m] and Z Zᵀ."""
    noise = Seeds(seed).stream("lesson noise").standard_normal((rows, columns))
    return noise, noise @ noise.T


def _outside(model: LessonModel, space: Space, directions: list[int]) -> np.ndarray:
    return gradient_inversion.residual_norm_topk(space, model.vocabulary, directions, _lengths(model))


@lru_cache(maxsize=1)
def _lengths(model: LessonModel) -> np.ndarray:
    return gradient_inversion.squared_lengths(model.vocabulary)


@lru_cache(maxsize=1)
def _rarity(model: LessonModel) -> np.ndarray:
    """Return 1 / (1 + frequency in the server's own sentences) of each vocabulary entry, float32 [V]."""
    counts = np.bincount(model.place[model.known.rows], minlength=len(model.vocabulary))
    return (1 / (1 + counts)).astype(np.float32)


def _method(model: LessonModel, setting: Setting) -> _Method:
    """Return the method of the server.

    It is exact without noise, unless the space has full rank. Otherwise it is the method with the best F1 on an update
    with equal noise that the server computes from its own sentences.
    """
    if not setting.noise_multiplier and not _space(_update(model, setting, False), setting).is_full_rank:
        return _Method(1.0, gradient_inversion.STRICT)
    return _chosen(model, setting)


@lru_cache(maxsize=2048)
def _chosen(model: LessonModel, setting: Setting) -> _Method:
    """Return the method with the best F1; one that uses the update must exceed frequent words by ``_MARGIN``."""
    methods: dict[float, list[tuple[float, float]]] = {0.0: [_frequent(model, own) for own in _own(setting)]}
    for own in _own(setting):
        update = _update(model, replace(own, noise_multiplier=0.0), True)
        present = model.vocabulary_mask(model.known, update.chosen.reshape(-1))[~model.empty]
        space = _space(update, setting)
        kept = [share for share in _KEPT if 0 < round(share * space.rank) < len(space.basis)]
        residuals = _outside(model, space, [round(share * space.rank) for share in kept])
        for share, distances in zip(kept, residuals, strict=True):
            methods.setdefault(share, []).append(gradient_inversion.threshold(distances[~model.empty], present))
    updates = len(methods[0.0])
    f1 = {
        share: sum(score for _, score in results) / updates - _MARGIN * (share > 0)
        for share, results in methods.items()
    }
    best = max(f1, key=lambda share: f1[share])
    return _Method(best, median(largest for largest, _ in methods[best]))


def _own(setting: Setting) -> list[Setting]:
    """Return the settings of the server's own updates: several if one has few sentences, to reduce the variance."""
    updates = max(1, min(3, 12 // (setting.sentences * setting.steps * setting.clients)))
    return [replace(setting, seed=setting.seed + _OWN * number) for number in range(1, updates + 1)]


def _blind(model: LessonModel, setting: Setting) -> _Method:
    """Return the method that ignores the update and guesses frequent words."""
    return _Method(0.0, median(_frequent(model, own)[0] for own in _own(setting)))


def _frequent(model: LessonModel, own: Setting) -> tuple[float, float]:
    """Return the largest rarity at which frequent words are claimed for one of the server's own updates, and the F1."""
    return _frequent_without_noise(model, replace(own, noise_multiplier=0.0))


@lru_cache(maxsize=512)
def _frequent_without_noise(model: LessonModel, own: Setting) -> tuple[float, float]:
    present = model.vocabulary_mask(model.known, _update(model, own, True).chosen.reshape(-1))
    return gradient_inversion.threshold(_rarity(model)[~model.empty], present[~model.empty])


@lru_cache(maxsize=16)
def _update(model: LessonModel, setting: Setting, known: bool) -> _Update:
    """Return the update of the clients' sentences, or of the server's own ones (``known``)."""
    split = model.known if known else model.split
    size = setting.sentences * setting.steps
    order = Seeds(setting.seed).stream("curious clients").permutation(len(split))
    chosen = order[np.arange(setting.clients * size) % len(order)].reshape(setting.clients, size)
    # With one step, the sums of all clients add up to the sum of all sentences, which is faster to compute.
    visits = chosen.reshape(1, -1) if setting.steps == 1 else chosen
    total, variance = np.zeros(model.weights.size), 0.0
    for sentences in visits:
        with GRADIENT_LOCK:
            update, error = _client(model, split, setting, sentences)
        total, variance = total + update, variance + error**2
    gradient = gradient_inversion.first_kernels(model.tagger, total)
    noise, _ = _noise(*gradient.shape, setting.seed)
    cross = gradient @ noise.T
    return _Update(
        gradient @ gradient.T, cross + cross.T, gradient.shape[1], setting.seed, float(np.sqrt(variance)), chosen
    )


def _client(
    model: LessonModel, split: "EncodedSplit", setting: Setting, sentences: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return a client's update as a sum of clipped gradients, [size], and the standard deviation of its rounding."""
    from engine.embeddings.encoding import subset
    from engine.training.dpsgd import DPSGD
    from engine.training.optimisers import Optimiser

    plan = PrivacyPlan(
        examples=len(sentences),
        batch_size=setting.sentences,
        steps=setting.steps,
        noise_multiplier=0.0,
        clip_norm=setting.clip_norm,
        delta=1e-5,
        sampling="shuffle",
    )
    training, streams = TrainingConfig(), Seeds(setting.seed)
    weights = model.weights.copy()
    own = subset(split, np.sort(sentences))
    learner = DPSGD(model.backend, plan, Optimiser(training, weights.size), streams, own, model.table, weights)
    if setting.steps == 1:
        return learner.clipped_sum(np.arange(len(own)))[0], 0.0
    for step in range(setting.steps):
        learner.step(step)
    scale = plan.batch_size / training.learning_rate
    moved = (model.weights.astype(np.float64) - weights) * scale
    error = gradient_inversion.ROUNDING * float(np.abs(model.weights).max()) * float(np.sqrt(setting.steps)) * scale
    return moved, error
