"""Data of a lesson: a question, the learner's guess, an interactive chart, and a note for the teacher."""

from collections.abc import Callable
from dataclasses import dataclass

MOST_WORDS = 120
"""Largest number of visible words, so that the chart stays the main thing.

Before the answer, the question and the guess count. After it, the headline, the captions and ``words`` count.
"""


@dataclass(frozen=True, kw_only=True)
class Guess:
    """The number that a lesson asks for before it shows its controls.

    Attributes:
        label: Label of the slider.
        low: Smallest value.
        high: Largest value.
        step: Step of the slider.
        unit: Text after the number, such as `` %``.
    """

    label: str
    low: float
    high: float
    step: float
    unit: str = ""


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """A lesson.

    Attributes:
        name: Name in links.
        title: Heading, a few words.
        about: The learner's activity, in a sentence.
        question: First text of the lesson, in Markdown.
        guess: The number that answers the question.
        show: Draws controls, chart and headline. Its argument is the learner's guess for the chart, None if skipped.
        words: Facts that the chart does not show, in Markdown.
        simplifies: Common simplifications of the topic and their correction, None without any.
        note: For the teacher, in Markdown: sources, pitfalls, a question for the class.
    """

    name: str
    title: str
    about: str
    question: str
    guess: Guess
    show: Callable[[float | None], None]
    words: str
    simplifies: str | None = None
    note: str


def with_unit(value: float, unit: str) -> str:
    """Return a guess with its unit."""
    return f"{value:g}{unit}"
