"""A target: required scores within limits on ε, seconds and the number of clients."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import InvalidConfig
from engine.validation import integer, number, one_of

ALL = ""
"""Value of an entity type that means all types."""
SCORES = ("f1", "precision", "recall")
USUAL_DELTA = 1e-5


@dataclass(frozen=True)
class Measure:
    """An entity-level (strict) score on the test set.

    Attributes:
        score: one of ``SCORES``.
        kind: an entity type, a client (silo), or ``ALL``.
    """

    score: str = "f1"
    kind: str = ALL


@dataclass(frozen=True)
class Threshold:
    """A score and its smallest acceptable value, in (0, 1].

    Raises:
        InvalidConfig: for a value out of range.
    """

    measure: Measure
    at_least: float

    def __post_init__(self) -> None:
        one_of("score", self.measure.score, SCORES)
        where = f" of {self.measure.kind}" if self.measure.kind else ""
        number(f"{self.measure.score}{where}", self.at_least, 0, 1, "a number in (0, 1]", low_open=True)


@dataclass(frozen=True, kw_only=True)
class Target:
    """The required scores and limits, all of which must hold.

    Attributes:
        corpus: name of the corpus.
        thresholds: required scores.
        epsilon: largest ε, None for no limit.
        seconds: longest wall time of a run in seconds, None for no limit.
        delta: δ of every compared ε.
        clients: number of clients that hold the data, None for any number.

    Raises:
        InvalidConfig: for a value out of range, for a score given twice, and for a target without score and limit.
    """

    corpus: str
    thresholds: tuple[Threshold, ...] = ()
    epsilon: float | None = None
    seconds: float | None = None
    delta: float = USUAL_DELTA
    clients: int | None = None

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            number("epsilon", self.epsilon, 0, math.inf, "a positive number", low_open=True, high_open=True)
        if self.seconds is not None:
            number("seconds", self.seconds, 0, math.inf, "a positive number", low_open=True, high_open=True)
        number("delta", self.delta, 0, 1, "a number between 0 and 1", low_open=True, high_open=True)
        if self.clients is not None:
            integer("clients", self.clients, 1, 100_000)
        if not self.thresholds and self.epsilon is None and self.seconds is None:
            raise InvalidConfig("the target is empty; expected a score, an ε or a number of seconds")
        measures = [each.measure for each in self.thresholds]
        if twice := next((each for each in measures if measures.count(each) > 1), None):
            raise InvalidConfig(f"{twice.score} of {twice.kind or 'all entities'} is given twice; expected it once")

    @property
    def main(self) -> Measure:
        """The score of the chart: the first required score, otherwise F1 over all entities."""
        return self.thresholds[0].measure if self.thresholds else Measure()


def read(texts: Sequence[str], score: str) -> list[Threshold]:
    """Parse thresholds from the command line: "0.8" for all entities, "PER=0.9" for one type.

    Raises:
        InvalidConfig: for a text that is not a threshold.
    """
    found = []
    for text in texts:
        kind, joined, value = text.rpartition("=")
        if joined and not kind:
            raise InvalidConfig(f"{score}={text!r}, expected an entity type before the =")
        try:
            found.append(Threshold(Measure(score, kind), float(value)))
        except ValueError as error:
            if isinstance(error, InvalidConfig):
                raise
            raise InvalidConfig(f"{score}={text!r}, expected a number in (0, 1], or TYPE=number") from None
    return found
