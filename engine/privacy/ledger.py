"""ε as a ledger of assumptions: what the same training costs if one thing is taken for granted, or another.

A training is n sentences, batches, epochs, σ. Which ε stands beside it follows from how it is accounted, how batches
are thought to be drawn, who is protected and from what, and what else was done with the same sentences. Each of these
is an *assumption* with a few choices; some hold for a run, others are what is often printed all the same. ε is worked
out anew for any choice, by the engine's accountants alone; where no sound number is known, there is none.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from engine.config import SimulationConfig
from engine.errors import InvalidConfig
from engine.privacy import accounting
from engine.privacy.groups import check_size, group_epsilon
from engine.privacy.plan import PrivacyPlan

TITLES = {
    "data": "Whose data is counted",
    "batch": "Batch size in the formula",
    "accountant": "Accountant",
    "sampling": "How batches are drawn",
    "neighbours": "Neighbouring data sets",
    "unit": "Who is protected",
    "trainings": "Trainings on the data",
    "delta": "δ",
    "seed": "Seed of the noise",
    "floating": "Floating point",
}
"""Assumptions, in the order in which a printed ε is set right."""
ACCOUNTANTS = {
    "rdp-classic": "Rényi, early orders and conversion",
    "rdp": "Rényi, improved conversion",
    "pld": "privacy loss distributions",
}
SAMPLINGS = {
    "poisson": "each sentence by its own chance (Poisson)",
    "as-poisson": "shuffled, counted as if drawn by chance",
    "none": "shuffled, sampling trusted for nothing",
}
NEIGHBOURS = {
    "add-or-remove": "one sentence more or less",
    "zero-out": "one sentence emptied",
    "replace": "one sentence exchanged for another",
}
WHY = {
    "data": "Each client adds noise to its own steps, so a sentence hides among those of its client alone. Counting "
    "more sentences than that makes each look rarer than it is.",
    "batch": "Some libraries clip micro-batches. Told a batch of 1, an accountant believes that a step draws one "
    "sentence, when in truth it draws many times as many.",
    "accountant": "All three are upper bounds on the same loss. A tighter one makes nothing more private; it says more "
    "exactly how private it was.",
    "sampling": "Chance hides who was in a step, and makes ε smaller. Shuffled batches have no such chance: everybody "
    "is in one of them in each epoch. The small figure is not proven of them, and they can cost more (Chua et al. "
    "2024); the large one is.",
    "neighbours": "What the attacker may not tell apart. An exchange is a removal and an addition, and costs more: at "
    "most what stands here. Figures under different conventions must not be compared.",
    "unit": "The promise is for one sentence. Whoever is named in several is promised less, and k times as much is no "
    "bound at the same δ.",
    "trainings": "Each training on the same sentences loses something, those of a search for the best setting too, "
    "whether their results are kept or not. Here all are alike and fixed beforehand.",
    "delta": "The chance that the promise does not hold at all. A smaller one costs more ε.",
    "seed": "Whoever knows the seed can compute the noise and subtract it. Then nothing is hidden.",
    "floating": "Noise in floating point is not quite normal in its last digits (Mironov 2012). No number is booked "
    "for it here, nor anywhere else that we know.",
}
"""Why the number moves."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """What was done. examples: sentences, n, of all clients. batch_size: expected, B. epochs: E. noise_multiplier: σ.
    delta: δ. shuffled: whether batches were shuffled and not drawn by chance. clients: with DP-SGD each on an equal
    part; 1 is central. printed_examples: n as it was printed, where that is another one. Raises InvalidConfig."""

    examples: int
    batch_size: int
    epochs: float
    noise_multiplier: float
    delta: float = 1e-5
    shuffled: bool = False
    clients: int = 1
    printed_examples: int | None = None

    def __post_init__(self) -> None:
        least = {"examples": 1, "batch_size": 1, "clients": 1}
        for name, value in least.items():
            if getattr(self, name) < value:
                raise InvalidConfig(f"{name}={getattr(self, name)}, expected at least {value}")
        if not 0 < self.epochs < 1e6:
            raise InvalidConfig(f"epochs={self.epochs}, expected more than 0 and less than a million")
        if not 0 <= self.noise_multiplier <= accounting.LARGEST_NOISE_MULTIPLIER:
            most = accounting.LARGEST_NOISE_MULTIPLIER
            raise InvalidConfig(f"noise_multiplier={self.noise_multiplier}, expected 0 to {most:,.0f}")
        if not 0 < self.delta < 1:
            raise InvalidConfig(f"delta={self.delta}, expected more than 0 and less than 1")
        if self.batch_size > self.examples // self.clients:
            raise InvalidConfig(
                f"batch_size={self.batch_size:,}, expected at most the {self.examples // self.clients:,} sentences of "
                "a client"
            )

    @classmethod
    def of(cls, config: SimulationConfig, sentences: int) -> "Training":
        """Of a configuration that trains on so many sentences. Raises InvalidConfig where sentences are not protected
        by DP-SGD on equal parts: the ledger has no numbers for those."""
        federation, privacy = config.federation, config.privacy
        if privacy.kind.whole_clients:
            raise InvalidConfig(
                f"mechanism={privacy.mechanism!r} protects whole clients, and the ledger is of sentences"
            )
        for name, value, expected in (
            ("platforms", len(config.platforms), 0),
            ("schedule", federation.schedule, "averaging"),
            ("partition", federation.partition, "random"),
            ("participants", federation.participants, None),
        ):
            if value != expected:
                raise InvalidConfig(
                    f"{name}={value!r}: the ledger is of one corpus in equal parts, trained on in turns"
                )
        own = sentences // federation.clients
        return cls(
            examples=own * federation.clients,
            batch_size=min(config.training.batch_size, max(1, own)),
            epochs=config.training.epochs * federation.rounds,
            noise_multiplier=privacy.noise_multiplier,
            delta=privacy.delta,
            shuffled=privacy.sampling == "shuffle",
            clients=federation.clients,
        )

    @property
    def promised(self) -> "Choices":
        """What holds of it, and is promised here."""
        sampling = "none" if self.shuffled else "poisson"
        return Choices(sampling=sampling, pooled=False, delta=self.delta)

    @property
    def printed(self) -> "Choices":
        """What a paper would print of it: Rényi accounting as if batches were drawn by chance, all data together."""
        sampling = "as-poisson" if self.shuffled else "poisson"
        return Choices(accountant="rdp", sampling=sampling, pooled=self.clients > 1, delta=self.delta)


@dataclass(frozen=True, kw_only=True)
class Choices:
    """One choice of each assumption. accountant: of ``ACCOUNTANTS``. sampling: of ``SAMPLINGS``. neighbours: of
    ``NEIGHBOURS``. micro_batch: whether the accountant is told a batch of 1. printed_examples: whether it is told the
    printed n. pooled: whether all clients' sentences are counted together. sentences: of one person. trainings: on the
    same sentences, settings fixed beforehand. seed_known: whether the noise's seed is. Raises InvalidConfig."""

    accountant: str = "pld"
    sampling: str = "poisson"
    neighbours: str = "add-or-remove"
    micro_batch: bool = False
    printed_examples: bool = False
    pooled: bool = False
    sentences: int = 1
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
    "unit": ("sentences",),
    "trainings": ("trainings",),
    "delta": ("delta",),
    "seed": ("seed_known",),
    "floating": (),
}
"""What of the choices belongs to which assumption."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One assumption with one choice. claimed: whether that is what holds and is promised. epsilon: with it, all else
    as it is promised; None where no sound number is known. choice: in words."""

    assumption: str
    choice: str
    claimed: bool
    epsilon: float | None
    delta: float
    why: str


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the way from one ε to another: which assumption is set right, and the ε there."""

    assumption: str
    choice: str
    epsilon: float | None


def epsilon(training: Training, choices: Choices) -> float | None:
    """The ε of a training under these choices; ∞ where nothing is hidden, None where no sound number is known: of
    several sentences under shuffled batches with one sentence more or less, or exchanged under chance."""
    if choices.seed_known or training.noise_multiplier == 0:
        return math.inf
    return _epsilon(training, choices)


@lru_cache(maxsize=4096)
def _epsilon(training: Training, choices: Choices) -> float | None:
    plan = _plan(training, choices)
    if choices.sampling == "none":
        return _of_fixed_batches(training, choices)
    if choices.sentences > 1:
        if choices.accountant != "pld" or choices.neighbours == "replace":
            return None
        return group_epsilon([(plan, plan.steps)], choices.sentences)
    if choices.neighbours == "replace":
        return _exchanged(plan, choices.accountant)
    # Emptied or removed: the same two distributions of a step (Kairouz et al. 2021, definition 2.1).
    return accounting.epsilon(plan, plan.steps, choices.accountant)


def _plan(training: Training, choices: Choices) -> PrivacyPlan:
    every = (training.printed_examples if choices.printed_examples else None) or training.examples
    examples = every if choices.pooled else every // training.clients
    batch = 1 if choices.micro_batch else training.batch_size
    return PrivacyPlan(
        examples=examples,
        batch_size=batch,
        steps=max(1, round(training.epochs * examples / batch)) * choices.trainings,
        noise_multiplier=training.noise_multiplier,
        clip_norm=1.0,
        delta=choices.delta,
        sampling="poisson",
    )


def _of_fixed_batches(training: Training, choices: Choices) -> float | None:
    """Everybody is in one batch of each epoch. Emptied, a sentence moves its batch's sum by up to C; exchanged, by up
    to 2C; added, one batch by up to 2C and the last by up to C (:func:`engine.privacy.accounting.shuffled_epsilon`).
    Several of one person move it k times as far at most, if they lie in one batch."""
    moved = {"zero-out": 1.0, "replace": 2.0, "add-or-remove": math.sqrt(5)}[choices.neighbours]
    if choices.sentences > 1 and choices.neighbours == "add-or-remove":
        return None
    moved *= choices.sentences
    epochs = math.ceil(training.epochs) * choices.trainings
    if choices.accountant == "pld":
        return accounting.gaussian_epsilon(math.sqrt(epochs) * moved / training.noise_multiplier, choices.delta)
    whole = replace(
        _plan(training, choices),
        examples=1,
        batch_size=1,
        steps=epochs,
        noise_multiplier=training.noise_multiplier / moved,
    )
    return accounting.epsilon(whole, epochs, choices.accountant)


def _exchanged(plan: PrivacyPlan, accountant: str) -> float:
    """An upper bound: a removal and an addition, each (ε, δ′), together (2ε, (1 + e^ε)·δ′) (Dwork and Roth 2014,
    theorem 2.2); δ′ such that this is δ, found from where the accountant has an ε at all."""
    low, high = plan.delta * 1e-30, plan.delta / 2
    for _ in range(60):
        middle = math.sqrt(low * high)
        one = accounting.epsilon(replace(plan, delta=middle), plan.steps, accountant)
        fits = math.isinf(one) or math.log(middle) + one + math.log1p(math.exp(-one)) <= math.log(plan.delta)
        low, high = (middle, high) if fits else (low, middle)
        if high / low < 1.01:
            break
    return 2 * accounting.epsilon(replace(plan, delta=low), plan.steps, accountant)


def choice_text(training: Training, assumption: str, choices: Choices) -> str:
    """What is chosen of an assumption, in words."""
    if assumption == "data":
        whose = "all clients' together" if choices.pooled and training.clients > 1 else ""
        own = f"of each of {training.clients:,} clients" if training.clients > 1 else ""
        number = training.printed_examples if choices.printed_examples else None
        return f"n = {number or training.examples:,}" + (f", {whose or own}" if whose or own else "")
    texts = {
        "batch": "1, taken for a micro-batch" if choices.micro_batch else f"{training.batch_size:,}",
        "accountant": ACCOUNTANTS[choices.accountant],
        "sampling": SAMPLINGS[choices.sampling],
        "neighbours": NEIGHBOURS[choices.neighbours],
        "unit": "one sentence" if choices.sentences == 1 else f"a person with {choices.sentences:,} sentences",
        "trainings": "this one alone" if choices.trainings == 1 else f"{choices.trainings:,}",
        "delta": f"{choices.delta:g}",
        "seed": "known to the attacker" if choices.seed_known else "secret",
        "floating": "as if numbers were real",
    }
    return texts[assumption]


def alternatives(training: Training) -> dict[str, tuple[Choices, ...]]:
    """Of each assumption what may be chosen, all else as it is promised; the first is what is promised."""
    base = training.promised
    others: dict[str, list[Choices]] = {
        "data": [replace(base, pooled=True)] * (training.clients > 1)
        + [replace(base, printed_examples=True)] * (training.printed_examples is not None),
        "batch": [replace(base, micro_batch=True)] if training.batch_size > 1 and not training.shuffled else [],
        "accountant": [replace(base, accountant=name) for name in reversed(ACCOUNTANTS) if name != base.accountant],
        "sampling": [replace(base, sampling=name) for name in _samplings(training) if name != base.sampling],
        "neighbours": [replace(base, neighbours=name) for name in NEIGHBOURS if name != base.neighbours],
        "unit": [replace(base, sentences=number) for number in (2, 5, 10)],
        "trainings": [replace(base, trainings=number) for number in (5, 50)],
        "delta": [replace(base, delta=delta) for delta in (1e-6, 1e-8) if delta < base.delta],
        "seed": [replace(base, seed_known=True)],
        "floating": [],
    }
    return {name: (base, *others[name]) for name in TITLES}


def _samplings(training: Training) -> tuple[str, ...]:
    """A training that drew by chance was not shuffled; what it would cost if chance were trusted for nothing may be
    asked all the same."""
    return ("none", "as-poisson") if training.shuffled else ("poisson", "none")


def rows(training: Training) -> tuple[Row, ...]:
    """Each choice of each assumption, with the ε if it alone is another one."""
    return tuple(
        Row(
            assumption=name,
            choice=choice_text(training, name, choices),
            claimed=choices == training.promised,
            epsilon=epsilon(training, choices),
            delta=choices.delta,
            why=WHY[name],
        )
        for name, every in alternatives(training).items()
        for choices in every
    )


def waterfall(training: Training, start: Choices, end: Choices) -> tuple[Step, ...]:
    """From the ε of ``start`` to that of ``end``, one assumption after another in the order of ``TITLES``; those that
    are equal in both are left out. The first step is the start, without an assumption."""
    now, found = start, [Step(assumption="", choice="", epsilon=epsilon(training, start))]
    for name, fields in FIELDS.items():
        after = replace(now, **{field: getattr(end, field) for field in fields})
        if after != now:
            now = after
            text = choice_text(training, name, now)
            found.append(Step(assumption=name, choice=text, epsilon=epsilon(training, now)))
    return tuple(found)


PRINTED_ROW = Training(
    examples=14_041, batch_size=32, epochs=10, noise_multiplier=1.0, shuffled=True, printed_examples=14_987
)
"""The setting of Table 2 of *Differentially Private Sequence Tagging in a Federated Framework*, σ = 1."""
AS_PRINTED = Choices(accountant="rdp-classic", sampling="as-poisson", micro_batch=True, printed_examples=True)
"""How its ε comes out as printed."""
