"""What a server that follows every rule, and is curious, reads in what clients send: the words of their sentences.

A client's update is made by the code that trains: clipped sums of one step, as FedSGD sends them, or weights after
several local steps, as federated averaging does (McMahan et al. 2017). The server tells from it which words were there
(:mod:`engine.privacy.audit.gradient_inversion`). Where the answer is not exact, it chooses its method on sentences of
its own, from which it makes an update of the same kind: how many directions to keep, up to which distance a word is
there, or to leave the update alone and name the words that are frequent. So it is at least about as good as without the
update, and what a picture says of it is what the update adds.
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
"""Noise multipliers that are looked at: usual ones are near 1."""
_KEPT = (1.0, 0.75, 0.5, 0.25)
"""Shares of the directions found that the server tries to keep."""
_OWN = 1_000_003
"""Added to the seed for what the server makes itself."""
_MARGIN = 0.05
"""By so much F1 a method that uses the update has to be better than one that does not."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """sentences: that a client trains on in each step. steps: that it takes before it sends anything, each on other
    sentences. clients: whose updates the server sees summed up; 1 is one client's own. noise_multiplier: σ. clip_norm:
    C, of each sentence's gradient; None is no clipping, which is allowed without noise alone. seed: of who the clients
    are, and of the noise. Raises InvalidConfig."""

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
            number("noise_multiplier", self.noise_multiplier, 0, 0, "0, since nothing is clipped")

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on each value of the sum of all steps and clients."""
        if self.clip_norm is None:
            return 0.0
        return self.noise_multiplier * self.clip_norm * float(np.sqrt(self.steps * self.clients))


@dataclass(frozen=True)
class Reading:
    """What the server reads. setting: of what. there: words with a vector that the clients have; said: that the server
    names; right: those that it names rightly. names: words that are part of a name in these sentences; names_read:
    those of them that it names. precision, recall: 0 to 1. by_update: whether it used the update at all, or did better
    with frequent words on its own sentences. sentences: of the first client, each word with whether it was read, None
    where it has no vector. rank: directions of the update that it used, of so many ``dimensions``."""

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
    """Σ over clients and steps of their clipped sums G, as the first kernels have it, [d, m]. own: G Gᵀ; cross: G Zᵀ +
    Z Gᵀ, Z being the noise of a seed at σ·C = 1; both float64 [d, d]. rounding: standard deviation of its rounding.
    chosen: which sentences it is of, [clients, sentences · steps]."""

    own: np.ndarray
    cross: np.ndarray
    columns: int
    seed: int
    rounding: float
    chosen: np.ndarray


@dataclass(frozen=True)
class _Method:
    """How the server tells words. kept: share of the directions found; 0 is by frequency. largest: see
    :func:`engine.privacy.audit.gradient_inversion.read`."""

    kept: float
    largest: float


def read(bench: LessonModel, setting: Setting) -> Reading:
    """One reading. The noise of a step does not depend on what it is added to; that later steps start from noisier
    weights, which changes no word, is left out."""
    return _read(bench, setting, _method(bench, setting))


@lru_cache(maxsize=512)
def by_noise(bench: LessonModel, setting: Setting) -> tuple[Reading, ...]:
    """The same at each of ``NOISE``, where ``setting`` has none; without clipping there is no noise to add. Once the
    server has left the update alone, it does so under more noise."""
    readings: list[Reading] = []
    for sigma in NOISE if setting.clip_norm is not None else NOISE[:1]:
        noisy = replace(setting, noise_multiplier=sigma)
        given_up = readings and not readings[-1].by_update
        readings.append(_read(bench, noisy, _blind(bench, setting) if given_up else _method(bench, noisy)))
    return tuple(readings)


@lru_cache(maxsize=4)
def ahead(bench: LessonModel, settings: tuple[Setting, ...]) -> PollDrivenTask[None]:
    """Works out what may be asked for next, one after another, while a page has looked a moment ago."""

    def compute(tell: Callable[[str], None]) -> Iterator[None]:
        for setting in settings:
            by_noise(bench, setting)
            yield None

    return PollDrivenTask(compute)


