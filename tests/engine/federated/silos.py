"""Three small silos with their own tag sets, for tests."""

from typing import Any

import numpy as np
import pytest

from engine.config import SimulationConfig
from engine.embeddings import EncodedSplit
from engine.federated.fedavg import ClientData, Federation
from engine.federated.fedsgd import GradientFederation
from engine.federated.plan import federated_plan
from engine.seeds import Secrets, Seeds
from engine.taggers.layers import CRF, BidirectionalLSTM, Dense
from engine.taggers.tagger import Tagger, stack
from engine.training.compiled.backend import CompiledBackend

SIZES, TAGS = (60, 40, 90), (4, 3, 6)
TABLE = np.random.default_rng(9).standard_normal((20, 7)).astype(np.float32)
FLAT: dict[str, Any] = {
    "corpus": "a + b + c",
    "batch_size": 8,
    "epochs": 2.0,
    "rounds": 3,
    "clip_norm": 0.4,
    "learning_rate": 0.3,
}


def tagger(tags: int, shared: str | None = None) -> Tagger:
    parts = SimulationConfig.from_flat(FLAT | {"shared": shared}).federation.shared_parts
    return stack(7, (BidirectionalLSTM(7, 8), Dense(16, tags)), CRF(tags)).sharing(parts)


def sentences(number: int, tags: int) -> EncodedSplit:
    random = np.random.default_rng(number)
    lengths = random.integers(1, 9, number)
    return EncodedSplit(
        random.integers(0, 20, lengths.sum()).astype(np.int32),
        random.integers(0, tags, lengths.sum()).astype(np.int16),
        np.concatenate([[0], np.cumsum(lengths)]),
    )


def federation(tags: tuple[int, ...] = TAGS, **changes: Any) -> Federation:
    """Return a federation of the silos with the default settings and some changes."""
    config = SimulationConfig.from_flat(FLAT | changes)
    secrets = Secrets.seeded(config.seed, "run")
    shards = np.split(np.arange(sum(SIZES)), np.cumsum(SIZES)[:-1])
    plan = federated_plan(config, sum(SIZES), lambda: pytest.fail("not needed"), lambda: secrets, platforms=shards)
    kinds = [tagger(number_of_tags, config.federation.shared) for number_of_tags in tags]
    shared, parts = kinds[0].shared.stop, config.federation.together < 1
    first, start = 0, 0 if parts else shared
    holdings, weights = [], [kinds[0].initial_weights(rng())[:start]]
    for number, number_of_tags, kind in zip(SIZES, tags, kinds, strict=True):
        private = slice(start, start + kind.size - (0 if parts else shared))
        holdings.append(
            ClientData(
                split=sentences(number, number_of_tags),
                table=TABLE,
                backend=CompiledBackend(kind),
                shared=0 if parts else shared,
                initial_size=shared if parts else 0,
                private_slice=private if private.stop > private.start else slice(0, 0),
                first=first,
                layers=kind.stretches,
            )
        )
        initial = kind.initial_weights(rng())
        weights += [kinds[0].initial_weights(rng())[:shared], initial[shared:]] if parts else [initial[shared:]]
        first, start = first + number, private.stop
    federation_type = GradientFederation if config.federation.schedule == "gradients" else Federation
    return federation_type(
        plan, holdings, np.concatenate(weights), config.training, seeds=Seeds(config.seed), secrets=secrets
    )


def rng() -> np.random.Generator:
    return np.random.default_rng(0)
