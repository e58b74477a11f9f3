"""The clients of a run."""

from dataclasses import dataclass, field

from engine.config.parameters import Parameter, check_fields
from engine.config.value_types import Choice, Integer, Number, Text
from engine.errors import InvalidConfig
from engine.validation import integer

_SCHEDULES = {
    "averaging": "all local data each round",
    "incremental": "one part of the local data each round",
    "gradients": "gradients at each step",
}
_PARTITIONS = {
    "independent": "each sentence assigned independently at random",
    "random": "split at random into equal parts",
    "unequal": "split at random into unequal parts",
    "dirichlet": "split by entity type",
    "document": "split by document",
    "natural": "split by section",
}
_WEIGHTINGS = {"examples": "clients weighted by sentences", "equal": "clients weighted equally"}
PARTITIONS = tuple(_PARTITIONS)
INDEPENDENT = ("independent", "dirichlet")
"""Partitions that assign each sentence without regard to other sentences, so that one more sentence moves no other."""
NOTHING = "nothing"
"""Value for no part of a tagger."""


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
        partition: How sentences are assigned to clients. "random" in equal shares, as in dp-fl-ner; "independent" (the
            client of each sentence is drawn independently, so that sizes are equal in expectation only); "unequal" (the
            k-th client has 1/k of the first one's number); "dirichlet" (each client has its own mix of entity types,
            drawn from a Dirichlet distribution, and the client of each sentence is drawn independently from the mix of
            its type); "document" (whole documents); "natural" (the corpus's own sections). With "independent" and
            "dirichlet", shares of the data and pieces are drawn independently too.
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

    clients: int = field(
        default=1,
        metadata=Parameter(
            values=Integer(low=1, high=100_000),
            label="Clients",
            option_help="Number of clients that hold the data.",
            widget_help="Number of clients that hold the training sentences. Each trains locally, and a server "
            "averages the results. 1: central training.",
        ).metadata,
    )
    participants: int | None = field(
        default=None,
        metadata=Parameter(
            values=Integer(low=1, high=100_000, optional=True),
            label="Participants per round",
            option_help="Clients sampled in each round.  [default: all]",
            widget_help="Number of clients that are sampled for each round.",
            heading="participants per round",
            titles={None: "all"},
        ).metadata,
    )
    rounds: int = field(
        default=1,
        metadata=Parameter(
            values=Integer(low=1, high=100_000),
            label="Communication rounds",
            option_help="Communication rounds.",
        ).metadata,
    )
    schedule: str = field(
        default="averaging",
        metadata=Parameter(
            values=Choice(names=tuple(_SCHEDULES)),
            label="Local training per round",
            option_help="averaging (a client trains on all its data each round), incremental (on its next part) or "
            "gradients (a client sends the gradient of each step, and the server updates the shared layers).",
            widget_help="What each client trains on in a round.",
            titles=_SCHEDULES,
            labels={
                "averaging": "All local data",
                "incremental": "Next part of the local data",
                "gradients": "One gradient step",
            },
            self_explanatory=True,
        ).metadata,
    )
    partition: str = field(
        default="random",
        metadata=Parameter(
            values=Choice(names=PARTITIONS),
            label="Data partition",
            option_help="Partition of the data: independent, random (equal parts, as in the papers), unequal, "
            "dirichlet (label skew), document or natural.",
            widget_help="How the training sentences are split among the clients. If each sentence is assigned "
            "independently, one more sentence moves no other, and ε holds for adding or removing one. Other "
            "partitions fix the sizes: ε then holds for emptying one sentence (zero-out).",
            titles=_PARTITIONS,
            labels={
                "independent": "Random, independent",
                "random": "Random, equal sizes",
                "unequal": "Random, unequal sizes",
                "dirichlet": "Label skew (Dirichlet)",
                "document": "By document",
                "natural": "By section of the corpus",
            },
            self_explanatory=True,
            proposed="independent",
        ).metadata,
    )
    skew: float = field(
        default=0.5,
        metadata=Parameter(
            values=Number(low=0, high=1000, low_open=True, least=0.001),
            label="Skew α",
            option_help="α of the Dirichlet distribution; a small α makes clients dissimilar.",
            widget_help="For label skew: smaller values give clients more different mixes of entity types.",
            heading="skew α",
        ).metadata,
    )
    weighting: str | None = field(
        default=None,
        metadata=Parameter(
            values=Choice(names=tuple(_WEIGHTINGS), optional=True),
            label="Aggregation weights",
            option_help="Weight of a client's update: examples or equal.  [default: by the mechanism]",
            widget_help="Weight of each client's update in the average.",
            titles={None: "default weights", **_WEIGHTINGS},
            labels={None: "Default of the mechanism", "examples": "Number of sentences", "equal": "Equal"},
            self_explanatory=True,
        ).metadata,
    )
    shared: str | None = field(
        default=None,
        metadata=Parameter(
            values=Text(optional=True),
            label="Shared layers",
            option_help="Layers that the clients of --platform share, separated by commas (words,characters,"
            "convolution,lstm,scores, or hidden), or nothing.  [default: all but those that depend on the tags]",
            widget_help="Layers of the model, from the bottom up. The server aggregates the shared layers; all others "
            "stay private.",
            heading="shared layers",
        ).metadata,
    )
    masked: float = field(
        default=0.0,
        metadata=Parameter(
            values=Number(low=0, high=1, step=0.25, format="%0.2f"),
            label="Entity masking",
            option_help="Entity masking: share of the entities common to several clients that training masks.",
            widget_help="Fraction, 0 to 1, of the entities common to the training data of several silos whose tokens "
            "are masked. Masking shows how much of the gain from sharing is due to these entities. It is possible only "
            "without noise.",
            heading="entity masking",
            unit="% of shared entities",
        ).metadata,
    )
    together: float = field(
        default=1.0,
        metadata=Parameter(
            values=Number(low=0, high=1, low_open=True, least=0.01, step=0.1, format="%0.2f"),
            label="Joint training",
            option_help="Joint fraction: share of the steps that clients train together with schedule gradients.",
            widget_help="Fraction, 0 to 1, of the steps that all silos train together; after that each silo continues "
            "separately. A value below 1 is possible only with one gradient step per round.",
            heading="joint training",
            unit="% of the steps",
        ).metadata,
    )

    def __post_init__(self) -> None:
        if self.partition == "label-skew":  # up to version 0.7.0, with other draws
            object.__setattr__(self, "partition", "dirichlet")
        check_fields(self)
        if self.participants is not None:
            if self.participants > self.clients:
                raise InvalidConfig(f"participants={self.participants}, expected at most clients={self.clients}")
            if self.participants == self.clients:
                object.__setattr__(self, "participants", None)
        if self.together < 1 and self.schedule != "gradients":
            raise InvalidConfig(f"together={self.together:g}, expected 1 with schedule={self.schedule!r}")
        if self.shared is not None:
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
