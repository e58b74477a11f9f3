"""What was done to the data, and what may be assumed of it."""

from dataclasses import dataclass
from functools import cached_property

from engine.config import SimulationConfig
from engine.errors import InvalidConfig
from engine.privacy.accounting import LARGEST_NOISE_MULTIPLIER
from engine.privacy.assumptions.labels import ACCOUNTANTS, NEIGHBOURS, SAMPLINGS
from engine.privacy.group_privacy import check_size
from engine.privacy.plan import PrivacyPlan


@dataclass(frozen=True)
class Part:
    """So many steps on a part of the data that shares no sentence with the others, noise in each. examples: n of it.
    batch_size: expected."""

    examples: int
    batch_size: int
    steps: int


@dataclass(frozen=True, kw_only=True)
class Training:
    """What was done. examples: n, of all clients. batch_size: expected, B. epochs: E over all data, on average.
    noise_multiplier: σ. delta: δ. shuffled: whether batches were shuffled and not drawn by chance. clients: with DP-SGD
    each on a part of its own, equal ones unless there are ``parts``: those of clients, or of their rounds, that differ.
    printed_examples: n as it was printed, where that is another one. longest_document: in sentences, where there are
    documents. unit: "sentence", or "client" where whole clients are protected: these are the examples then, the
    expected participants of a round the batch, rounds the steps. messages: whether clients add the noise to what they
    send; epochs are messages of one client then. Raises InvalidConfig."""

    examples: int
    batch_size: int
    epochs: float
    noise_multiplier: float
    delta: float = 1e-5
    shuffled: bool = False
    clients: int = 1
    parts: tuple[Part, ...] = ()
    printed_examples: int | None = None
    longest_document: int | None = None
    unit: str = "sentence"
    messages: bool = False

    def __post_init__(self) -> None:
        least = {"examples": 1, "batch_size": 1, "clients": 1}
        for name, value in least.items():
            if getattr(self, name) < value:
                raise InvalidConfig(f"{name}={getattr(self, name)}, expected at least {value}")
        if not 0 < self.epochs < 1e6:
            raise InvalidConfig(f"epochs={self.epochs}, expected more than 0 and less than a million")
        if not 0 <= self.noise_multiplier <= LARGEST_NOISE_MULTIPLIER:
            most = LARGEST_NOISE_MULTIPLIER
            raise InvalidConfig(f"noise_multiplier={self.noise_multiplier}, expected 0 to {most:,.0f}")
        if not 0 < self.delta < 1:
            raise InvalidConfig(f"delta={self.delta}, expected more than 0 and less than 1")
        if not self.parts and self.batch_size > self.examples // self.clients:
            raise InvalidConfig(
                f"batch_size={self.batch_size:,}, expected at most the {self.examples // self.clients:,} sentences of "
                "a client"
            )

    @classmethod
    def of(cls, config: SimulationConfig, sentences: int) -> "Training":
        """Of a configuration that trains on so many sentences, all by one, or by clients with equally many. Raises
        InvalidConfig for another: the ledger needs its plan (:func:`engine.federated.accounting.training`)."""
        federation, privacy = config.federation, config.privacy
        equal = federation.participants is None and federation.partition == "random" and not config.platforms
        if not equal or privacy.kind.client_level or federation.schedule != "averaging":
            raise InvalidConfig("the ledger of such a federation needs its corpus, to see who holds what")
        own = sentences // federation.clients
        parts: tuple[Part, ...] = ()
        if federation.rounds > 1:  # each round has whole steps
            sizes = {max(1, own), -(-sentences // federation.clients)}
            each = [PrivacyPlan.of_piece(config, size, sentences) for size in sorted(sizes)]
            parts = tuple(Part(plan.examples, plan.batch_size, plan.steps * federation.rounds) for plan in each)
        return cls(
            examples=own * federation.clients,
            batch_size=min(config.training.batch_size, max(1, own)),
            epochs=config.training.epochs * federation.rounds,
            noise_multiplier=privacy.noise_multiplier,
            delta=privacy.delta,
            shuffled=privacy.sampling == "shuffle",
            clients=federation.clients,
            parts=parts,
        )

    @property
    def promised(self) -> "Choices":
        """What holds of it, and is promised here."""
        sampling = "none" if self.shuffled or self.messages else "poisson"
        neighbours = "replace" if self.messages else "add-or-remove"
        return Choices(sampling=sampling, neighbours=neighbours, pooled=False, delta=self.delta)

    @property
    def printed(self) -> "Choices":
        """What a paper would print of it: Rényi accounting as if batches were drawn by chance, all data together."""
        if self.messages:
            return self.promised
        sampling = "as-poisson" if self.shuffled else "poisson"
        return Choices(accountant="rdp", sampling=sampling, pooled=self.several, delta=self.delta)

    @property
    def several(self) -> bool:
        """Whether there are parts that could be counted together."""
        return self.clients > 1 or len(self.parts) > 1

    @cached_property
    def own(self) -> tuple[Part, ...]:
        """The parts, each that differs once."""
        if self.parts:
            return self.parts
        examples = self.examples // self.clients
        return (Part(examples, self.batch_size, max(1, round(self.epochs * examples / self.batch_size))),)


@dataclass(frozen=True, kw_only=True)
class Choices:
    """One choice of each assumption. accountant: of ``ACCOUNTANTS``. sampling: of ``SAMPLINGS``. neighbours: of
    ``NEIGHBOURS``. micro_batch: whether the accountant is told a batch of 1. printed_examples: whether it is told the
    printed n. pooled: whether all clients' sentences are counted together. sentences: of one person, or clients, where
    those are protected. whole_client: whether a client is to be protected, with all its sentences. trainings: on the
    same data, settings fixed beforehand. seed_known: whether the noise's seed is. Raises InvalidConfig."""

    accountant: str = "pld"
    sampling: str = "poisson"
    neighbours: str = "add-or-remove"
    micro_batch: bool = False
    printed_examples: bool = False
    pooled: bool = False
    sentences: int = 1
    whole_client: bool = False
    trainings: int = 1
    delta: float = 1e-5
    seed_known: bool = False

    def __post_init__(self) -> None:
        for name, known in (("accountant", ACCOUNTANTS), ("sampling", SAMPLINGS), ("neighbours", NEIGHBOURS)):
            if getattr(self, name) not in known:
                raise InvalidConfig(f"{name}={getattr(self, name)!r}, expected one of {', '.join(known)}")
        check_size(self.sentences)
        if not 1 <= self.trainings <= 10_000:
            raise InvalidConfig(f"trainings={self.trainings:,}, expected 1 to 10,000")
        if not 0 < self.delta < 1:
            raise InvalidConfig(f"delta={self.delta}, expected more than 0 and less than 1")


FIELDS = {
    "data": ("pooled", "printed_examples"),
    "batch": ("micro_batch",),
    "accountant": ("accountant",),
    "sampling": ("sampling",),
    "neighbours": ("neighbours",),
    "unit": ("sentences", "whole_client"),
    "trainings": ("trainings",),
    "delta": ("delta",),
    "seed": ("seed_known",),
    "floating": (),
}
"""What of the choices belongs to which assumption."""


def plans(training: Training, choices: Choices) -> list[PrivacyPlan]:
    """What the accountant is told was done, part by part, as if batches were drawn by chance."""
    parts: tuple[Part, ...] = training.own
    printed = training.printed_examples if choices.printed_examples else None
    if choices.pooled or printed:
        examples = printed or training.examples
        if not choices.pooled:
            examples //= training.clients
        parts = (Part(examples, training.batch_size, max(1, round(training.epochs * examples / training.batch_size))),)
    return [
        PrivacyPlan(
            examples=part.examples,
            batch_size=1 if choices.micro_batch else part.batch_size,
            steps=_steps(training, choices, part) * choices.trainings,
            noise_multiplier=training.noise_multiplier,
            clip_norm=1.0,
            delta=choices.delta,
            sampling="poisson",
        )
        for part in parts
    ]


def _steps(training: Training, choices: Choices, part: Part) -> int:
    """With a batch of 1 as many steps as it takes for the same passes."""
    if not choices.micro_batch:
        return part.steps
    if training.parts:
        return part.steps * part.batch_size
    return max(1, round(training.epochs * part.examples))
