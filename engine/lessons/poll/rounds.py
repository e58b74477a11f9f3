"""Rounds of a poll: who asks opens and closes them, and a phone counts once in each.

Nothing of it is written anywhere: with the process it is gone.
"""

import math
import secrets
import statistics
import threading
from dataclasses import dataclass, field

from engine.errors import EpsilonError

MOST_PHONES = 500
"""That are counted in a round."""
MOST_BINS = 20
"""Of a distribution."""


class Refused(EpsilonError):
    """An answer that is not counted; the text says why, to whoever holds the phone."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked: for a number from ``low`` to ``high``, in steps of ``step``. name: of the lesson. text, label,
    unit: plain text, the unit as it follows the number."""

    name: str
    text: str
    label: str
    low: float
    high: float
    step: float
    unit: str = ""


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What has come in so far. token: of the round, so that an answer to an earlier question is not taken for one to
    this. values: one for each phone, smallest first."""

    question: Question
    token: str
    is_open: bool
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """Of the values; with an even number of them the mean of the two in the middle. NaN without any."""
        return statistics.median(self.values) if self.values else math.nan

    def bins(self) -> tuple[list[float], list[int]]:
        """The distribution: edges, one more than counts, and counts. Bins are equally wide, at most ``MOST_BINS``, hold
        as many of the steps each, and have the first step in the middle of its part."""
        asked = self.question
        steps = round((asked.high - asked.low) / asked.step) + 1
        each = math.ceil(steps / MOST_BINS)
        width, first = each * asked.step, asked.low - asked.step / 2
        counts = [0] * math.ceil(steps / each)
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
    """One question at a time; the last round of each lesson is kept. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rounds: dict[str, _Round] = {}
        self._current: _Round | None = None

    def open(self, question: Question) -> None:
        """Begin a round, in which nobody has answered; one that is open is closed."""
        with self._lock:
            self._close()
            self._current = self._rounds[question.name] = _Round(question, secrets.token_urlsafe(16))

    def close(self) -> None:
        """No more answers; what has come in stays. Does nothing where no round is open."""
        with self._lock:
            self._close()

    def clear(self, name: str) -> None:
        """Forget what came in for a lesson. A round that is open goes on, and phones may answer again."""
        with self._lock:
            if name in self._rounds:
                if self._rounds[name].is_open:
                    self._rounds[name].answers.clear()
                else:
                    del self._rounds[name]

    def current(self) -> Tally | None:
        """The round that is open, None between two."""
        with self._lock:
            return _tally(self._current)

    def of(self, name: str) -> Tally | None:
        """The last round of a lesson, open or closed; None before the first."""
        with self._lock:
            return _tally(self._rounds.get(name))

    def answer(self, token: str, phone: str, text: str) -> None:
        """Count a phone's answer, in the place of its earlier one.

        Raises Refused where the round is over, too many phones have answered, or the text is no number from low to
        high; a comma may stand for the point.
        """
        with self._lock:
            current = self._current
            if current is None or current.token != token:
                raise Refused("This question is closed: the answer was not counted.")
            value, asked = _number(text), current.question
            if not asked.low <= value <= asked.high:  # NaN is not either
                raise Refused(f"That is no number from {asked.low:g} to {asked.high:g}: it was not counted.")
            if phone not in current.answers and len(current.answers) >= MOST_PHONES:
                raise Refused(f"{MOST_PHONES} phones have answered: no more are counted.")
            current.answers[phone] = value

    def answered(self, phone: str) -> float | None:
        """What this phone has answered in the open round."""
        with self._lock:
            return self._current.answers.get(phone) if self._current else None

    def _close(self) -> None:
        if self._current:
            self._current.is_open = False
            self._current = None


def _tally(found: _Round | None) -> Tally | None:
    if found is None:
        return None
    values = tuple(sorted(found.answers.values()))
    return Tally(question=found.question, token=found.token, is_open=found.is_open, values=values)


def _number(text: str) -> float:
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        return math.nan
