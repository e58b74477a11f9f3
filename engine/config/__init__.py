"""Configurations: frozen, keyword-only dataclasses that validate their values.

A configuration is a value: two equal ones describe the same work. Its canonical JSON, the checksum of the corpus and
the engine version give the run's identity (:func:`run_id`). Equal work is therefore done once, and outdated results
never appear as current.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from engine import PLAIN_VERSION, PRIVATE_VERSION
from engine.config.parts import (
    AUTOMATIC,
    CLIPPINGS,
    DEFAULT_CLIP_NORM,
    FEATURES,
    IN_CONTEXT,
    JOIN,
    LOSSES,
    MINILM,
    NOISE,
    NOISE_SOURCES,
    NOTHING,
    OPTIMISERS,
    PARTITIONS,
    SAMPLINGS,
    SCHEDULES,
    SCHEMES,
    SYNTHETIC,
    WEIGHTINGS,
    FederationConfig,
    PrivacyConfig,
    TaggerConfig,
    TrainingConfig,
)
from engine.errors import InvalidConfig
from engine.taggers import KINDS, splits_of
from engine.validation import integer, number, one_of, text

__all__ = [
    "AUTOMATIC",
    "CLIPPINGS",
    "DEFAULT_CLIP_NORM",
    "FEATURES",
    "FLAT",
    "IN_CONTEXT",
    "JOIN",
    "LOSSES",
    "MINILM",
    "NOISE",
    "NOISE_SOURCES",
    "NOTHING",
    "OPTIMISERS",
    "PARTITIONS",
    "SAMPLINGS",
    "SCHEDULES",
    "SCHEMES",
    "SYNTHETIC",
    "WEIGHTINGS",
    "FederationConfig",
    "PrivacyConfig",
    "SimulationConfig",
    "TaggerConfig",
    "TrainingConfig",
    "but_for_noise",
    "engine_version",
    "run_id",
    "run_key",
    "with_noise",
]


@dataclass(frozen=True, kw_only=True)
class SimulationConfig:
    """The complete configuration of one run.

    Attributes:
        corpus: A name of the catalogue, or a path to a file or folder. Several names joined by ``JOIN`` are the corpora
            of as many clients (FedNER, section 3.2). Each client then has its own entity types and keeps the private
            head above the shared layers.
        data_fraction: Share of the training sentences that is used, in (0, 1]; it gives no amplification by
            subsampling.
        tagger: The model.
        embeddings: Name of the spaCy package with the static word vectors.
        features: Features of a token, each value adding to the one before. "vectors": the word vector, as in the
            papers. "shapes": the word shape. "contextual": contextual vectors of a public language model. "tuned":
            those of the same model fine-tuned on public entities. "names": the output of spaCy's public NER model.
        language_model: Public language model of the "contextual" features, by default MiniLM. Another one is named by
            its shape and checksum, see :mod:`engine.embeddings.custom_model`.
        training: The optimisation.
        privacy: The privacy mechanism.
        federation: The clients.
        seed: Seed of every random stream.
    """

    corpus: str = SYNTHETIC
    data_fraction: float = 1.0
    tagger: TaggerConfig = field(default_factory=TaggerConfig)
    embeddings: str = "en_core_web_md"
    features: str = "vectors"
    language_model: str = MINILM
    training: TrainingConfig = field(default_factory=TrainingConfig)
    privacy: PrivacyConfig = field(default_factory=PrivacyConfig)
    federation: FederationConfig = field(default_factory=FederationConfig)
    seed: int = 0

    def __post_init__(self) -> None:
        text("corpus", self.corpus)
        number("data_fraction", self.data_fraction, 0, 1, "a number in (0, 1]", low_open=True)
        object.__setattr__(self, "data_fraction", float(self.data_fraction))
        text("embeddings", self.embeddings)
        self._check_features()
        integer("seed", self.seed, 0, 2**32 - 1)
        if self.platforms:
            object.__setattr__(self, "federation", _of_platforms(self.platforms, self.federation))
        object.__setattr__(self, "tagger", _with_schemes(self.tagger, self.platforms))
        self._check_platforms()
        self._check_mechanism()

    def _check_features(self) -> None:
        one_of("features", self.features, FEATURES)
        if KINDS[self.tagger.name].in_context and self.features not in IN_CONTEXT:
            raise InvalidConfig(
                f"features={self.features!r}, expected one of {', '.join(IN_CONTEXT)}, since "
                f"tagger={self.tagger.name!r} reads vectors in context"
            )
        text("language_model", self.language_model)
        if self.language_model != MINILM and self.features != "contextual":
            raise InvalidConfig(
                f"language_model={self.language_model!r}, expected {MINILM!r} with features={self.features!r}: another "
                "model can only replace it with 'contextual'"
            )

    def _check_platforms(self) -> None:
        federation = self.federation
        if len(self.tagger.schemes) > 1 and splits_of(self.tagger.name)[-1] in (federation.shared_parts or ()):
            raise InvalidConfig(
                f"scheme={self.tagger.scheme!r}, expected one for all clients, since they share the scores of their "
                f"tags: shared={federation.shared!r}"
            )
        if federation.shared is not None and not self.platforms:
            raise InvalidConfig(
                f"shared={federation.shared!r}, expected none: clients with parts of one corpus share the whole tagger"
            )
        if federation.shared == NOTHING and self.privacy.kind.client_level and self.privacy.private:
            raise InvalidConfig(
                f"shared='nothing', expected a part: mechanism={self.privacy.mechanism!r} protects the sent updates"
            )
        if federation.masked and not self.platforms:
            raise InvalidConfig(
                f"masked={federation.masked:g}, expected 0: only clients with corpora of their own have common entities"
            )
        if federation.together < 1 and (not self.platforms or federation.shared == NOTHING):
            raise InvalidConfig(
                f"together={federation.together:g}, expected 1: only clients that share layers can stop sharing them"
            )

    def _check_mechanism(self) -> None:
        mechanism, federation = self.privacy.mechanism, self.federation
        whole_clients = self.privacy.kind.client_level
        if whole_clients and federation.clients == 1:
            raise InvalidConfig(f"clients=1, expected at least 2, since mechanism={mechanism!r} protects whole clients")
        if self.privacy.kind.poisson_clients and self.privacy.sampling != "poisson":
            raise InvalidConfig(
                f"sampling={self.privacy.sampling!r}, expected 'poisson', since mechanism={mechanism!r} draws the "
                "clients of a round independently"
            )
        if self.privacy.kind.distributed_noise and federation.participants == 1:
            raise InvalidConfig(
                f"participants=1, expected at least 2, since mechanism={mechanism!r} hides each client among others"
            )
        if whole_clients and federation.schedule == "gradients":
            raise InvalidConfig(
                f"schedule='gradients', expected 'averaging', since mechanism={mechanism!r} bounds the update of a "
                "round, and there each step is a round"
            )
        if federation.clients == 1 and federation.schedule == "gradients":
            raise InvalidConfig("schedule='gradients', expected 'averaging', since clients=1 has no other client")
        if federation.weighting == ("equal" if whole_clients else "examples"):
            object.__setattr__(self, "federation", dataclasses.replace(federation, weighting=None))
        elif whole_clients and federation.weighting:
            raise InvalidConfig(
                f"weighting={federation.weighting!r}, expected 'equal', since mechanism={mechanism!r} bounds each "
                "client's contribution equally"
            )

    @property
    def platforms(self) -> tuple[str, ...]:
        """The corpus of each client; empty where all clients have parts of one corpus."""
        names = tuple(self.corpus.split(JOIN))
        return names if len(names) > 1 else ()

    @property
    def schemes(self) -> tuple[str, ...]:
        """The tag scheme of each client, or the only one."""
        schemes = self.tagger.schemes
        return schemes * len(self.platforms) if self.platforms and len(schemes) == 1 else schemes

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; :meth:`from_dict` is the inverse."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Any) -> "SimulationConfig":
        """Read the values of :meth:`to_dict`.

        Raises:
            InvalidConfig: If a field is unknown or a value is out of range.
        """
        if isinstance(values, dict) and values.get("clients") == 1:  # format before federations existed
            values = {name: value for name, value in values.items() if name != "clients"}
        fields = _known_fields(cls, values, "configuration")
        for name, part in _PARTS.items():
            if name in fields:
                fields[name] = part(**_known_fields(part, fields[name], name))
        return cls(**fields)

    def flat(self) -> dict[str, Any]:
        """Return all fields by name, without the parts they belong to; the tagger's name is ``tagger``.

        :meth:`from_flat` is the inverse.
        """
        return {name: getattr(getattr(self, part) if part else self, own) for name, (part, own) in FLAT.items()}

    @classmethod
    def from_flat(cls, values: Mapping[str, Any]) -> "SimulationConfig":
        """Read the values of :meth:`flat`; missing fields have their defaults.

        Raises:
            InvalidConfig: If a field is unknown or a value is out of range.
        """
        parts: dict[str, dict[str, Any]] = {"": {}}
        for name, value in values.items():
            if name not in FLAT:
                raise InvalidConfig(f"unknown field {name!r}, expected one of {', '.join(sorted(FLAT))}")
            part, own = FLAT[name]
            parts.setdefault(part, {})[own] = value
        return cls.from_dict(parts.pop("") | parts)

    def canonical_json(self) -> str:
        """Return the same text for equal configurations, on any machine."""
        return _canonical(self.to_dict())


def _of_platforms(platforms: tuple[str, ...], federation: FederationConfig) -> FederationConfig:
    """Return the federation with one client for each corpus."""
    if not all(map(str.strip, platforms)) or len(set(platforms)) < len(platforms):
        raise InvalidConfig(f"corpus={JOIN.join(platforms)!r}, expected a different corpus for each client")
    if federation.partition != "random":
        raise InvalidConfig(
            f"partition={federation.partition!r}, expected 'random', since each client has a corpus of its own"
        )
    if federation.clients not in (1, len(platforms)):
        raise InvalidConfig(f"clients={federation.clients}, expected {len(platforms)}, one for each corpus")
    return dataclasses.replace(federation, clients=len(platforms))


def _with_schemes(tagger: TaggerConfig, platforms: tuple[str, ...]) -> TaggerConfig:
    """Return the tagger with one tag scheme for each client, or one name for all."""
    names = tagger.schemes
    if len(names) not in (1, len(platforms)):
        expected = f"one, or {len(platforms)}: one for each client" if platforms else "one for the one corpus"
        raise InvalidConfig(f"scheme={tagger.scheme!r}, expected {expected}")
    return tagger if len(names) == 1 or len(set(names)) > 1 else dataclasses.replace(tagger, scheme=names[0])


_PARTS: dict[str, Any] = {
    "tagger": TaggerConfig,
    "training": TrainingConfig,
    "privacy": PrivacyConfig,
    "federation": FederationConfig,
}
FLAT: dict[str, tuple[str, str]] = {
    **{own.name: ("", own.name) for own in dataclasses.fields(SimulationConfig) if own.name not in _PARTS},
    **{
        (part if own.name == "name" else own.name): (part, own.name)
        for part, kind in _PARTS.items()
        for own in dataclasses.fields(kind)
    },
}
"""Part ("" for none) and name there of each field of a flat configuration."""


def _canonical(values: dict[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


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


def _known_fields(cls: type, values: Any, where: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise InvalidConfig(f"{where}={values!r}, expected a table of fields")
    names = _names(cls)
    if not values.keys() <= names:
        unknown = sorted(str(name) for name in values if name not in names)
        raise InvalidConfig(f"{where} has the unknown field {unknown[0]!r}, expected only {', '.join(sorted(names))}")
    return dict(values)


@lru_cache
def _names(cls: type) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(cls))


def engine_version(config: SimulationConfig) -> str:
    """Return the engine version of this configuration's records.

    Runs with and without noise have separate versions: a change of the noise leaves the others valid.
    """
    return PRIVATE_VERSION if config.privacy.private else PLAIN_VERSION


def run_key(config: SimulationConfig, corpus_checksum: str, version: str | None = None) -> str:
    """Return 64 hexadecimal digits that are equal exactly when configuration, corpus and engine version are.

    Only differences from the defaults enter: a field that is added later changes no identity.

    Args:
        config: The configuration.
        corpus_checksum: Checksum of its corpus.
        version: Engine version, by default the current one.
    """
    chosen = _differences(config.to_dict(), SimulationConfig().to_dict())
    text = "\n".join([_canonical(chosen), corpus_checksum, version or engine_version(config)])
    return hashlib.sha256(text.encode()).hexdigest()


def run_id(config: SimulationConfig, corpus_checksum: str, version: str | None = None) -> str:
    """Return the identity of a run: the first 16 digits of :func:`run_key`.

    Args:
        config: The configuration.
        corpus_checksum: Checksum of its corpus.
        version: Engine version, by default the current one.
    """
    return run_key(config, corpus_checksum, version)[:16]