def _read(bench: LessonModel, setting: Setting, method: "_Method") -> Reading:
    update = _update(bench, replace(setting, noise_multiplier=0.0), False)
    sentences, rank = update.chosen.reshape(-1), 0
    if method.kept:
        space = _space(update, setting)
        rank = round(method.kept * space.rank)
        distances = _outside(bench, space, [rank])[0]
    else:
        distances = _rarity(bench)
    said = (distances <= method.largest) & ~bench.empty
    there = bench.vocabulary_mask(bench.split, sentences)
    names = bench.vocabulary_mask(_names(bench), sentences)
    precision, recall = gradient_inversion.precision_and_recall(said, there)
    return Reading(
        setting=setting,
        there=int(there.sum()),
        said=int(said.sum()),
        right=int((said & there).sum()),
        names=int(names.sum()),
        names_read=int((said & names).sum()),
        precision=precision,
        recall=recall,
        by_update=method.kept > 0,
        sentences=tuple(_shown(bench, sentence, said) for sentence in update.chosen[0]),
        rank=rank,
        dimensions=len(update.own),
    )


@lru_cache(maxsize=1)
def _names(bench: LessonModel) -> "EncodedSplit":
    """The sentences with nothing but the words of their names: those whose tag is not the first one, O."""
    split = bench.split
    kept = np.flatnonzero(np.asarray(split.tags))
    return replace(
        split, rows=split.rows[kept], tags=split.tags[kept], offsets=np.searchsorted(kept, split.offsets), forms=None
    )


def _shown(bench: LessonModel, sentence: int, said: np.ndarray) -> tuple[tuple[str, bool | None], ...]:
    rows = bench.split.rows[bench.split.offsets[sentence] : bench.split.offsets[sentence + 1]]
    places = bench.place[rows]
    known = (None if bench.empty[place] else bool(said[place]) for place in places)
    return tuple(zip(bench.words[sentence], known, strict=True))


def _space(update: _Update, setting: Setting) -> Space:
    """What the server finds in an update with its noise."""
    products, std = update.own, setting.noise_std
    if std:
        products = products + std * update.cross + std**2 * _noise(len(products), update.columns, update.seed)[1]
    return gradient_inversion.space_of_products(products, update.columns, max(std, update.rounding))


