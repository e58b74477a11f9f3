"""A privacy claim of another party: what its ε limits, which facts are missing, and how large ε could be.

A claim is a number, ε, with few facts beside it. Each missing fact can hide a larger ε. For a training with DP-SGD of
known or typical size, the noise follows from the claim; ε then follows for each fact as it often is in practice.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from engine.errors import InvalidConfig
from engine.privacy.accounting import noise_multiplier_for
from engine.privacy.assumptions import Training, at_least, epsilon
from engine.privacy.plan import PrivacyPlan

UNITS = {
    "sentence": "one sentence",
    "document": "one document",
    "person": "one person, with all their data",
    "client": "one organisation or device, with all its data",
    "unknown": "not stated",
}
"""Protected units."""
MOST_EPSILON, MOST_RECORDS, LEAST_DELTA = 1000.0, 10_000, 1e-50
"""Largest ε of a claim, largest number of records of one person, and smallest δ that is not 0."""


@dataclass(frozen=True)
class Fact:
    """A fact that a claim needs.

    Attributes:
        title: Its name.
        stated: The fact, as the claim should state it.
        question: Question to the one who claims.
        often: How it often is where a claim does not state it.
        changes: That case, as fields of :class:`engine.privacy.assumptions.Choices`; empty if no ε follows from it.
    """

    title: str
    stated: str
    question: str
    often: str
    changes: Mapping[str, Any] = field(default_factory=dict)


FACTS = {
    "sampling": Fact(
        "Sampling of batches",
        "Batches are sampled at random, each record independently (Poisson), or ε does not rely on sampling",
        "How were the batches drawn, and does the computation of ε assume exactly this?",
        "Batches are shuffled, while ε is computed for Poisson sampling.",
        {"sampling": "none"},
    ),
    "neighbours": Fact(
        "Adjacency",
        "Adjacent data sets differ by one added or removed record",
        "Which two data sets are adjacent: is one record added or removed, or is it replaced?",
        "One record is replaced, which is an addition and a removal.",
        {"neighbours": "replace"},
    ),
    "trainings": Fact(
        "Trainings on the data",
        "All trainings on these data are counted, trials of a hyperparameter search included",
        "How many models were trained on these data, and does ε count all of them?",
        "Twenty settings are tried on the same data, and ε counts one.",
        {"trainings": 20},
    ),
    "seed": Fact(
        "Secret noise",
        "The noise comes from a secret, cryptographically secure generator",
        "Which generator made the noise, and who knows or stored its seed?",
        "The seed is fixed and known, to repeat the training. Then the noise can be subtracted.",
        {"seed_known": True},
    ),
    "trust": Fact(
        "Trust",
        "It is stated who adds the noise, and who sees data or updates before that",
        "Who adds the noise, and who sees the data or the updates of clients without it?",
        "A central server sees everything; ε holds only for those who get the finished model.",
    ),
    "public": Fact(
        "Everything else from the data",
        "Vocabulary, entity types, features, early stopping and reported scores are public or counted",
        "What else was derived from the data: vocabulary, entity types, features, early stopping, published scores?",
        "A vocabulary or a choice made on the data is released without noise. Then ε does not cover it.",
    ),
    "software": Fact(
        "Accountant",
        "The software and its version that computed ε are named, with all its inputs",
        "Which software computed ε, with which batch size, number of records, steps and noise multiplier?",
        "A batch size of 1 is entered for a micro-batch. Then ε is several times too small.",
    ),
    "test": Fact(
        "Test of the implementation",
        "The implementation was tested, by a privacy audit or by measuring the noise that was added",
        "Was the implementation audited: by whom, how, and with which lower bound on ε?",
        "There was no test. Errors in clipping and noise are common and invisible in the model's scores.",
    ),
}
"""Facts besides ε, δ and the protected unit, the most important first."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A privacy claim.

    Attributes:
        epsilon: ε.
        delta: δ; 0 for pure differential privacy.
        unit: Protected unit, a key of ``UNITS``.
        records: Records of one person, of those that the unit protects one by one.
        known: Keys of ``FACTS`` that are stated and hold.
        examples: Number of records of the training.
        batch_size: Records of a step, on average.
        epochs: Epochs.
    """

    epsilon: float
    delta: float = 1e-5
    unit: str = "sentence"
    records: int = 10
    known: frozenset[str] = frozenset()
    examples: int = 10_000
    batch_size: int = 256
    epochs: float = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.epsilon <= MOST_EPSILON:
            raise InvalidConfig(f"epsilon={self.epsilon:g}, expected more than 0 and at most {MOST_EPSILON:,.0f}")
        if self.delta != 0 and not LEAST_DELTA <= self.delta < 1:
            raise InvalidConfig(f"delta={self.delta:g}, expected 0, or {LEAST_DELTA:g} or more and less than 1")
        if self.unit not in UNITS:
            raise InvalidConfig(f"unit={self.unit!r}, expected one of {', '.join(UNITS)}")
        if not 1 <= self.records <= MOST_RECORDS:
            raise InvalidConfig(f"records={self.records:,}, expected 1 to {MOST_RECORDS:,}")
        if unknown := self.known - set(FACTS):
            raise InvalidConfig(f"known={', '.join(sorted(unknown))}, expected some of {', '.join(FACTS)}")

    @property
    def covers_a_person(self) -> bool:
        """Whether the unit has all records of a person."""
        return self.unit in ("person", "client")

    @property
    def missing(self) -> tuple[str, ...]:
        """Keys of the facts that are not stated."""
        return tuple(name for name in FACTS if name not in self.known)


@dataclass(frozen=True)
class Consequence:
    """ε if a missing fact is as it often is.

    Attributes:
        fact: Key of ``FACTS``.
        epsilon: Upper bound at the claim's δ, ∞ without protection; None if none is known.
        at_least: Lower bound on the true ε, where one is known.
    """

    fact: str
    epsilon: float | None
    at_least: float | None


def right(epsilon: float, delta: float) -> float:
    """Return the largest probability that an attacker is right about one unit, in the data or not, at equal odds.

    It is (e^ε + δ) / (1 + e^ε) (Kairouz, Oh and Viswanath 2015, theorem 2.1).

    Args:
        epsilon: ε ≥ 0; may be ∞.
        delta: δ, from 0 to 1.
    """
    return 1 - (1 - min(1.0, delta)) / (1 + math.exp(min(epsilon, 700.0)))


def of_person(claim: Claim) -> tuple[float, float]:
    """Return ε and δ of a person with all their records, for any mechanism.

    For k records they are kε and δ·(e^(kε) − 1) / (e^ε − 1), at most 1 (Dwork and Roth 2014, theorem 2.2).
    """
    if claim.covers_a_person:
        return claim.epsilon, claim.delta
    total = claim.records * claim.epsilon
    if total > 700:
        return total, 1.0 if claim.delta else 0.0
    return total, min(1.0, claim.delta * math.expm1(total) / math.expm1(claim.epsilon))


@lru_cache(maxsize=256)
def training(claim: Claim) -> Training | None:
    """Return a training with DP-SGD whose ε is that of the claim, or None if there is none.

    It has the claim's records, batch size and epochs, Poisson sampling and add-or-remove adjacency. The noise
    multiplier is the smallest one that gives the claim's ε.

    Raises:
        InvalidConfig: If a number is out of range.
    """
    if claim.delta == 0:
        return None
    made = Training(
        examples=claim.examples,
        batch_size=claim.batch_size,
        epochs=claim.epochs,
        noise_multiplier=1.0,
        delta=claim.delta,
    )
    (part,) = made.own
    plan = PrivacyPlan(
        examples=part.examples,
        batch_size=part.batch_size,
        steps=part.steps,
        noise_multiplier=1.0,
        clip_norm=1.0,
        delta=claim.delta,
        sampling="poisson",
    )
    return replace(made, noise_multiplier=noise_multiplier_for(claim.epsilon, plan))


def consequences(claim: Claim) -> tuple[Consequence, ...]:
    """Return ε for each missing fact from which an ε follows, if only this fact is as it often is.

    Raises:
        InvalidConfig: As :func:`training`.
    """
    named = {name: FACTS[name].changes for name in claim.missing if FACTS[name].changes}
    return tuple(_consequence(claim, name, changes) for name, changes in named.items())


def together(claim: Claim, left_out: Collection[str] = ("seed",)) -> Consequence | None:
    """Return ε if all missing facts are as they often are, except those left out; None if at most one is missing.

    Raises:
        InvalidConfig: As :func:`training`.
    """
    named = [name for name in claim.missing if FACTS[name].changes and name not in left_out]
    merged: dict[str, Any] = {}
    for name in named:
        merged |= FACTS[name].changes
    return _consequence(claim, "", merged) if len(named) > 1 else None


def _consequence(claim: Claim, name: str, changes: Mapping[str, Any]) -> Consequence:
    if changes.get("seed_known"):
        return Consequence(name, math.inf, None)
    made = training(claim)
    if made is None:
        return Consequence(name, None, None)
    choices = replace(made.promised, **changes)
    return Consequence(name, epsilon(made, choices), at_least(made, choices))
