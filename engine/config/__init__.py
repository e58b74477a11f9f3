"""Configurations: frozen, keyword-only dataclasses that validate their values.

A configuration is a value: two equal ones describe the same work. Its canonical JSON, the checksum of the corpus and
the engine version give the run's identity (:func:`run_id`). Equal work is therefore done once, and outdated results
never appear as current.
"""

import dataclasses
import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine import PLAIN_VERSION, PRIVATE_VERSION
from engine.config.encoder_registry import ENCODERS, MINILM
from engine.config.feature_registry import FEATURE_SETS
from engine.config.federation import NOTHING, PARTITIONS, FederationConfig
from engine.config.parameters import Parameter
from engine.config.privacy import DEFAULT_CLIP_NORM, NOISE, NOISE_SOURCES, PrivacyConfig
from engine.config.simulation import (
    FLAT,
    JOIN,
    PARAMETERS,
    PROPOSED,
    SYNTHETIC,
    SimulationConfig,
    canonical,
    fields_of,
)
from engine.config.tagger import OF_KIND, SCHEMES, TaggerConfig
from engine.config.training import OPTIMISERS, TrainingConfig

OWN = "my-"
"""Prefix of the names of uploaded corpora."""

__all__ = [
    "DEFAULT_CLIP_NORM",
    "ENCODERS",
    "FEATURE_SETS",
    "FLAT",
    "JOIN",
    "MINILM",
    "NOISE",
    "NOISE_SOURCES",
    "NOTHING",
    "OF_KIND",
    "OPTIMISERS",
    "OWN",
    "PARAMETERS",
    "PARTITIONS",
    "PROPOSED",
    "SCHEMES",
    "SYNTHETIC",
    "FederationConfig",
    "Parameter",
    "PrivacyConfig",
    "SimulationConfig",
    "TaggerConfig",
    "TrainingConfig",
    "but_for_noise",
    "engine_version",
    "fields_of",
    "has_own_corpus",
    "run_id",
    "run_key",
    "with_noise",
]


def _differences(values: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    changed = {}
    for name, value in values.items():
        if isinstance(value, dict):
            value = _differences(value, defaults[name])
            if not value:
                continue
        elif value == defaults[name]:
            continue
        changed[name] = value
    return changed


def has_own_corpus(corpus: str) -> bool:
    """Return whether a corpus name includes an upload or a file of the user, not published corpora only."""
    return any(name.startswith(OWN) or Path(name).is_absolute() for name in corpus.split(JOIN))


def with_noise(config: SimulationConfig, noise_multiplier: float) -> SimulationConfig:
    """Return the configuration with another noise multiplier.

    Without noise gradients are not clipped; with noise they are.
    """
    privacy = config.privacy
    clip_norm = (privacy.clip_norm or DEFAULT_CLIP_NORM) if noise_multiplier > 0 else None
    changed = dataclasses.replace(privacy, noise_multiplier=noise_multiplier, clip_norm=clip_norm)
    return dataclasses.replace(config, privacy=changed)


@lru_cache(maxsize=4096)
def but_for_seed(config: SimulationConfig) -> SimulationConfig:
    """Return the common configuration of runs that differ only in their seeds."""
    return dataclasses.replace(config, seed=0)


@lru_cache(maxsize=4096)
def but_for_noise(config: SimulationConfig) -> SimulationConfig:
    """Return the configuration with noise multiplier 1 and seed 0, so that runs along a trade-off curve are equal."""
    clip_norm = config.privacy.clip_norm or DEFAULT_CLIP_NORM
    privacy = dataclasses.replace(config.privacy, noise_multiplier=1.0, clip_norm=clip_norm, noise_source="seeded")
    return dataclasses.replace(config, seed=0, privacy=privacy)


def engine_version(config: SimulationConfig) -> str:
    """Return the engine version of this configuration's records.

    Runs with and without noise have separate versions: a change of the noise leaves the others valid.
    """
    return PRIVATE_VERSION if config.privacy.private else PLAIN_VERSION


def run_key(config: SimulationConfig, corpus_checksum: str, version: str | None = None) -> str:
    """Return 64 hexadecimal digits that are equal exactly when configuration, corpus and engine version are.

    Only differences from the defaults enter: a field that is added later changes no identity. The checksum of public
    weights from which the training starts enters too.

    Args:
        config: The configuration.
        corpus_checksum: Checksum of its corpus.
        version: Engine version, by default the current one.
    """
    chosen = _differences(config.to_dict(), SimulationConfig().to_dict())
    start = [config.public_head.checksum] if config.public_head else []
    text = "\n".join([canonical(chosen), corpus_checksum, version or engine_version(config), *start])
    return hashlib.sha256(text.encode()).hexdigest()


def run_id(config: SimulationConfig, corpus_checksum: str, version: str | None = None) -> str:
    """Return the identity of a run: the first 16 digits of :func:`run_key`.

    Args:
        config: The configuration.
        corpus_checksum: Checksum of its corpus.
        version: Engine version, by default the current one.
    """
    return run_key(config, corpus_checksum, version)[:16]
