"""What a user chooses: frozen, keyword-only, checked where it is made.

A configuration is a value: two that are equal describe the same work. Its canonical JSON, the checksum of the
corpus and the engine version give the run's identity (:func:`run_id`), so that equal work is done once and stale
work never shows as fresh.
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
    """One run, whole.

    corpus: a name of the catalogue, or a path to a file or folder. Several of them, joined by ``JOIN``, are the corpora
    of as many platforms: each client is one, has its own entity types, and keeps what lies above the shared layers to
    itself (FedNER, section 3.2). data_fraction: share of the training sentences
    that is used, in (0, 1]; it earns no privacy amplification. embeddings: name of the spaCy package whose static
    vectors feed the tagger. features: what a token is told by: its word's "vectors", as in the papers; "shapes", its
    spelling beside them; "contextual", vectors in context from a public language model beside these; "tuned", those of
    the same model tuned on public names beside these; "names", what spaCy's public name finder says beside these.
    language_model: the public one that "contextual" features come from, by default MiniLM; another by its shape and
    checksum, see :mod:`engine.embeddings.custom_model`.
    seed: of every random stream.
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
                "model can only stand in its place with 'contextual'"
            )

    def _check_platforms(self) -> None:
        federation = self.federation
        if len(self.tagger.schemes) > 1 and splits_of(self.tagger.name)[-1] in (federation.shared_parts or ()):
            raise InvalidConfig(
                f"scheme={self.tagger.scheme!r}, expected one for all platforms, since they share the scores of their "
                f"tags: shared={federation.shared!r}"
            )
        if federation.shared is not None and not self.platforms:
            raise InvalidConfig(
                f"shared={federation.shared!r}, expected none: clients with parts of one corpus share all of a tagger"
            )
        if federation.shared == NOTHING and self.privacy.kind.client_level and self.privacy.private:
            raise InvalidConfig(
                f"shared='nothing', expected a part: mechanism={self.privacy.mechanism!r} protects what is sent"
            )
        if federation.masked and not self.platforms:
            raise InvalidConfig(f"masked={federation.masked:g}, expected 0: only platforms have names in common")
        if federation.together < 1 and (not self.platforms or federation.shared == NOTHING):
            raise InvalidConfig(
                f"together={federation.together:g}, expected 1: only platforms that share something can part"
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
                f"participants=1, expected at least 2, since mechanism={mechanism!r} hides each among others"
            )
        if whole_clients and federation.schedule == "gradients":
            raise InvalidConfig(
                f"schedule='gradients', expected 'averaging', since mechanism={mechanism!r} bounds what a round of "
                "training tells, and each step is a round there"
            )
        if federation.clients == 1 and federation.schedule == "gradients":
            raise InvalidConfig("schedule='gradients', expected 'averaging', since clients=1 has nobody to send any to")
        if federation.weighting == ("equal" if whole_clients else "examples"):
            object.__setattr__(self, "federation", dataclasses.replace(federation, weighting=None))
        elif whole_clients and federation.weighting:
            raise InvalidConfig(
                f"weighting={federation.weighting!r}, expected 'equal', since mechanism={mechanism!r} bounds what each "
                "client adds alike"
            )

    @property
    def platforms(self) -> tuple[str, ...]:
        """The corpus of each platform; empty where all clients have parts of one corpus."""
        names = tuple(self.corpus.split(JOIN))
        return names if len(names) > 1 else ()

    @property
    def schemes(self) -> tuple[str, ...]:
        """The tag scheme of each platform, or the one there is."""
        found = self.tagger.schemes
        return found * len(self.platforms) if self.platforms and len(found) == 1 else found

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, ready for JSON; :meth:`from_dict` is the inverse."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Any) -> "SimulationConfig":
        """Read what :meth:`to_dict` wrote. Raises InvalidConfig on unknown fields and on values out of range."""
        if isinstance(values, dict) and values.get("clients") == 1:  # as it was written before there were federations
            values = {name: value for name, value in values.items() if name != "clients"}
        known = _known_fields(cls, values, "configuration")
        for name, part in _PARTS.items():
            if name in known:
                known[name] = part(**_known_fields(part, known[name], name))
        return cls(**known)

    def flat(self) -> dict[str, Any]:
        """All fields by their own names, without the parts they belong to; the tagger's name is ``tagger``.
        :meth:`from_flat` is the inverse."""
        return {name: getattr(getattr(self, part) if part else self, own) for name, (part, own) in FLAT.items()}

    @classmethod
    def from_flat(cls, values: Mapping[str, Any]) -> "SimulationConfig":
        """Read what :meth:`flat` wrote; what is left out has its default. Raises InvalidConfig."""
        parts: dict[str, dict[str, Any]] = {"": {}}
        for name, value in values.items():
            if name not in FLAT:
                raise InvalidConfig(f"unknown field {name!r}, expected one of {', '.join(sorted(FLAT))}")
            part, own = FLAT[name]
            parts.setdefault(part, {})[own] = value
        return cls.from_dict(parts.pop("") | parts)

    def canonical_json(self) -> str:
        """The same text for equal configurations, on any machine."""
        return _canonical(self.to_dict())


