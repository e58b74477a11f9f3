"""Private runs of realistic sizes on random sentences, for the sabotage tests.

* ``bilstm``: BiLSTM-CRF with 324,981 weights, batches of 32, 4,388 steps (the paper's setting on CoNLL-2003);
* ``linear-1024`` and ``linear-4096``: linear CRF with 20,439 weights, Adam, 137 and 34 steps (recommended settings);
* ``sized``: 20,000, 300,000 or 1,000,000 weights and a backend that costs little, ten epochs on 14,041 sentences;
* ``shards``: two clients, each of which trains on half of the sentences in two rounds;
* ``dp-fedavg`` and ``local``: 20 clients, the linear CRF's number of weights, 30 rounds.

A run is checked after 1, 2, 4, … steps and ends at the first failed check.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from engine.config import FederationConfig, PrivacyConfig, SimulationConfig, TaggerConfig, TrainingConfig
from engine.embeddings import EncodedSplit
from engine.embeddings.features import narrow
from engine.federated.fedavg import ClientData, Federation
from engine.federated.plan import federated_plan
from engine.privacy.noise_check.monitor import NoiseMonitor
from engine.privacy.plan import PrivacyPlan
from engine.records import NoiseCheck
from engine.seeds import Secrets, Seeds
from engine.taggers import Tagger, build
from engine.training.batches import Batch
from engine.training.compiled.backend import CompiledBackend
from engine.training.dpsgd import DPSGD, GradientSum
from engine.training.optimisers import Optimiser

CENTRAL = ("bilstm", "linear-1024", "linear-4096")
FEDERATED = ("dp-fedavg", "local")
CLIP_NORM = 0.1
_FEATURES, _NEAR, _TAGS = 993, 317, 9
_SIZES = {"bilstm": (32, 4388, 2000), "linear-1024": (1024, 137, 4000), "linear-4096": (4096, 34, 6000)}
"""Expected batch size, steps, sentences."""


def moments(last: int) -> Iterator[int]:
    """Yield 1, 2, 4 … and the last number."""
    number = 1
    while number < last:
        yield number
        number *= 2
    yield last


def central(kind: str, *, sampling: str = "poisson", seed: int = 18, **plan: Any) -> DPSGD:
    """Return a run at its first step. A short run has one close look: with this seed, at the first step."""
    batch_size, steps, sentences = _SIZES[kind]
    tagger, split, table = _material(kind == "bilstm", sentences)
    values = {"noise_multiplier": 1.0, "clip_norm": CLIP_NORM, "delta": 1e-5, "sampling": sampling} | plan
    made = PrivacyPlan(examples=sentences, batch_size=batch_size, steps=steps, **values)
    training = (
        TrainingConfig(learning_rate=0.15) if kind == "bilstm" else TrainingConfig(optimiser="adam", learning_rate=0.02)
    )
    secrets = Secrets.seeded(seed, kind)
    monitor = NoiseMonitor([made], tagger.size, layers=layers(tagger), secrets=secrets)
    weights = tagger.initial_weights(np.random.default_rng(0))
    optimiser = Optimiser(training, tagger.size)
    return DPSGD(_backend(kind == "bilstm"), made, optimiser, secrets, split, table, weights, monitor=monitor)


def layers(tagger: Tagger) -> list[tuple[str, slice]]:
    """Return the title and the slice of each part with weights."""
    every = zip(tagger.titles, tagger.parts, tagger.slices, strict=True)
    return [(title, stretch) for title, part, stretch in every if part.shapes]


def checked(run: DPSGD, steps: int) -> NoiseCheck:
    """Return the verdict at the first failure, or after this number of steps."""
    assert run.monitor
    taken = 0
    for moment in moments(steps):
        while taken < moment:
            run.step(taken)
            taken += 1
        found = run.monitor.verdict()
        if found.failed:
            break
    return found


@lru_cache(maxsize=1)
def _bilstm() -> Tagger:
    return build(TaggerConfig(name="bilstm-crf"), 300, _TAGS, 300)


@lru_cache(maxsize=1)
def _linear() -> Tagger:
    return build(TaggerConfig(name="linear-crf", window=2), _FEATURES, _TAGS, _NEAR)


@lru_cache(maxsize=2)
def _backend(bilstm: bool) -> CompiledBackend:
    return CompiledBackend(_bilstm() if bilstm else _linear())


@lru_cache(maxsize=3)
def _material(bilstm: bool, sentences: int) -> tuple[Tagger, EncodedSplit, np.ndarray]:
    """Return sentences of one or two tokens whose gradients are longer than the clip norm, some by far."""
    random = np.random.default_rng(1)
    lengths = random.integers(1, 3, sentences)
    tokens = int(lengths.sum())
    tags, offsets = random.integers(0, _TAGS, tokens).astype(np.int16), np.concatenate([[0], np.cumsum(lengths)])
    if bilstm:
        table = random.standard_normal((500, 300)).astype(np.float32)
        return _bilstm(), EncodedSplit(random.integers(0, 500, tokens).astype(np.int32), tags, offsets), table
    values = random.standard_normal((tokens, _FEATURES)).astype(np.float32) * random.gamma(1, 0.1, (tokens, 1))
    return _linear(), EncodedSplit(np.arange(tokens, dtype=np.int32), tags, offsets), narrow(values)


SIZED = {
    20_000: (1024, 137, TrainingConfig(optimiser="adam", learning_rate=0.02)),
    300_000: (32, 4388, TrainingConfig(optimiser="sgd", learning_rate=0.15)),
    1_000_000: (64, 2194, TrainingConfig(optimiser="adam", learning_rate=0.002)),
}
"""Expected batch size, steps and training of a run with this number of weights: ten epochs on 14,041 sentences."""
_SENTENCES = 14_041


class Ways:
    """A backend with weights only: a sentence's gradient depends on its first tag k and has norm (k + 1)/20."""

    def __init__(self, size: int) -> None:
        ways = np.random.default_rng(3).standard_normal((_TAGS, size)).astype(np.float32)
        self._ways = ways / np.linalg.norm(ways, axis=1, keepdims=True)

    def clipped_gradient(
        self, weights: np.ndarray, batch: Batch, clip_norm: float | None, by_layer: bool = False
    ) -> GradientSum:
        """Return the sum of the clipped gradients; the loss of a sentence is its norm."""
        tags = batch.tags[batch.offsets]
        norms = np.minimum((np.arange(_TAGS) + 1) / 20, clip_norm or np.inf)
        counts = np.bincount(tags, minlength=_TAGS) * norms
        return GradientSum(counts.astype(np.float32) @ self._ways, (tags[None] + 1) / 20, (tags + 1) / 20)

    def scores(self, weights: np.ndarray, batch: Batch) -> np.ndarray:
        """Return zeros."""
        return np.zeros((len(batch.tags), _TAGS), dtype=np.float32)