@lru_cache(maxsize=4)
def _noise(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Z [d, m] and Z Zᵀ."""
    noise = Seeds(seed).stream("lesson noise").standard_normal((rows, columns))
    return noise, noise @ noise.T


def _outside(bench: LessonModel, space: Space, directions: list[int]) -> np.ndarray:
    return gradient_inversion.residual_norm_topk(space, bench.vocabulary, directions, _lengths(bench))


@lru_cache(maxsize=1)
def _lengths(bench: LessonModel) -> np.ndarray:
    return gradient_inversion.squared_lengths(bench.vocabulary)


@lru_cache(maxsize=1)
def _rarity(bench: LessonModel) -> np.ndarray:
    """Of each of the vocabulary: 1 / (1 + how often the server's own sentences have it), float32 [V]."""
    counts = np.bincount(bench.place[bench.known.rows], minlength=len(bench.vocabulary))
    return (1 / (1 + counts)).astype(np.float32)


def _method(bench: LessonModel, setting: Setting) -> _Method:
    """Exact where there is no noise, and room in the space; else what has the best F1 on an update with noise of the
    same size that the server makes of its own sentences."""
    if not setting.noise_multiplier and not _space(_update(bench, setting, False), setting).is_full_rank:
        return _Method(1.0, gradient_inversion.STRICT)
    return _chosen(bench, setting)


@lru_cache(maxsize=2048)
def _chosen(bench: LessonModel, setting: Setting) -> _Method:
    """One that uses the update has to be clearly better than frequent words."""
    ways: dict[float, list[tuple[float, float]]] = {0.0: [_frequent(bench, own) for own in _own(setting)]}
    for own in _own(setting):
        update = _update(bench, replace(own, noise_multiplier=0.0), True)
        there = bench.vocabulary_mask(bench.known, update.chosen.reshape(-1))[~bench.empty]
        space = _space(update, setting)
        kept = [share for share in _KEPT if 0 < round(share * space.rank) < len(space.basis)]
        found = _outside(bench, space, [round(share * space.rank) for share in kept])
        for share, distances in zip(kept, found, strict=True):
            ways.setdefault(share, []).append(gradient_inversion.threshold(distances[~bench.empty], there))
    tried = len(ways[0.0])
    f1 = {share: sum(each[1] for each in some) / tried - _MARGIN * (share > 0) for share, some in ways.items()}
    best = max(f1, key=lambda share: f1[share])
    return _Method(best, median(largest for largest, _ in ways[best]))


def _own(setting: Setting) -> list[Setting]:
    """Of updates that the server makes itself: several where one has few sentences, and chance much to say."""
    several = max(1, min(3, 12 // (setting.sentences * setting.steps * setting.clients)))
    return [replace(setting, seed=setting.seed + _OWN * number) for number in range(1, several + 1)]


def _blind(bench: LessonModel, setting: Setting) -> _Method:
    """Frequent words alone."""
    return _Method(0.0, median(_frequent(bench, own)[0] for own in _own(setting)))


def _frequent(bench: LessonModel, own: Setting) -> tuple[float, float]:
    """Up to which rarity a word is named for an update that the server makes itself, and how well that does."""
    return _frequent_without_noise(bench, replace(own, noise_multiplier=0.0))


@lru_cache(maxsize=512)
def _frequent_without_noise(bench: LessonModel, own: Setting) -> tuple[float, float]:
    there = bench.vocabulary_mask(bench.known, _update(bench, own, True).chosen.reshape(-1))
    return gradient_inversion.threshold(_rarity(bench)[~bench.empty], there[~bench.empty])


@lru_cache(maxsize=16)
def _update(bench: LessonModel, setting: Setting, known: bool) -> _Update:
    """known: of the server's own sentences."""
    split = bench.known if known else bench.split
    each = setting.sentences * setting.steps
    order = Seeds(setting.seed).stream("curious clients").permutation(len(split))
    chosen = order[np.arange(setting.clients * each) % len(order)].reshape(setting.clients, each)
    # Sums of one step add up to that of all sentences, which is computed faster at once.
    visits = chosen.reshape(1, -1) if setting.steps == 1 else chosen
    total, variance = np.zeros(bench.weights.size), 0.0
    for sentences in visits:
        with GRADIENT_LOCK:
            update, error = _client(bench, split, setting, sentences)
        total, variance = total + update, variance + error**2
    gradient = gradient_inversion.first_kernels(bench.tagger, total)
    noise, _ = _noise(*gradient.shape, setting.seed)
    across = gradient @ noise.T
    return _Update(
        gradient @ gradient.T, across + across.T, gradient.shape[1], setting.seed, float(np.sqrt(variance)), chosen
    )


def _client(
    bench: LessonModel, split: "EncodedSplit", setting: Setting, sentences: np.ndarray
) -> tuple[np.ndarray, float]:
    """One client's update [size], as a sum of clipped gradients, and the standard deviation of its rounding."""
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
    weights = bench.weights.copy()
    own = subset(split, np.sort(sentences))
    learner = DPSGD(bench.backend, plan, Optimiser(training, weights.size), streams, own, bench.table, weights)
    if setting.steps == 1:
        return learner.clipped_sum(np.arange(len(own)))[0], 0.0
    for step in range(setting.steps):
        learner.step(step)
    scale = plan.batch_size / training.learning_rate
    moved = (bench.weights.astype(np.float64) - weights) * scale
    error = gradient_inversion.ROUNDING * float(np.abs(bench.weights).max()) * float(np.sqrt(setting.steps)) * scale
    return moved, error
