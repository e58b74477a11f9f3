"""What a link to a lesson holds, apart from the lesson's own controls: no streamlit.

``lesson``: its name. ``guess``: a number, or ``none`` where the answer is shown without one. ``class``: ``yes`` for
class mode. Links come from anybody: what cannot be used is left out, and said.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pages.learn.lesson import Guess, Lesson

FIELDS = ("lesson", "guess", "class")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where somebody is: before a lesson, or in one. answered: whether the guess was made, or left out (then it is
    None). in_class: whether in class mode."""

    lesson: Lesson | None = None
    answered: bool = False
    guess: float | None = None
    in_class: bool = False

    def fields(self) -> dict[str, str]:
        """What of a link leads here."""
        fields = {}
        if self.lesson:
            fields["lesson"] = self.lesson.name
        if self.answered:
            fields["guess"] = "none" if self.guess is None else f"{self.guess:.12g}"
        if self.in_class:
            fields["class"] = "yes"
        return fields


def read(fields: Mapping[str, str], lessons: Sequence[Lesson]) -> tuple[Place, list[str]]:
    """Where a link leads, and a sentence for each field that was left out."""
    place, problems = Place(in_class=fields.get("class") == "yes"), []
    if (name := fields.get("lesson")) is not None:
        place = replace(place, lesson=next((each for each in lessons if each.name == name), None))
        if place.lesson is None:
            problems.append("The link names a lesson that is not here; these are.")
    asked = fields.get("guess")
    if place.lesson is None or asked is None:
        return place, problems
    guess = None if asked == "none" else number(asked, place.lesson.guess)
    if guess is None and asked != "none":
        problems.append("The guess in the link cannot be one; it was left out.")
        return place, problems
    return replace(place, answered=True, guess=guess), problems


def number(text: str, guess: Guess) -> float | None:
    """A guess that was written down; None where it is no number or beyond the ends."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and guess.low <= value <= guess.high else None