@lru_cache(maxsize=1)
def _ways(size: int) -> Ways:
    return Ways(size)


def sized(size: int, *, training: TrainingConfig | None = None, seed: int = 18, **plan: Any) -> DPSGD:
    """Return a run with this number of weights at its first step."""
    batch_size, steps, usual = SIZED[size]
    values = {"noise_multiplier": 1.0, "clip_norm": CLIP_NORM, "delta": 1e-5, "sampling": "poisson"} | plan
    made = PrivacyPlan(examples=_SENTENCES, batch_size=batch_size, steps=steps, **values)
    secrets = Secrets.seeded(seed, str(size))
    parts = [("body", slice(0, size - 81)), ("head", slice(size - 81, size))]
    monitor = NoiseMonitor([made], size, layers=parts, secrets=secrets)
    weights = np.random.default_rng(0).normal(0, 0.1, size).astype(np.float32)
    optimiser = Optimiser(training or usual, size)
    split, table = _tags(_SENTENCES)
    return DPSGD(_ways(size), made, optimiser, secrets, split, table, weights, monitor=monitor)


def shards(size: int, *, seed: int = 0) -> Federation:
    """Return a run of two clients and two rounds, in which sentences are protected."""
    config = SimulationConfig(
        training=TrainingConfig(batch_size=64, epochs=1, learning_rate=0.05, optimiser="sgd"),
        federation=FederationConfig(clients=2, rounds=2),
        privacy=PrivacyConfig(noise_multiplier=1.0, clip_norm=CLIP_NORM),
        seed=seed,
    )
    secrets, (split, table) = Secrets.seeded(seed, str(size)), _tags(2000)
    plan = federated_plan(config, len(split), _no_layout, lambda: secrets)
    weights = np.random.default_rng(0).normal(0, 0.1, size).astype(np.float32)
    holding = ClientData(split=split, table=table, backend=_ways(size), shared=size, layers=[("all", slice(0, size))])
    return Federation(plan, [holding], weights, config.training, seeds=Seeds(config.seed), secrets=secrets)


