"""A training as the accountants see it, and one choice of each assumption about it."""

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
    """Noisy steps on a part of the data that shares no sentence with the other parts.

    Args:
        examples: n of this part.
        batch_size: Expected batch size.
        steps: Steps on this part.
    """

    examples: int
    batch_size: int
    steps: int


@dataclass(frozen=True, kw_only=True)
class Training:
    """A training with DP-SGD.

    Args:
        examples: n of all clients. If whole clients are protected, the number of clients.
        batch_size: Expected batch size B. If whole clients are protected, the expected participants of a round.
        epochs: Epochs E over all data, on average. With ``messages``, the messages of one client.
        noise_multiplier: σ.
        delta: δ.
        shuffled: Whether batches are shuffled instead of sampled at random.
        clients: Clients that each run DP-SGD on their own part of the data. The parts are equal without ``parts``.
        parts: The distinct parts of clients or of their rounds, if they differ.
        printed_examples: n that the paper reports, if it differs.
        longest_document: Sentences of the longest document, if there are documents.
        unit: Protected unit, "sentence" or "client". For clients the steps are rounds.
        messages: Whether clients add the noise to their messages.
        moves_sentences: Whether one more sentence may move others to another client or piece.

    Raises:
        InvalidConfig: If a value is out of range.
    """

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
    moves_sentences: bool = False

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
        """Return the training of a configuration on ``sentences`` sentences: central, or split evenly among clients.

        Raises:
            InvalidConfig: If the clients are not alike. Such a training needs the plan of its federation
                (:func:`engine.federated.accounting.training`).
        """
        federation, privacy = config.federation, config.privacy
        equal = federation.participants is None and federation.partition == "random" and not config.platforms
        if not equal or privacy.kind.client_level or federation.schedule != "averaging":
            raise InvalidConfig(
                "the assumptions of this federation need its corpus, which gives the sentences of each client"
            )
        own = sentences // federation.clients
        parts: tuple[Part, ...] = ()
        if federation.rounds > 1:  # each round has whole steps
            sizes = {max(1, own), -(-sentences // federation.clients)}
            round_plans = [PrivacyPlan.of_piece(config, size, sentences) for size in sorted(sizes)]
            parts = tuple(Part(plan.examples, plan.batch_size, plan.steps * federation.rounds) for plan in round_plans)
        return cls(
            examples=own * federation.clients,
            batch_size=min(config.training.batch_size, max(1, own)),
            epochs=config.training.epochs * federation.rounds,
            noise_multiplier=privacy.noise_multiplier,
            delta=privacy.delta,
            shuffled=privacy.sampling == "shuffle",
            clients=federation.clients,
            parts=parts,
            moves_sentences=config.moves_sentences,
        )

    @property
    def has_zero_out_adjacency(self) -> bool:
        """Whether ε holds for zeroing out a sentence, but not for adding one."""
        return self.moves_sentences and self.unit == "sentence"

    @property
    def bounds_by_addition(self) -> bool:
        """Whether ε for zeroing out a sentence is that of adding one, an upper bound: so for shuffled batches."""
        return self.has_zero_out_adjacency and self.shuffled

    @property
    def promised(self) -> "Choices":
        """The choices that hold for the training; ε under them is its privacy guarantee."""
        sampling = "none" if self.shuffled or self.messages else "poisson"
        zero_out = self.has_zero_out_adjacency and not self.bounds_by_addition
        neighbours = "replace" if self.messages else "zero-out" if zero_out else "add-or-remove"
        return Choices(sampling=sampling, neighbours=neighbours, pooled=False, delta=self.delta)

    @property
    def printed(self) -> "Choices":
        """The choices behind the ε that a paper would report: Rényi accounting, Poisson sampling, pooled data."""
        if self.messages:
            return self.promised
        sampling = "as-poisson" if self.shuffled else "poisson"
        neighbours = self.promised.neighbours  # papers rarely state it
        return Choices(
            accountant="rdp", sampling=sampling, neighbours=neighbours, pooled=self.several, delta=self.delta
        )

    @property
    def several(self) -> bool:
        """Whether there are several parts that could be pooled."""
        return self.clients > 1 or len(self.parts) > 1

    @cached_property
    def own(self) -> tuple[Part, ...]:
        """The distinct parts, each listed once."""
        if self.parts:
            return self.parts
        examples = self.examples // self.clients
        return (Part(examples, self.batch_size, max(1, round(self.epochs * examples / self.batch_size))),)


@dataclass(frozen=True, kw_only=True)
class Choices:
    """One choice of each assumption.

    Args:
        accountant: Key of ``ACCOUNTANTS``.
        sampling: Key of ``SAMPLINGS``.
        neighbours: Adjacency for which ε is computed, a key of ``NEIGHBOURS``.
        micro_batch: Whether the accountant gets a batch size of 1.
        printed_examples: Whether the accountant gets the n that the paper reports.
        pooled: Whether the sentences of all clients count as one data set.
        sentences: Size of the protected group: sentences of one person, or clients if these are protected.
        whole_client: Whether a client is protected with all its sentences.
        trainings: Number of trainings on the same data, with settings fixed in advance.
        delta: δ.
        seed_known: Whether the attacker knows the seed of the noise.

    Raises:
        InvalidConfig: If a value is out of range or unknown.
    """

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
        for name, valid in (("accountant", ACCOUNTANTS), ("sampling", SAMPLINGS), ("neighbours", NEIGHBOURS)):
            if getattr(self, name) not in valid:
                raise InvalidConfig(f"{name}={getattr(self, name)!r}, expected one of {', '.join(valid)}")
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
"""The fields of :class:`Choices` that belong to each assumption."""


def plans(training: Training, choices: Choices) -> list[PrivacyPlan]:
    """Return the plan of each part that the accountant gets, with Poisson sampling assumed."""
    parts: tuple[Part, ...] = training.own
    reported = training.printed_examples if choices.printed_examples else None
    if choices.pooled or reported:
        examples = reported or training.examples
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
    """Return the steps of a part; with a batch size of 1, as many as the same epochs need."""
    if not choices.micro_batch:
        return part.steps
    if training.parts:
        return part.steps * part.batch_size
    return max(1, round(training.epochs * part.examples))