def _of_platforms(platforms: tuple[str, ...], federation: FederationConfig) -> FederationConfig:
    """A client for each platform."""
    if not all(map(str.strip, platforms)) or len(set(platforms)) < len(platforms):
        raise InvalidConfig(f"corpus={JOIN.join(platforms)!r}, expected the name of another corpus for each platform")
    if federation.partition != "random":
        raise InvalidConfig(
            f"partition={federation.partition!r}, expected 'random', since each platform has a corpus of its own"
        )
    if federation.clients not in (1, len(platforms)):
        raise InvalidConfig(
            f"clients={federation.clients}, expected {len(platforms)}, one for each platform of the corpus"
        )
    return dataclasses.replace(federation, clients=len(platforms))


def _with_schemes(tagger: TaggerConfig, platforms: tuple[str, ...]) -> TaggerConfig:
    """The same with one tag scheme for each platform, or one name for all."""
    names = tagger.schemes
    if len(names) not in (1, len(platforms)):
        wanted = f"one, or {len(platforms)}: one for each platform" if platforms else "one for the one corpus"
        raise InvalidConfig(f"scheme={tagger.scheme!r}, expected {wanted}")
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
"""Name of each field of a flat configuration → the part it belongs to ("" for none), and its name there."""


def _canonical(values: dict[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _differences(values: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in values.items():
        if isinstance(value, dict):
            value = _differences(value, usual[name])
            if not value:
                continue
        elif value == usual[name]:
            continue
        found[name] = value
    return found


def with_noise(config: SimulationConfig, noise_multiplier: float) -> SimulationConfig:
    """The same with another noise multiplier; without noise nothing is clipped, and with it something is."""
    privacy = config.privacy
    clip_norm = (privacy.clip_norm or DEFAULT_CLIP_NORM) if noise_multiplier > 0 else None
    changed = dataclasses.replace(privacy, noise_multiplier=noise_multiplier, clip_norm=clip_norm)
    return dataclasses.replace(config, privacy=changed)


@lru_cache(maxsize=4096)
def but_for_seed(config: SimulationConfig) -> SimulationConfig:
    """What runs have in common that differ in nothing but their seeds."""
    return dataclasses.replace(config, seed=0)


@lru_cache(maxsize=4096)
def but_for_noise(config: SimulationConfig) -> SimulationConfig:
    """The configuration with a noise multiplier of 1 and seed 0, so that runs along a trade-off curve are equal."""
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
    return frozenset(each.name for each in dataclasses.fields(cls))


def engine_version(config: SimulationConfig) -> str:
    """Of the records of this configuration: a change of the noise leaves runs without noise what they were."""
    return PRIVATE_VERSION if config.privacy.private else PLAIN_VERSION


def run_key(config: SimulationConfig, corpus_checksum: str, version: str | None = None) -> str:
    """64 hexadecimal digits that are equal exactly when the work is: configuration, corpus content, engine version.

    Of the configuration, what differs from the defaults: a field that is added later changes no identity.
    """
    chosen = _differences(config.to_dict(), SimulationConfig().to_dict())
    text = "\n".join([_canonical(chosen), corpus_checksum, version or engine_version(config)])
    return hashlib.sha256(text.encode()).hexdigest()


def run_id(config: SimulationConfig, corpus_checksum: str, version: str | None = None) -> str:
    """The first 16 digits of :func:`run_key`: the identity of a run."""
    return run_key(config, corpus_checksum, version)[:16]
