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
from typing import Any

from engine import PLAIN_VERSION, PRIVATE_VERSION
from engine.errors import InvalidConfig
from engine.privacy.kinds import MECHANISMS, MechanismKind
from engine.taggers.kinds import KINDS
from engine.validation import integer, number, one_of, text, truth

FEATURES = ("vectors", "shapes", "contextual", "tuned", "names")
IN_CONTEXT = FEATURES[2:]
"""Those that have vectors in context."""
LOSSES = ("mean", "sum")
OPTIMISERS = ("sgd", "momentum", "adam")
SAMPLINGS = ("poisson", "shuffle")
CLIPPINGS = ("joint", "per-layer")
NOISE_SOURCES = ("seeded", "system")
SCHEDULES = ("averaging", "incremental", "gradients")
PARTITIONS = ("random", "unequal", "label-skew", "document", "natural")
WEIGHTINGS = ("examples", "equal")
NOTHING = "nothing"
"""Stands for no part of a tagger."""
SYNTHETIC = "synthetic"
"""Name of the embedded corpus, which is always there."""
NOISE = (0.0, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Noise multipliers that are worth a look, from none to too much."""
JOIN = " + "
"""Between the names of corpora, where each is a platform's own."""
AUTOMATIC: Any = object()
"""Stands for a clip norm that was left out; it never stays in a configuration."""
DEFAULT_CLIP_NORM = 1.5
"""The paper's clip norm (dp-fl-ner, footnote 4)."""


@dataclass(frozen=True, kw_only=True)
class TaggerConfig:
    """The model that reads a sentence and gives each token a tag.

    name: one of :data:`engine.taggers.KINDS`. hidden_size: LSTM units per direction (the paper does not print its own),
    or units of an MLP. window: how many tokens to the left and to the right a linear tagger or an MLP reads beside each
    token.
    well_formed: whether ill-formed BIO2 sequences are forbidden when tags are read off the scores. dropout: chance of
    each value to be left out in training, of taggers that have such layers (FedNER, section 4.1: 0.2).
    """

    name: str = "bilstm-tddl"
    hidden_size: int = 100
    window: int = 0
    well_formed: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        one_of("tagger", self.name, tuple(KINDS))
        integer("hidden_size", self.hidden_size, 1, 1024)
        integer("window", self.window, 0, 5)
        if self.window and "window" not in KINDS[self.name].fields:
            raise InvalidConfig(
                f"window={self.window}, expected 0, since tagger={self.name!r} reads the whole sentence"
            )
        truth("well_formed", self.well_formed)
        number("dropout", self.dropout, 0, 0.9, "a number from 0 to 0.9")
        object.__setattr__(self, "dropout", float(self.dropout))
        if self.dropout and "dropout" not in KINDS[self.name].fields:
            raise InvalidConfig(f"dropout={self.dropout:g}, expected 0, since tagger={self.name!r} has none")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How the weights are moved. The defaults are the paper's (dp-fl-ner, footnote 2).

    batch_size: *expected* sentences per step (the realised number varies under Poisson sampling).
    epochs: passes over the data in expectation; steps = round(epochs * n / batch_size).
    loss: "mean" or "sum" of a sentence's tokens; with a CRF, the sentence's negative log-likelihood divided by its
    length or whole. momentum: 0.9 and Adam's (0.9, 0.999, 1e-8) are fixed. averaging: the tagger that is looked at has
    the exponential moving average of the common weights, with this decay a step (a communication round, if there are
    several clients); 0 is the weights themselves. It costs no privacy.
    """

    optimiser: str = "sgd"
    learning_rate: float = 0.15
    batch_size: int = 32
    epochs: float = 10.0
    loss: str = "mean"
    averaging: float = 0.0

    def __post_init__(self) -> None:
        one_of("optimiser", self.optimiser, OPTIMISERS)
        number("learning_rate", self.learning_rate, 0, 1000, "a number in (0, 1000]", low_open=True)
        integer("batch_size", self.batch_size, 1, 1_000_000)
        number("epochs", self.epochs, 0, 10_000, "a number in (0, 10000]", low_open=True)
        one_of("loss", self.loss, LOSSES)
        number("averaging", self.averaging, 0, 1, "a number in [0, 1)", high_open=True)
        object.__setattr__(self, "averaging", float(self.averaging))
        object.__setattr__(self, "learning_rate", float(self.learning_rate))
        object.__setattr__(self, "epochs", float(self.epochs))


@dataclass(frozen=True, kw_only=True)
class PrivacyConfig:
    """What is done to each sentence's gradient before it may touch the weights.

    noise_multiplier: σ, standard deviation of the noise divided by clip_norm, dimensionless; 0 is no privacy.
    clip_norm: C, largest L2 norm that one sentence's gradient may have, in units of the gradient; None means no
        clipping, which is allowed only without noise. Left out, it is 1.5 with noise and None without.
    delta: δ of (ε, δ)-differential privacy, a probability.
    sampling: "poisson" (each sentence joins each step independently) or "shuffle" (fixed batches of a permutation;
        to reproduce papers only, its ε rests on an assumption that does not hold).
    clipping: "joint" (a sentence's gradient is scaled as a whole) or "per-layer" (each layer by itself, to C ÷ √(number
        of layers with weights): the whole is no longer than C, and the noise is the same).
    mechanism: where the noise is added, and so what is protected and who must be trusted. "dp-sgd": each client adds it
        to each step of its own training; a sentence is protected, from the server too. "dp-fedavg": the server adds
        it to the sum of the clients' clipped updates; a whole client is protected, from everybody but the server
        (McMahan et al. 2018). "local": each client adds it to its clipped update; a whole client is protected, from
        everybody. In the last two, clip_norm bounds the L2 norm of a client's update of all weights.
    noise_source: where the keys of noise and samples come from. "seeded": from the seed and what is run, so that the
        run can be computed again; for simulation, since whoever knows the seed can subtract the noise. "system": from
        the operating system, destroyed when the run ends; for taggers that are given away. Without noise it is seeded.
    """

    noise_multiplier: float = 1.0
    clip_norm: float | None = AUTOMATIC
    delta: float = 1e-5
    sampling: str = "poisson"
    mechanism: str = "dp-sgd"
    clipping: str = "joint"
    noise_source: str = "seeded"

    def __post_init__(self) -> None:
        number("noise_multiplier", self.noise_multiplier, 0, 10_000, "a number from 0 to 10000")
        if self.clip_norm is AUTOMATIC:
            object.__setattr__(self, "clip_norm", DEFAULT_CLIP_NORM if self.noise_multiplier > 0 else None)
        if self.clip_norm is None:
            if self.noise_multiplier > 0:
                raise InvalidConfig(
                    f"clip_norm=None, expected a positive number, since noise_multiplier={self.noise_multiplier:g}"
                )
        else:
            number("clip_norm", self.clip_norm, 0, 1e6, "a number in (0, 1000000]", low_open=True)
            object.__setattr__(self, "clip_norm", float(self.clip_norm))
        number("delta", self.delta, 0, 1, "a number between 0 and 1", low_open=True, high_open=True)
        one_of("sampling", self.sampling, SAMPLINGS)
        one_of("mechanism", self.mechanism, tuple(MECHANISMS))
        one_of("clipping", self.clipping, CLIPPINGS)
        one_of("noise_source", self.noise_source, NOISE_SOURCES)
        if not self.noise_multiplier > 0:
            object.__setattr__(self, "noise_source", "seeded")
        object.__setattr__(self, "noise_multiplier", float(self.noise_multiplier))
        object.__setattr__(self, "delta", float(self.delta))

    @property
    def private(self) -> bool:
        """Whether noise is added at all."""
        return self.noise_multiplier > 0

    @property
    def kind(self) -> MechanismKind:
        """Of the mechanism."""
        return MECHANISMS[self.mechanism]


@dataclass(frozen=True, kw_only=True)
class FederationConfig:
    """Who holds the training sentences, and how often weights travel. One client and one round is central training.

    clients: n, parties that the sentences are split over. participants: m, how many of them train in a round, drawn
        anew each time; None is all. rounds: t, communication rounds.
    schedule: "averaging" (each participant trains ``training.epochs`` epochs on all it has) or "incremental" (each
        client's sentences are cut into as many random pieces as there are rounds, and in each round it trains its
        epochs on the next piece: dp-fl-ner, section 3, "x = 10 %" with ten rounds) or "gradients" (each client sends
        the gradient of each step, on its share of the batch, and the server moves what is shared: FedNER, section 3.2;
        steps = rounds).
    partition: how sentences come to clients. "random" and equal; "unequal" (the k-th client has 1/k as many as the
        first); "label-skew" (each client its own mix of entity types, drawn from a Dirichlet distribution); "document"
        (documents whole); "natural" (the corpus's own sections). skew: α of that distribution; smaller is more skewed.
    weighting: how a round's updates are averaged, by "examples" trained on or "equal". None is what the mechanism
        wants: by examples where sentences are protected, equal where whole clients are.
    shared: what platforms share of their tagger, as names of its parts with commas between (see
        :attr:`engine.taggers.Tagger.splits`), or "nothing"; None is all but what depends on the tags.
    """

    clients: int = 1
    participants: int | None = None
    rounds: int = 1
    schedule: str = "averaging"
    partition: str = "random"
    skew: float = 0.5
    weighting: str | None = None
    shared: str | None = None

    def __post_init__(self) -> None:
        integer("clients", self.clients, 1, 100_000)
        if self.participants is not None:
            integer("participants", self.participants, 1, 100_000)
            if self.participants > self.clients:
                raise InvalidConfig(f"participants={self.participants}, expected at most clients={self.clients}")
            if self.participants == self.clients:
                object.__setattr__(self, "participants", None)
        integer("rounds", self.rounds, 1, 100_000)
        one_of("schedule", self.schedule, SCHEDULES)
        one_of("partition", self.partition, PARTITIONS)
        number("skew", self.skew, 0, 1000, "a number in (0, 1000]", low_open=True)
        object.__setattr__(self, "skew", float(self.skew))
        if self.weighting is not None:
            one_of("weighting", self.weighting, WEIGHTINGS)
        if self.shared is not None:
            text("shared", self.shared)
            # Word vectors are frozen and public: everybody has them, whether they are named or not.
            parts = [part.strip() for part in self.shared.split(",")]
            object.__setattr__(self, "shared", ",".join(part for part in parts if part != "words") or NOTHING)
        if self.schedule == "gradients":
            integer("rounds", self.rounds, 1, 1)
            if self.participants is not None:
                raise InvalidConfig(
                    f"participants={self.participants}, expected none, since schedule='gradients' needs all"
                )

    @property
    def shared_parts(self) -> tuple[str, ...] | None:
        """The names in ``shared``."""
        if self.shared is None:
            return None
        return () if self.shared == NOTHING else tuple(self.shared.split(","))

    @property
    def central(self) -> bool:
        """Whether one party has everything and trains once."""
        return self.clients == 1 and self.rounds == 1


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
    seed: of every random stream.
    """

    corpus: str = SYNTHETIC
    data_fraction: float = 1.0
    tagger: TaggerConfig = field(default_factory=TaggerConfig)
    embeddings: str = "en_core_web_md"
    features: str = "vectors"
    training: TrainingConfig = field(default_factory=TrainingConfig)
    privacy: PrivacyConfig = field(default_factory=PrivacyConfig)
    federation: FederationConfig = field(default_factory=FederationConfig)
    seed: int = 0

    def __post_init__(self) -> None:
        text("corpus", self.corpus)
        number("data_fraction", self.data_fraction, 0, 1, "a number in (0, 1]", low_open=True)
        object.__setattr__(self, "data_fraction", float(self.data_fraction))
        text("embeddings", self.embeddings)
        one_of("features", self.features, FEATURES)
        if KINDS[self.tagger.name].in_context and self.features not in IN_CONTEXT:
            raise InvalidConfig(
                f"features={self.features!r}, expected one of {', '.join(IN_CONTEXT)}, since "
                f"tagger={self.tagger.name!r} reads vectors in context"
            )
        integer("seed", self.seed, 0, 2**32 - 1)
        if self.platforms:
            object.__setattr__(self, "federation", _of_platforms(self.platforms, self.federation))
        mechanism, federation = self.privacy.mechanism, self.federation
        whole_clients = self.privacy.kind.whole_clients
        if whole_clients and federation.clients == 1:
            raise InvalidConfig(f"clients=1, expected at least 2, since mechanism={mechanism!r} protects whole clients")
        if self.privacy.kind.drawn and self.privacy.sampling != "poisson":
            raise InvalidConfig(
                f"sampling={self.privacy.sampling!r}, expected 'poisson', since mechanism={mechanism!r} draws the "
                "clients of a round independently"
            )
        if whole_clients and federation.schedule == "gradients":
            raise InvalidConfig(
                f"schedule='gradients', expected 'averaging', since mechanism={mechanism!r} bounds what a round of "
                "training tells, and each step is a round there"
            )
        if federation.clients == 1 and federation.schedule == "gradients":
            raise InvalidConfig("schedule='gradients', expected 'averaging', since clients=1 has nobody to send any to")
        if federation.shared is not None and not self.platforms:
            raise InvalidConfig(
                f"shared={federation.shared!r}, expected none: clients with parts of one corpus share all of a tagger"
            )
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


def _known_fields(cls: type, values: Any, where: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise InvalidConfig(f"{where}={values!r}, expected a table of fields")
    names = {f.name for f in dataclasses.fields(cls)}
    unknown = sorted(set(map(str, values)) - names)
    if unknown:
        raise InvalidConfig(f"{where} has the unknown field {unknown[0]!r}, expected only {', '.join(sorted(names))}")
    return dict(values)


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
