"""The configuration of a run: its fields, their combinations, and its plain and flat forms."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from engine.config.encoder_registry import E5, ENCODERS, MINILM
from engine.config.feature_registry import FEATURE_SETS, FITTED_ON, SOURCES, FeatureSet
from engine.config.federation import INDEPENDENT, NOTHING, FederationConfig
from engine.config.head_registry import HEADS, PublicHead, head_of
from engine.config.parameters import Parameter, check_fields, parameters_of
from engine.config.privacy import PrivacyConfig
from engine.config.tagger import TaggerConfig
from engine.config.training import TrainingConfig
from engine.config.value_types import Choice, Integer, Number, Text
from engine.errors import InvalidConfig
from engine.taggers import KINDS, splits_of

SYNTHETIC = "synthetic"
"""Name of the embedded corpus, which is always available."""
JOIN = " + "
"""Separator between the corpora of several clients."""


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
        features: Features of a token, a name in :data:`engine.config.FEATURE_SETS`; "vectors" as in the papers.
        language_model: Public language model of contextual features, by default MiniLM: a name in
            :data:`engine.config.encoder_registry.ENCODERS`, or the shape and checksum of a custom one, see
            :mod:`engine.embeddings.custom_model`.
        training: The optimisation.
        privacy: The privacy mechanism.
        federation: The clients.
        seed: Seed of every random stream.
    """

    corpus: str = field(
        default=SYNTHETIC,
        metadata=Parameter(
            values=Text(),
            label="Corpus",
            option_help="Name of a corpus, as `corpora` lists it, or a file or folder.",
        ).metadata,
    )
    data_fraction: float = field(
        default=1.0,
        metadata=Parameter(
            values=Number(low=0, high=1, low_open=True),
            label="Share of the training data",
            option_help="Share of the training sentences, above 0 to 1.",
            widget_help="A random subset of the training sentences. With fewer sentences each one has more influence, "
            "so ε grows.",
            heading="share of the data",
            unit="% of the data",
            self_explanatory=True,
        ).metadata,
    )
    tagger: TaggerConfig = field(default_factory=TaggerConfig)
    embeddings: str = field(
        default="en_core_web_md",
        metadata=Parameter(
            values=Text(),
            label="Word vectors",
            option_help="spaCy package of the word vectors.",
            heading="word vectors",
        ).metadata,
    )
    features: str = field(
        default="vectors",
        metadata=Parameter(
            values=Choice(names=tuple(FEATURE_SETS)),
            label="Features",
            option_help="Input features of a token: "
            + "; ".join(f"{name} ({features.adds})" for name, features in FEATURE_SETS.items())
            + ".",
            widget_help=f"Inputs of the model for each token, from public data. {SOURCES} The page warns you if a "
            f"corpus shares sentences with {FITTED_ON}.",
            titles={name: features.title for name, features in FEATURE_SETS.items()},
            self_explanatory=True,
        ).metadata,
    )
    language_model: str = field(
        default=MINILM,
        metadata=Parameter(
            values=Text(),
            label="Language model",
            option_help=f"Language model of contextual features: {', '.join(ENCODERS)}; or own, the BERT or MPNet in "
            "the folder EPSILON_LANGUAGE_MODEL; or its label.",
            labels={
                name: f"{name}: {encoder.languages} languages"
                for name, encoder in ENCODERS.items()
                if encoder.languages > 1
            },
            widget_help=f"Models without a number of languages are for English; for other languages choose {E5}. Your "
            "own model is named by its number of layers, their size and the checksum of its files. Its pre-training "
            "data are unknown here: check that they do not contain the private sentences.",
        ).metadata,
    )
    training: TrainingConfig = field(default_factory=TrainingConfig)
    privacy: PrivacyConfig = field(default_factory=PrivacyConfig)
    federation: FederationConfig = field(default_factory=FederationConfig)
    seed: int = field(
        default=0,
        metadata=Parameter(
            values=Integer(low=0, high=2**32 - 1),
            label="Seed",
            option_help="Seed of all randomness, except noise from the system.",
            widget_help="Seed of all random choices; the same seed gives the same run. With the noise source *System*, "
            "noise and sampling do not depend on the seed.",
        ).metadata,
    )

    def __post_init__(self) -> None:
        check_fields(self)
        self._check_features()
        if self.platforms:
            object.__setattr__(self, "federation", _of_platforms(self.platforms, self.federation))
        elif self.federation.partition == "independent" and not self.assigns_sentences:
            object.__setattr__(self, "federation", dataclasses.replace(self.federation, partition="random"))
        object.__setattr__(self, "tagger", _with_schemes(self.tagger, self.platforms))
        self._check_platforms()
        self._check_mechanism()

    def _check_features(self) -> None:
        if KINDS[self.tagger.name].in_context and not self.feature_set.in_context:
            in_context = [name for name, features in FEATURE_SETS.items() if features.in_context]
            raise InvalidConfig(
                f"features={self.features!r}, expected one of {', '.join(in_context)}, since "
                f"tagger={self.tagger.name!r} reads vectors in context"
            )
        if not self.feature_set.reads(self.language_model):
            replaceable = [repr(name) for name, kind in FEATURE_SETS.items() if kind.reads(self.language_model)]
            raise InvalidConfig(
                f"language_model={self.language_model!r}, expected {MINILM!r} with features={self.features!r}: another "
                f"model can only replace it with {' or '.join(replaceable)}"
            )
        if self.tagger.pretrained and self.public_head is None:
            known = ", or ".join(
                f"features={head.features!r} with language_model={head.language_model!r} and window={head.window}"
                for head in HEADS
            )
            raise InvalidConfig(
                f"pretrained=True, expected False with features={self.features!r}, language_model="
                f"{self.language_model!r} and window={self.tagger.window}: public weights exist only for {known}"
            )

    def _check_platforms(self) -> None:
        federation = self.federation
        if len(self.tagger.schemes) > 1 and self.shares_scores:
            raise InvalidConfig(
                f"scheme={self.tagger.scheme!r}, expected one for all clients, since they share the scores of their "
                f"tags: shared={federation.shared!r}"
            )
        if federation.shared is not None and not self.platforms:
            raise InvalidConfig(
                f"shared={federation.shared!r}, expected none: clients with parts of one corpus share the whole tagger"
            )
        if federation.shared == NOTHING and self.privacy.protects_clients:
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
    def feature_set(self) -> FeatureSet:
        """Properties of the features."""
        return FEATURE_SETS[self.features]

    @property
    def public_head(self) -> PublicHead | None:
        """The public weights from which the training starts; None if it does not start from public weights."""
        return head_of(self.features, self.language_model, self.tagger.window) if self.tagger.pretrained else None

    @property
    def platforms(self) -> tuple[str, ...]:
        """The corpus of each client; empty where all clients have parts of one corpus."""
        names = tuple(self.corpus.split(JOIN))
        return names if len(names) > 1 else ()

    @property
    def assigns_sentences(self) -> bool:
        """Whether sentences are assigned to clients of one corpus, to pieces, or to a share of the data."""
        federation = self.federation
        pieces = federation.schedule == "incremental" and federation.rounds > 1
        return self.data_fraction < 1 or pieces or (federation.clients > 1 and not self.platforms)

    @property
    def moves_sentences(self) -> bool:
        """Whether one more sentence may change the client, the piece or the use of others."""
        return self.assigns_sentences and self.federation.partition not in INDEPENDENT

    @property
    def shares_scores(self) -> bool:
        """Whether clients share the last layer, the scores of the tags, so that they need the same tags."""
        return splits_of(self.tagger.name)[-1] in (self.federation.shared_parts or ())

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
        return canonical(self.to_dict())


