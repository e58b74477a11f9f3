"""Parts of a configuration: tagger, training, privacy, federation; frozen, keyword-only, validated."""

from dataclasses import dataclass
from typing import Any

from engine.errors import InvalidConfig
from engine.privacy.mechanism_registry import MECHANISMS, MechanismKind
from engine.taggers.registry import KINDS
from engine.validation import integer, number, one_of, text, truth

FEATURES = ("vectors", "shapes", "contextual", "tuned", "names")
IN_CONTEXT = FEATURES[2:]
"""Features with contextual vectors."""
LOSSES = ("mean", "sum")
OPTIMISERS = ("sgd", "momentum", "adam")
SAMPLINGS = ("poisson", "shuffle")
CLIPPINGS = ("joint", "per-layer")
NOISE_SOURCES = ("seeded", "system")
SCHEMES = ("bio2", "bioes")
SCHEDULES = ("averaging", "incremental", "gradients")
PARTITIONS = ("random", "unequal", "label-skew", "document", "natural")
WEIGHTINGS = ("examples", "equal")
NOTHING = "nothing"
"""Value for no part of a tagger."""
SYNTHETIC = "synthetic"
"""Name of the embedded corpus, which is always available."""
NOISE = (0.0, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Noise multipliers offered in trade-off curves, from none to too much."""
MINILM = "all-MiniLM-L6-v2"
"""The public language model that is installed by default."""
JOIN = " + "
"""Separator between the corpora of several clients."""
AUTOMATIC: Any = object()
"""Placeholder for an omitted clip norm; it never remains in a configuration."""
DEFAULT_CLIP_NORM = 1.5
"""The paper's clip norm (dp-fl-ner, footnote 4)."""


@dataclass(frozen=True, kw_only=True)
class TaggerConfig:
    """The model that assigns a tag to each token of a sentence.

    Attributes:
        name: One of :data:`engine.taggers.KINDS`.
        hidden_size: LSTM units per direction (the paper does not report its own), or units of an MLP.
        window: Neighbouring tokens on each side that a linear tagger or an MLP reads.
        scheme: Tag scheme that it learns: "bio2", or "bioes", which also marks where entities end. For several corpora
            one name for all (FedNER, section 4.1: BIO), or one for each, separated by commas, in their order. Scores
            are computed in BIO2 (:mod:`engine.corpus.tag_schemes`).
        well_formed: Whether decoding forbids ill-formed tag sequences.
        dropout: Probability that a value is dropped in training, for taggers with such layers (FedNER, section 4.1:
            0.2).
    """

    name: str = "bilstm-tddl"
    hidden_size: int = 100
    window: int = 0
    scheme: str = "bio2"
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
        names = [name.strip() for name in self.scheme.split(",")] if isinstance(self.scheme, str) else [self.scheme]
        if not all(name in SCHEMES for name in names):
            raise InvalidConfig(
                f"scheme={self.scheme!r}, expected one of {', '.join(SCHEMES)}, or one for each client, separated by "
                "commas"
            )
        object.__setattr__(self, "scheme", ",".join(names))
        truth("well_formed", self.well_formed)
        number("dropout", self.dropout, 0, 0.9, "a number from 0 to 0.9")
        object.__setattr__(self, "dropout", float(self.dropout))
        if self.dropout and "dropout" not in KINDS[self.name].fields:
            raise InvalidConfig(f"dropout={self.dropout:g}, expected 0, since tagger={self.name!r} has none")

    @property
    def schemes(self) -> tuple[str, ...]:
        """The names in ``scheme``."""
        return tuple(self.scheme.split(","))


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The optimisation. The defaults are the paper's (dp-fl-ner, footnote 2).

    Attributes:
        optimiser: "sgd", "momentum" (0.9) or "adam" (0.9, 0.999, 1e-8).
        learning_rate: Learning rate.
        batch_size: *Expected* sentences per step (the realised number varies under Poisson sampling).
        epochs: Passes over the data in expectation; steps = round(epochs * n / batch_size).
        loss: "mean" or "sum" over a sentence's tokens. With a CRF it is the sentence's negative log-likelihood, divided
            by its length or not.
        averaging: Decay per step, or per communication round with several clients, of the exponential moving average of
            the common weights. The evaluated tagger has these averages; 0 uses the weights themselves. It has no
            privacy cost.
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
    """The processing of each sentence's gradient before it changes the weights.

    Attributes:
        noise_multiplier: σ, standard deviation of the noise divided by clip_norm, dimensionless; 0 is no privacy.
        clip_norm: C, largest L2 norm of one sentence's gradient, in units of the gradient. None means no clipping,
            allowed only without noise. If omitted, it is 1.5 with noise and None without.
        delta: δ of (ε, δ)-differential privacy, a probability.
        sampling: "poisson" (each sentence joins each step independently) or "shuffle" (shuffled batches of a
            permutation). The latter only serves to reproduce papers: its reported ε assumes Poisson sampling, which
            does not hold.
        mechanism: Where the noise is added, which determines the protected unit and the trusted parties. "dp-sgd": each
            client adds it to each step of its own training; protects a sentence, from the server too. "dp-fedavg": the
            server adds it to the sum of the clients' clipped updates; protects a client from all but the server
            (McMahan et al. 2018). "local": each client adds it to its clipped update; protects a client from all
            others. "secure-sum": all clients of a round add it together, and the server sees only the sum of their
            clipped updates; protects a client, from the server too. In the last three, clip_norm bounds the L2 norm of
            a client's update of all weights.
        clipping: "joint" (a sentence's gradient is scaled as a whole) or "per-layer". The latter clips each layer
            separately to C ÷ √(number of layers with weights): the norm is at most C, and the noise is the same.
        noise_source: Source of the keys of noise and samples. "seeded": derived from the seed and the configuration, so
            that the run is reproducible. This is a simulation: anyone who knows the seed can subtract the noise.
            "system": from the operating system, destroyed when the run is done; for taggers to be released. Without
            noise it is always "seeded".
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
        """Whether noise is added."""
        return self.noise_multiplier > 0

    @property
    def kind(self) -> MechanismKind:
        """Properties of the mechanism."""
        return MECHANISMS[self.mechanism]


@dataclass(frozen=True, kw_only=True)
class FederationConfig:
    """The clients that have the training sentences, and their communication.

    One client and one round is central training.

    Attributes:
        clients: n, number of clients among which the sentences are partitioned.
        participants: m, number of clients that train in a round, sampled in every round; None is all.
        rounds: t, number of communication rounds.
        schedule: "averaging": each participant trains ``training.epochs`` epochs on all its sentences. "incremental":
            each client's sentences are split into as many random pieces as rounds, and in each round it trains on the
            next one (dp-fl-ner, section 3, "x = 10 %" with ten rounds). "gradients": each client sends the gradient of
            each step on its share of the batch, and the server updates the shared layers (FedNER, section 3.2; steps =
            rounds).
        partition: How sentences are assigned to clients. "random" in equal shares; "unequal" (the k-th client has 1/k
            of the first one's number); "label-skew" (each client has its own mix of entity types, drawn from a
            Dirichlet distribution); "document" (whole documents); "natural" (the corpus's own sections).
        skew: α of the Dirichlet distribution; smaller is more skewed.
        weighting: Weights of a round's updates: number of training "examples", or "equal". None is the mechanism's
            default: by examples where sentences are protected, equal where whole clients are.
        shared: Shared layers of clients with corpora of their own, as names of the tagger's parts separated by commas
            (see :attr:`engine.taggers.Tagger.splits`), or "nothing". None is all that does not depend on the tags.
        masked: Share of the entities common to several clients whose words are masked in training (FedNER, section
            4.5). Only without noise, since one sentence may then change many others.
        together: Share of the steps with joint training where gradients are sent; afterwards each client continues
            alone, and nothing is sent.
    """

    clients: int = 1
    participants: int | None = None
    rounds: int = 1
    schedule: str = "averaging"
    partition: str = "random"
    skew: float = 0.5
    weighting: str | None = None
    shared: str | None = None
    masked: float = 0.0
    together: float = 1.0

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
        number("masked", self.masked, 0, 1, "a number from 0 to 1")
        object.__setattr__(self, "masked", float(self.masked))
        number("together", self.together, 0, 1, "a number in (0, 1]", low_open=True)
        object.__setattr__(self, "together", float(self.together))
        if self.together < 1 and self.schedule != "gradients":
            raise InvalidConfig(f"together={self.together:g}, expected 1 with schedule={self.schedule!r}")
        if self.shared is not None:
            text("shared", self.shared)
            # Word vectors are frozen and public: all clients have them, named here or not.
            parts = [part.strip() for part in self.shared.split(",")]
            object.__setattr__(self, "shared", ",".join(part for part in parts if part != "words") or NOTHING)
        if self.schedule == "gradients":
            integer("rounds", self.rounds, 1, 1)
            if self.participants is not None:
                raise InvalidConfig(
                    f"participants={self.participants}, expected none, since schedule='gradients' needs all clients"
                )

    @property
    def shared_parts(self) -> tuple[str, ...] | None:
        """The names in ``shared``."""
        if self.shared is None:
            return None
        return () if self.shared == NOTHING else tuple(self.shared.split(","))

    @property
    def central(self) -> bool:
        """Whether one client has all sentences and trains once."""
        return self.clients == 1 and self.rounds == 1
