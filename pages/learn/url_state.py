"""State of the page Learn in its link, apart from the controls of a lesson. Without Streamlit.

``lesson``: the lesson's name. ``guess``: a number, or ``none`` if the guess was skipped. ``class``: ``yes`` for class
mode. Links are untrusted: invalid fields are ignored and reported.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pages.learn.lesson import Guess, Lesson

FIELDS = ("lesson", "guess", "class")


@dataclass(frozen=True, kw_only=True)
class UrlState:
    """The state of the page Learn that its link restores.

    Attributes:
        lesson: The open lesson, None for the overview.
        answered: Whether the guess was submitted or skipped.
        guess: The submitted guess, None if it was skipped or is still missing.
        in_class: Whether class mode is on.
    """

    lesson: Lesson | None = None
    answered: bool = False
    guess: float | None = None
    in_class: bool = False

    def fields(self) -> dict[str, str]:
        """Return the fields of a link to this state."""
        fields = {}
        if self.lesson:
            fields["lesson"] = self.lesson.name
        if self.answered:
            fields["guess"] = "none" if self.guess is None else f"{self.guess:.12g}"
        if self.in_class:
            fields["class"] = "yes"
        return fields


def read(fields: Mapping[str, str], lessons: Sequence[Lesson]) -> tuple[UrlState, list[str]]:
    """Return the state in the fields of a link, and an error message for each ignored field."""
    state, problems = UrlState(in_class=fields.get("class") == "yes"), []
    if (name := fields.get("lesson")) is not None:
        state = replace(state, lesson=next((lesson for lesson in lessons if lesson.name == name), None))
        if state.lesson is None:
            problems.append("The link names an unknown lesson. Choose one of the lessons below.")
    text = fields.get("guess")
    if state.lesson is None or text is None:
        return state, problems
    asked = state.lesson.guess
    guess = None if text == "none" else number(text, asked)
    if guess is None and text != "none":
        problems.append(
            f"The guess in the link is invalid and was ignored; expected a number from {asked.low:g} to {asked.high:g}."
        )
        return state, problems
    return replace(state, answered=True, guess=guess), problems


def number(text: str, guess: Guess) -> float | None:
    """Return a guess from its text; None if it is not a number or out of range."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and guess.low <= value <= guess.high else None
