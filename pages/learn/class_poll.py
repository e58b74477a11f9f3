"""A class's guesses, from their own phones: opened and closed here, and shown as they come in.

Nothing listens before somebody has set ``EPSILON_POLL_ADDRESS`` and then opened a poll. The phones' numbers stay in the
memory of this server.
"""

import streamlit as st
from markdown_it import MarkdownIt

from engine.errors import EpsilonError
from engine.lessons.poll import Poll, PollServer, Question, Tally, local_address
from engine.settings import Settings
from pages.learn import classroom, histogram, navigation
from pages.learn.lesson import Lesson
from pages.learn.url_state import Place
from pages.shared import address, session
from pages.shared.plotly_component import show as show_picture

POLL_SECONDS = 1.0
_PROBLEM = "poll_problem"


@st.cache_resource(show_spinner=False)
def _poll() -> Poll:
    """One for all sessions: who opens the page on another screen sees the same guesses."""
    return Poll()


@st.cache_resource(show_spinner=False, on_release=PollServer.close)
def _server(host: str | None, port: int) -> PollServer:
    """Listens from the first poll on, until the dashboard ends. Raises EpsilonError."""
    return PollServer(_poll(), host or local_address(), port)


def allowed() -> bool:
    """Whether phones may be let in."""
    return Settings.from_environment().poll is not None


def tally(lesson: Lesson) -> Tally | None:
    """What came in for a lesson, None where nobody was asked."""
    return _poll().of(lesson.name) if allowed() else None


def close_others(lesson: Lesson) -> None:
    """Who has gone on to a lesson has left the question of another."""
    found = _poll().current()
    if found and found.question.name != lesson.name:
        _poll().close()


def controls(lesson: Lesson) -> None:
    """Open and close the poll, and what phones need to reach it."""
    if problem := st.session_state.pop(_PROBLEM, None):
        st.error(address.plain(problem), icon=":material/error:")
    found, where = tally(lesson), Settings.from_environment().poll
    if found is None or not found.is_open or where is None:
        label = "Let the class guess" if found is None else "Let the class guess anew"
        st.button(label, icon=":material/smartphone:", key="open_poll", on_click=_open, args=(lesson,))
        st.caption("Phones in this network can reach the question, and nothing else of the dashboard.")
        return
    link = _server(*where).link
    classroom.code(link)
    if classroom.on_this_machine(link):
        st.caption("This machine is in no network: only its own browser reaches the poll.")
    else:
        st.caption("Phones in this network reach the question, and nothing else of the dashboard.")
    with st.container(horizontal=True):
        st.button("Close", icon=":material/lock:", key="close_poll", on_click=_poll().close)
        st.button("Clear", type="tertiary", icon=":material/delete:", key="clear", on_click=_clear, args=(lesson,))


def watch(place: Place, lesson: Lesson) -> None:
    """The guesses as they come in, and the way to the answer. Polls only while phones may answer."""
    found = tally(lesson)
    st.fragment(_watch, run_every=POLL_SECONDS if found and found.is_open else None)(place, lesson, found)


def _watch(place: Place, lesson: Lesson, before: Tally | None) -> None:
    found = tally(lesson)
    if found is None or before is None or (found.is_open, found.token) != (before.is_open, before.token):
        st.rerun()  # somebody else closed it, cleared it or asked anew
    show(found, height=300)
    if st.button("Show the answer", type="primary", key="class_answer", disabled=not found.values):
        _poll().close()
        navigation.answer(place, found.median)
        st.rerun()


def show(found: Tally, *, height: int = 220) -> None:
    """The distribution, and in words how many have guessed."""
    said = histogram.sentence(found)
    st.markdown(f"**The class:** {address.plain(said)}")
    show_picture(histogram.picture(found, height=height), key="class_guesses", label=f"What the class guessed: {said}")


def _open(lesson: Lesson) -> None:
    where, asked = Settings.from_environment().poll, lesson.guess
    if where is None:
        return
    try:
        session.application().access.authorize("open a poll", lesson.name)
        _server(*where)
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
    """What Markdown says, without its marks."""
    blocks = [token for token in MarkdownIt().parse(markdown) if token.type == "inline"]
    parts = [
        ["\n" if each.type.endswith("break") else each.content for each in block.children or ()] for block in blocks
    ]
    return " ".join(" ".join("".join(part).split()) for part in parts)
