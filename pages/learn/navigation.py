"""From lesson to lesson, and from question to answer. Guesses stay with the session: who goes back finds them."""

from dataclasses import replace

import streamlit as st

from pages.learn.lesson import Lesson
from pages.learn.url_state import FIELDS, Place

_GUESSES = "learn_guesses"


def answer(place: Place, guess: float | None) -> None:
    """Release the answer. guess: None where it is left out."""
    _change(replace(place, answered=True, guess=guess))


def ask(place: Place) -> None:
    """Take the guess back."""
    _guesses().pop(place.lesson.name if place.lesson else "", None)
    _change(replace(place, answered=False, guess=None))


def remember(place: Place) -> None:
    """Keep the guess of this lesson for when it is come back to."""
    if place.lesson and place.answered:
        _guesses()[place.lesson.name] = place.guess


def seen(lesson: Lesson) -> bool:
    """Whether a lesson's answer was looked at in this session."""
    return lesson.name in _guesses()


def go(lesson: Lesson | None, *, in_class: bool) -> None:
    """Open a lesson, with the guess that was made there; None: what stands before the first.

    The link drops the fields of the lesson that is left.
    """
    place = Place(lesson=lesson, in_class=in_class)
    if lesson and seen(lesson):
        place = replace(place, answered=True, guess=_guesses()[lesson.name])
    st.query_params.from_dict(place.fields())


def links(place: Place, lessons: tuple[Lesson, ...]) -> None:
    """Back, all lessons, class mode, next."""
    here = lessons.index(place.lesson) if place.lesson else None
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        if here:
            _button(f"Back: {lessons[here - 1].title}", ":material/arrow_back:", "back", lessons[here - 1], place)
        if here is not None:
            _button("All lessons", ":material/list:", "all", None, place)
        st.button(
            "Leave class mode" if place.in_class else "Class mode",
            type="tertiary",
            icon=":material/cancel_presentation:" if place.in_class else ":material/present_to_all:",
            help=None
            if place.in_class
            else "Large type, and nothing else on the screen. ← and → lead from lesson to "
            "lesson, unless a slider has them.",
            key="class_mode",
            on_click=_change,
            args=(replace(place, in_class=not place.in_class),),
        )
        if here is not None and here + 1 < len(lessons):
            _button(f"Next: {lessons[here + 1].title}", ":material/arrow_forward:", "next", lessons[here + 1], place)


def _button(label: str, icon: str, key: str, lesson: Lesson | None, place: Place) -> None:
    st.button(
        label,
        icon=icon,
        icon_position="right" if key == "next" else "left",
        key=f"lesson_{key}",
        type="tertiary",
        on_click=go,
        args=(lesson,),
        kwargs={"in_class": place.in_class},
    )


def _change(place: Place) -> None:
    """Change the frame's fields of the link; the lesson's own stay."""
    fields = place.fields()
    for name in FIELDS:
        if name in fields:
            st.query_params[name] = fields[name]
        else:
            st.query_params.pop(name, None)


def _guesses() -> dict[str, float | None]:
    guesses: dict[str, float | None] = st.session_state.setdefault(_GUESSES, {})
    return guesses
