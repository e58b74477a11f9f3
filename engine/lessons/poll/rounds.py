"""Rounds of a poll: the teacher opens and closes them, and each phone counts once per round.

The answers are in memory only and end with the process.
"""

import math
import secrets
import statistics
import threading
from dataclasses import dataclass, field

from engine.errors import EpsilonError

MOST_PHONES = 500
"""Largest number of phones that count in a round."""
MOST_BINS = 20
"""Largest number of bins of a histogram."""


class Refused(EpsilonError):
    """An answer that is not counted; the text gives the reason to the voter."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question whose answer is a number.

    Attributes:
        name: Name of the lesson.
        text: The question, plain text.
        label: Label of the input field, plain text.
        low: Smallest valid answer.
        high: Largest valid answer.
        step: Step of the input field.
        unit: Unit as it follows the number, plain text.
    """

    name: str
    text: str
    label: str
    low: float
    high: float
    step: float
    unit: str = ""


@dataclass(frozen=True, kw_only=True)
class Tally:
    """The answers of a round so far.

    Attributes:
        question: The question.
        token: Token of the round, so that an answer to an earlier question does not count for this one.
        is_open: Whether the round accepts answers.
        values: Answer of each phone, ascending.
    """

    question: Question
    token: str
    is_open: bool
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median of the values; NaN without values."""
        return statistics.median(self.values) if self.values else math.nan

    def bins(self) -> tuple[list[float], list[int]]:
        """Return the edges and the counts of a histogram; there is one more edge than counts.

        There are at most ``MOST_BINS`` bins of equal width, each with the same number of steps. Edges are halfway
        between two steps.
        """
        question = self.question
        steps = round((question.high - question.low) / question.step) + 1
        per_bin = math.ceil(steps / MOST_BINS)
        width, first = per_bin * question.step, question.low - question.step / 2
        counts = [0] * math.ceil(steps / per_bin)
        for value in self.values:
            counts[min(int((value - first) / width), len(counts) - 1)] += 1
        return [first + number * width for number in range(len(counts) + 1)], counts


@dataclass
class _Round:
    question: Question
    token: str
    is_open: bool = True
    answers: dict[str, float] = field(default_factory=dict)


class Poll:
    """A poll with one question at a time, which keeps the last round of each lesson. It is thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rounds: dict[str, _Round] = {}
        self._current: _Round | None = None

    def open(self, question: Question) -> None:
        """Open a round without answers, and close the open one."""
        with self._lock:
            self._close()
            self._current = self._rounds[question.name] = _Round(question, secrets.token_urlsafe(16))

    def close(self) -> None:
        """Close the open round, if any, and keep its answers."""
        with self._lock:
            self._close()

    def clear(self, name: str) -> None:
        """Delete the answers for a lesson. An open round stays open, and phones may answer again."""
        with self._lock:
            if name in self._rounds:
                if self._rounds[name].is_open:
                    self._rounds[name].answers.clear()
                else:
                    del self._rounds[name]

    def current(self) -> Tally | None:
        """Return the open round; None if no round is open."""
        with self._lock:
            return _tally(self._current)

    def of(self, name: str) -> Tally | None:
        """Return the last round of a lesson, open or closed; None before the first."""
        with self._lock:
            return _tally(self._rounds.get(name))

    def answer(self, token: str, phone: str, text: str) -> None:
        """Count a phone's answer, which replaces its earlier one.

        Args:
            token: Token of the round.
            phone: Cookie of the phone.
            text: The answer as typed; a decimal comma is valid.

        Raises:
            Refused: If the round is closed, too many phones have answered, or the text is no number from low to high.
        """
        with self._lock:
            current = self._current
            if current is None or current.token != token:
                raise Refused("This question is closed. Your answer was not counted.")
            value, question = _number(text), current.question
            if not question.low <= value <= question.high:  # also true for NaN
                raise Refused(
                    f"Your answer is no number from {question.low:g} to {question.high:g}. It was not counted."
                )
            if phone not in current.answers and len(current.answers) >= MOST_PHONES:
                raise Refused(f"{MOST_PHONES} phones have answered. More answers are not counted.")
            current.answers[phone] = value

    def answered(self, phone: str) -> float | None:
        """Return this phone's answer in the open round; None without one."""
        with self._lock:
            return self._current.answers.get(phone) if self._current else None

    def _close(self) -> None:
        if self._current:
            self._current.is_open = False
            self._current = None


def _tally(current: _Round | None) -> Tally | None:
    if current is None:
        return None
    values = tuple(sorted(current.answers.values()))
    return Tally(question=current.question, token=current.token, is_open=current.is_open, values=values)


def _number(text: str) -> float:
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        return math.nan
