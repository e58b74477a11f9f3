"""What somebody needs: scores that must be reached, within an ε, a time and a way of holding the data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import InvalidConfig
from engine.validation import integer, number, one_of

ALL = ""
"""Stands for all names, whatever their type."""
SCORES = ("f1", "precision", "recall")
USUAL_DELTA = 1e-5


@dataclass(frozen=True)
class Measure:
    """A score on the test part, whole names and strict. kind: an entity type, a platform, or ``ALL``. score: one of
    ``SCORES``."""

    score: str = "f1"
    kind: str = ALL


@dataclass(frozen=True)
class Threshold:
    """A score and the least that it must be, in (0, 1]. Raises InvalidConfig."""

    measure: Measure
    at_least: float

    def __post_init__(self) -> None:
        one_of("score", self.measure.score, SCORES)
        where = f" of {self.measure.kind}" if self.measure.kind else ""
        number(f"{self.measure.score}{where}", self.at_least, 0, 1, "a number in (0, 1]", low_open=True)


@dataclass(frozen=True, kw_only=True)
class Target:
    """All that must hold at once. epsilon, seconds: at most, None for any. delta: of every ε that is compared. clients:
    how many parties hold the data, None for any number. Raises InvalidConfig."""

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
            raise InvalidConfig("the target is empty, expected a score, an ε or a number of seconds")
        measures = [each.measure for each in self.thresholds]
        if twice := next((each for each in measures if measures.count(each) > 1), None):
            raise InvalidConfig(f"{twice.score} of {twice.kind or 'all names'} is asked for twice, expected it once")

    @property
    def main(self) -> Measure:
        """What a curve is drawn of: the first score that is asked for, else F1 of all names."""
        return self.thresholds[0].measure if self.thresholds else Measure()


def read(texts: Sequence[str], score: str) -> list[Threshold]:
    """Thresholds as a shell gives them: "0.8" of all names, "PER=0.9" of a type. Raises InvalidConfig."""
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
