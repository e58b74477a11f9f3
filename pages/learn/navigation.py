"""Navigation between lessons and from question to answer. The session keeps all guesses for a later visit."""

from dataclasses import replace

import streamlit as st

from pages.learn.lesson import Lesson
from pages.learn.url_state import FIELDS, UrlState

_GUESSES = "learn_guesses"


def answer(state: UrlState, guess: float | None) -> None:
    """Show the answer with this guess, or without one if it is None."""
    _change(replace(state, answered=True, guess=guess))


def ask(state: UrlState) -> None:
    """Discard the guess and ask again."""
    _guesses().pop(state.lesson.name if state.lesson else "", None)
    _change(replace(state, answered=False, guess=None))


def remember(state: UrlState) -> None:
    """Keep the guess of the open lesson for the next visit."""
    if state.lesson and state.answered:
        _guesses()[state.lesson.name] = state.guess


def seen(lesson: Lesson) -> bool:
    """Return whether this session has shown a lesson's answer."""
    return lesson.name in _guesses()


def go(lesson: Lesson | None, *, in_class: bool) -> None:
    """Open a lesson with its earlier guess, or the overview if it is None.

    The fields of the previous lesson are removed from the link.
    """
    state = UrlState(lesson=lesson, in_class=in_class)
    if lesson and seen(lesson):
        state = replace(state, answered=True, guess=_guesses()[lesson.name])
    st.query_params.from_dict(state.fields())


def links(state: UrlState, lessons: tuple[Lesson, ...]) -> None:
    """Show the buttons for the previous lesson, all lessons, class mode and the next lesson."""
    index = lessons.index(state.lesson) if state.lesson else None
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        if index:
            _button(f"Back: {lessons[index - 1].title}", ":material/arrow_back:", "back", lessons[index - 1], state)
        if index is not None:
            _button("All lessons", ":material/list:", "all", None, state)
        st.button(
            "Leave class mode" if state.in_class else "Enter class mode",
            type="tertiary",
            icon=":material/cancel_presentation:" if state.in_class else ":material/present_to_all:",
            help=None
            if state.in_class
            else "Large type without header and sidebar. ← and → open the previous and the next lesson, unless a "
            "slider has the focus.",
            key="class_mode",
            on_click=_change,
            args=(replace(state, in_class=not state.in_class),),
        )
        if index is not None and index + 1 < len(lessons):
            _button(f"Next: {lessons[index + 1].title}", ":material/arrow_forward:", "next", lessons[index + 1], state)


def _button(label: str, icon: str, key: str, lesson: Lesson | None, state: UrlState) -> None:
    st.button(
        label,
        icon=icon,
        icon_position="right" if key == "next" else "left",
        key=f"lesson_{key}",
        type="tertiary",
        on_click=go,
        args=(lesson,),
        kwargs={"in_class": state.in_class},
    )


def _change(state: UrlState) -> None:
    """Set the page's own fields of the link; the fields of the lesson's controls stay."""
    fields = state.fields()
    for name in FIELDS:
        if name in fields:
            st.query_params[name] = fields[name]
        else:
            st.query_params.pop(name, None)


def _guesses() -> dict[str, float | None]:
    guesses: dict[str, float | None] = st.session_state.setdefault(_GUESSES, {})
    return guesses
