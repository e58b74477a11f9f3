"""A lesson on the page: its question, the learner's guess, then its picture and what else there is to say."""

import streamlit as st

from pages.learn import class_poll, classroom, navigation
from pages.learn.lesson import Guess, Lesson, shown
from pages.learn.url_state import Place
from pages.shared import address


def show(place: Place, lesson: Lesson, lessons: tuple[Lesson, ...]) -> None:
    """The lesson of ``place``. Its question is folded once it is answered, so that little is left to read; a class
    goes on seeing it."""
    if place.in_class:
        class_poll.close_others(lesson)
    st.markdown(f"### {lessons.index(lesson) + 1}. {address.plain(lesson.title)}")
    if place.answered and not place.in_class:
        with st.expander("The question", type="compact", icon=":material/help:", key="question"):
            st.markdown(lesson.question)
    else:
        st.markdown(lesson.question)
    if place.answered:
        _answer(place, lesson)
    elif place.in_class and class_poll.allowed():
        _ask_class(place, lesson)
    else:
        _ask(place, lesson.guess)
    navigation.links(place, lessons)
    if place.in_class:
        classroom.share(polls=class_poll.allowed())


def _ask(place: Place, guess: Guess) -> None:
    """The guess comes before the controls: who has committed to a number looks at the answer."""
    low, high, step = float(guess.low), float(guess.high), float(guess.step)
    middle = low + round((high - low) / 2 / step) * step
    written = "%g" + guess.unit.replace("%", "%%")
    value = st.slider(guess.label, low, high, middle, step, format=written, key="guess_slider")
    with st.container(horizontal=True):
        st.button("That is my guess", type="primary", key="guessed", on_click=navigation.answer, args=(place, value))
        st.button(
            "Show me without a guess", type="tertiary", key="skip", on_click=navigation.answer, args=(place, None)
        )


def _ask_class(place: Place, lesson: Lesson) -> None:
    """Beside the guess: how the class's phones send theirs, which take its place."""
    left, right = st.columns([2, 1], gap="large")
    with right:
        class_poll.controls(lesson)
    with left:
        if class_poll.tally(lesson):
            class_poll.watch(place, lesson)
        else:
            _ask(place, lesson.guess)


def _answer(place: Place, lesson: Lesson) -> None:
    found = class_poll.tally(lesson) if place.in_class else None
    with st.container(horizontal=True, vertical_alignment="center"):
        if place.guess is not None:
            whose = "The class's median" if found and found.median == place.guess else "Your guess"
            asked = lesson.guess.label[0].lower() + lesson.guess.label[1:]
            value = address.plain(shown(place.guess, lesson.guess.unit))
            st.markdown(f"{whose}: **{value}** ({address.plain(asked)})", width="content")
        st.button(
            "Guess again", type="tertiary", icon=":material/undo:", key="again", on_click=navigation.ask, args=(place,)
        )
    lesson.show(place.guess)
    if found and found.values:
        class_poll.show(found)
    st.markdown(lesson.words)
    if lesson.simplifies:
        with st.expander("What is often said too simply", type="compact", icon=":material/balance:", key="simplifies"):
            st.markdown(lesson.simplifies)
    with st.expander("Teacher's note", type="compact", icon=":material/school:", key="note"):
        st.markdown(lesson.note)
