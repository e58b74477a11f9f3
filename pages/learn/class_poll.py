"""Poll of a class: the teacher opens and closes it, students send guesses from their phones, a chart shows them live.

The poll server starts only if ``EPSILON_POLL_ADDRESS`` is set and the teacher opens a poll. The guesses stay in the
memory of this server.
"""

import streamlit as st
from markdown_it import MarkdownIt

from engine.errors import EpsilonError
from engine.lessons.poll import Poll, PollServer, Question, Tally, local_address
from engine.settings import Settings
from pages.learn import classroom, histogram, navigation
from pages.learn.lesson import Lesson
from pages.learn.url_state import UrlState
from pages.shared import address, script_scheduler, session
from pages.shared.plotly_component import show as show_picture

POLL_SECONDS = 1.0
"""Interval of the live chart, in seconds."""
_PROBLEM = "poll_problem"


@st.cache_resource(show_spinner=False)
def _poll() -> Poll:
    """Return the poll that all sessions share, so that a second screen shows the same guesses."""
    return Poll()


@st.cache_resource(show_spinner=False, on_release=PollServer.close)
def _server(host: str | None, port: int) -> PollServer:
    """Return the poll server, started at the first poll and running until the dashboard ends.

    Raises:
        EpsilonError: If the server cannot listen on the port.
    """
    return PollServer(_poll(), host or local_address(), port)


def allowed() -> bool:
    """Return whether the settings allow polls."""
    return Settings.from_environment().poll is not None


def tally(lesson: Lesson) -> Tally | None:
    """Return the guesses for a lesson, None without a poll."""
    return _poll().of(lesson.name) if allowed() else None


def close_others(lesson: Lesson) -> None:
    """Close the poll of another lesson, because the teacher has left that lesson."""
    current = _poll().current()
    if current and current.question.name != lesson.name:
        _poll().close()


def controls(lesson: Lesson) -> None:
    """Show the buttons of the poll, and its link for phones while it is open."""
    if problem := st.session_state.pop(_PROBLEM, None):
        st.error(address.plain(problem), icon=":material/error:")
    current, listening = tally(lesson), Settings.from_environment().poll
    if current is None or not current.is_open or listening is None:
        label = "Open poll" if current is None else "Open poll again"
        st.button(label, icon=":material/smartphone:", key="open_poll", on_click=_open, args=(lesson,))
        st.caption("Phones in this network can then open the question, but no other part of the dashboard.")
        return
    link = _server(*listening).link
    classroom.show_qr_code(link)
    if classroom.on_this_machine(link):
        st.caption("This machine has no network: only its own browser can open the poll.")
    else:
        st.caption("Phones in this network can open the question, but no other part of the dashboard.")
    with st.container(horizontal=True):
        st.button("Close poll", icon=":material/lock:", key="close_poll", on_click=_poll().close)
        st.button(
            "Clear guesses", type="tertiary", icon=":material/delete:", key="clear", on_click=_clear, args=(lesson,)
        )


def watch(state: UrlState, lesson: Lesson) -> None:
    """Show the guesses live and the button for the answer. Refreshes only while the poll is open."""
    current = tally(lesson)
    script_scheduler.polling_fragment(_watch, POLL_SECONDS if current and current.is_open else None)(
        state, lesson, current
    )


def _watch(state: UrlState, lesson: Lesson, before: Tally | None) -> None:
    current = tally(lesson)
    if current is None or before is None or (current.is_open, current.token) != (before.is_open, before.token):
        st.rerun()  # another session closed, cleared or reopened the poll
    show(current, height=300)
    if st.button("Show answer", type="primary", key="class_answer", disabled=not current.values):
        _poll().close()
        navigation.answer(state, current.median)
        st.rerun()


def show(guesses: Tally, *, height: int = 220) -> None:
    """Show the distribution of the guesses, and their number in a sentence.

    Args:
        guesses: The guesses of a class.
        height: Height of the chart in pixels.
    """
    text = histogram.sentence(guesses)
    st.markdown(f"**The class:** {address.plain(text)}")
    show_picture(histogram.picture(guesses, height=height), key="class_guesses", label=f"Guesses of the class: {text}")


def _open(lesson: Lesson) -> None:
    listening, asked = Settings.from_environment().poll, lesson.guess
    if listening is None:
        return
    try:
        session.application().access.authorize("open a poll", lesson.name)
        _server(*listening)
    except EpsilonError as error:
        st.session_state[_PROBLEM] = str(error)
        return
    _poll().open(
        Question(
            name=lesson.name,
            text=plain_text(lesson.question),
            label=plain_text(asked.label),
            low=asked.low,
            high=asked.high,
            step=asked.step,
            unit=asked.unit,
        )
    )


def _clear(lesson: Lesson) -> None:
    _poll().clear(lesson.name)


def plain_text(markdown: str) -> str:
    """Return the text of Markdown without its markup."""
    blocks = [token for token in MarkdownIt().parse(markdown) if token.type == "inline"]
    parts = [
        ["\n" if token.type.endswith("break") else token.content for token in block.children or ()] for block in blocks
    ]
    return " ".join(" ".join("".join(part).split()) for part in parts)