def _of_platforms(platforms: tuple[str, ...], federation: FederationConfig) -> FederationConfig:
    """Return the federation with one client for each corpus."""
    if not all(map(str.strip, platforms)) or len(set(platforms)) < len(platforms):
        raise InvalidConfig(f"corpus={JOIN.join(platforms)!r}, expected a different corpus for each client")
    if federation.partition not in ("independent", "random"):
        raise InvalidConfig(
            f"partition={federation.partition!r}, expected 'independent' or 'random', since each client has a corpus "
            "of its own"
        )
    if federation.clients not in (1, len(platforms)):
        raise InvalidConfig(f"clients={federation.clients}, expected {len(platforms)}, one for each corpus")
    return dataclasses.replace(federation, clients=len(platforms), partition="random")


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


def _parameters() -> dict[str, Parameter]:
    found: dict[str, Parameter] = {}
    for own in dataclasses.fields(SimulationConfig):
        part = _PARTS.get(own.name)
        declared = parameters_of(part) if part else {own.name: parameters_of(SimulationConfig)[own.name]}
        found |= {own.name if name == "name" else name: parameter for name, parameter in declared.items()}
    return {
        name: dataclasses.replace(parameter, heading=parameter.heading or name.replace("_", " "))
        for name, parameter in found.items()
    }


PARAMETERS: dict[str, Parameter] = _parameters()
"""The declaration of each field of a flat configuration, in the order of the declarations."""
PROPOSED = {name: parameter.proposed for name, parameter in PARAMETERS.items() if parameter.proposed is not None}
"""Values proposed for new runs, of fields whose default has the meaning of earlier versions."""


def fields_of(part: str) -> tuple[str, ...]:
    """Return the names of a part's fields in a flat configuration."""
    return tuple(name for name, (of_part, _) in FLAT.items() if of_part == part)


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


def canonical(values: dict[str, Any]) -> str:
    """Return the same JSON for equal values."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
