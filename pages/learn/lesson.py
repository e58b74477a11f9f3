"""What a lesson is: a question, the learner's guess, one picture to play with, and a note for who teaches it."""

from collections.abc import Callable
from dataclasses import dataclass

MOST_WORDS = 120
"""On the screen: question and guess before the answer; picture, its sentence, captions and the words under it after."""


@dataclass(frozen=True, kw_only=True)
class Guess:
    """What is asked for before the controls are released: a number from ``low`` to ``high``. label: of its slider.
    unit: after the number, such as " %"."""

    label: str
    low: float
    high: float
    step: float
    unit: str = ""


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """One lesson.

    name: in links. title: a few words. about: what one does in it, a sentence. question: asked first, in Markdown.
    guess: how it is answered. show: draws controls, picture and the sentence that answers, with the learner's guess
    drawn into the picture (None where it was left out). words: what the picture cannot say, in Markdown. simplifies:
    what the primer says too simply, and what is so; None where it does not. note: for the teacher, in Markdown:
    sources, pitfalls, a question for the class.
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


def shown(value: float, unit: str) -> str:
    """A guess with its unit."""
    return f"{value:g}{unit}"
