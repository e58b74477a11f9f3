"""Layout of a lesson: its question, the learner's guess, then its chart and notes."""

import streamlit as st

from pages.learn import class_poll, classroom, navigation
from pages.learn.lesson import Guess, Lesson, with_unit
from pages.learn.url_state import UrlState
from pages.shared import address


def show(state: UrlState, lesson: Lesson, lessons: tuple[Lesson, ...]) -> None:
    """Show a lesson in this state. After the answer its question is folded, except in class mode.

    Args:
        state: State of the page, with this lesson open.
        lesson: The open lesson.
        lessons: All lessons in teaching order.
    """
    if state.in_class:
        class_poll.close_others(lesson)
    st.markdown(f"### {lessons.index(lesson) + 1}. {address.plain(lesson.title)}")
    if state.answered and not state.in_class:
        with st.expander("The question", type="compact", icon=":material/help:", key="question"):
            st.markdown(lesson.question)
    else:
        st.markdown(lesson.question)
    if state.answered:
        _answer(state, lesson)
    elif state.in_class and class_poll.allowed():
        _ask_class(state, lesson)
    else:
        _ask(state, lesson.guess)
    navigation.links(state, lessons)
    if state.in_class:
        classroom.share(polls=class_poll.allowed())


def _ask(state: UrlState, guess: Guess) -> None:
    """Ask for the guess before the controls appear, so that the learner commits to a number first."""
    low, high, step = float(guess.low), float(guess.high), float(guess.step)
    middle = low + round((high - low) / 2 / step) * step
    template = "%g" + guess.unit.replace("%", "%%")
    value = st.slider(guess.label, low, high, middle, step, format=template, key="guess_slider")
    with st.container(horizontal=True):
        st.button("Submit guess", type="primary", key="guessed", on_click=navigation.answer, args=(state, value))
        st.button("Skip guess", type="tertiary", key="skip", on_click=navigation.answer, args=(state, None))


def _ask_class(state: UrlState, lesson: Lesson) -> None:
    """Ask for the guess of the class. An open poll replaces the slider."""
    left, right = st.columns([2, 1], gap="large")
    with right:
        class_poll.controls(lesson)
    with left:
        if class_poll.tally(lesson):
            class_poll.watch(state, lesson)
        else:
            _ask(state, lesson.guess)


def _answer(state: UrlState, lesson: Lesson) -> None:
    guesses = class_poll.tally(lesson) if state.in_class else None
    with st.container(horizontal=True, vertical_alignment="center"):
        if state.guess is not None:
            whose = "The class's median" if guesses and guesses.median == state.guess else "Your guess"
            label = lesson.guess.label[0].lower() + lesson.guess.label[1:]
            value = address.plain(with_unit(state.guess, lesson.guess.unit))
            st.markdown(f"{whose}: **{value}** ({address.plain(label)})", width="content")
        st.button(
            "Change guess", type="tertiary", icon=":material/undo:", key="again", on_click=navigation.ask, args=(state,)
        )
    lesson.show(state.guess)
    if guesses and guesses.values:
        class_poll.show(guesses)
    st.markdown(lesson.words)
    if lesson.simplifies:
        with st.expander("Common simplifications", type="compact", icon=":material/balance:", key="simplifies"):
            st.markdown(lesson.simplifies)
    with st.expander("Teacher's note", type="compact", icon=":material/school:", key="note"):
        st.markdown(lesson.note)