@lru_cache(maxsize=2)
def _tags(sentences: int) -> tuple[EncodedSplit, np.ndarray]:
    """Return sentences of one token with random tags."""
    tags = np.random.default_rng(1).integers(0, _TAGS, sentences).astype(np.int16)
    rows, offsets = np.zeros(sentences, dtype=np.int32), np.arange(sentences + 1)
    return EncodedSplit(rows, tags, offsets), np.zeros((1, 1), dtype=np.float32)


class Drift:
    """A backend with weights only: each sentence moves them in its own direction, at no cost."""

    def __init__(self, size: int) -> None:
        self._ways = np.random.default_rng(3).standard_normal((_TAGS, size)).astype(np.float32) / size**0.5

    def clipped_gradient(
        self, weights: np.ndarray, batch: Batch, clip_norm: float | None, by_layer: bool = False
    ) -> GradientSum:
        """Return the sum of the directions of the sentences' first tags."""
        counts = np.bincount(batch.tags[batch.offsets], minlength=_TAGS).astype(np.float32)
        number = len(batch.lengths)
        return GradientSum(counts @ self._ways, np.ones((1, number)), np.zeros(number))

    def scores(self, weights: np.ndarray, batch: Batch) -> np.ndarray:
        """Return zeros."""
        return np.zeros((len(batch.tags), _TAGS), dtype=np.float32)


def federated(mechanism: str, *, participants: int | None = None, seed: int = 0, rounds: int = 30) -> Federation:
    """Return a run of 20 clients whose updates are longer than the clip norm."""
    tagger, split, table = _material(False, 4000)
    config = SimulationConfig(
        training=TrainingConfig(batch_size=100, epochs=1, learning_rate=1.0),
        federation=FederationConfig(clients=20, participants=participants, rounds=rounds),
        privacy=PrivacyConfig(mechanism=mechanism, noise_multiplier=1.0, clip_norm=CLIP_NORM),
        seed=seed,
    )
    secrets = Secrets.seeded(seed, mechanism)
    plan = federated_plan(config, len(split), _no_layout, lambda: secrets)
    weights = tagger.initial_weights(np.random.default_rng(0))
    holding = ClientData(
        split=split, table=table, backend=Drift(tagger.size), shared=tagger.size, layers=layers(tagger)
    )
    return Federation(plan, [holding], weights, config.training, seeds=Seeds(config.seed), secrets=secrets)


def _no_layout() -> Any:
    raise AssertionError("the layout is not needed")


def verdict_of(run: Federation) -> NoiseCheck:
    """Return the verdict at the first failure, or at the end of the run."""
    (monitor,) = run.monitors
    due = set(moments(len(run.plan.rounds)))
    for progress in run.train():
        if progress.round is not None and progress.round + 1 in due and monitor.steps_seen:
            found = monitor.verdict()
            if found.failed:
                break
    return found
