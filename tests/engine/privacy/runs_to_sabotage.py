"""Private runs of realistic sizes on random sentences, for the sabotage tests.

* ``bilstm``: BiLSTM-CRF with 324,981 weights, batches of 32, 4,388 steps (the paper's setting on CoNLL-2003); *
``linear-1024`` and ``linear-4096``: linear CRF with 20,439 weights, Adam, 137 and 34 steps (recommended settings); *
``dp-fedavg`` and ``local``: 20 clients, the linear CRF's number of weights, 30 rounds.

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
