"""What is done to runs of one's own, and what is asked before.

A question is a dialog of the page, not of the list, which looks anew by itself while a run goes on: Streamlit forgets
what a part of a page has opened as soon as that part is drawn again, and the dialog could not be left any more
(github.com/streamlit/streamlit/issues/17011). So the list says what shall be asked, and the page asks.
"""

from collections.abc import Callable, Sequence

import streamlit as st

from engine.errors import EpsilonError
from engine.service import LONGEST_NOTE, Application
from pages.shared import address

_QUESTION = "runs_question"
_ACTED = "runs_acted"


def table_key() -> str:
    """Of the list: another one after each act and each step, since a browser keeps what is chosen in one whose key
    stays."""
    return f"runs_table_{st.session_state.get(_ACTED, 0)}"


def each(do: Callable[[str], object], run_ids: Sequence[str]) -> None:
    """Do it to each, and look anew; what cannot be done is said."""
    for run_id in run_ids:
        try:
            do(run_id)
        except EpsilonError as error:
            st.toast(address.plain(str(error)), icon=":material/error:")
    choose_nothing()
    st.rerun()


def choose_nothing() -> None:
    """Another list, none of whose rows is chosen."""
    st.session_state[_ACTED] = st.session_state.get(_ACTED, 0) + 1


def ask(question: Callable[[], None]) -> None:
    """Have the page ask."""
    st.session_state[_QUESTION] = question
    st.rerun()


def show_question() -> None:
    """Ask what the list wanted asked, once."""
    question: Callable[[], None] | None = st.session_state.pop(_QUESTION, None)
    if question:
        question()


@st.dialog("Delete runs")
def delete(app: Application, run_ids: Sequence[str]) -> None:
    """Ask whether they shall be deleted."""
    number = "this run" if len(run_ids) == 1 else f"these {len(run_ids):,} runs"
    st.markdown(f"Delete {number} with all records? This cannot be undone; the same settings can be run again.")
    with st.container(horizontal=True):
        if st.button("Delete", type="primary", key="delete_for_good"):
            each(app.runs.delete, run_ids)
        if st.button("Cancel", key="delete_not"):
            st.rerun()


@st.dialog("Note")
def note(app: Application, run_ids: Sequence[str], before: str) -> None:
    """Ask for a text beside them. before: what stands there now."""
    number = "this run" if len(run_ids) == 1 else f"these {len(run_ids):,} runs (replaces their notes)"
    text = st.text_area(f"Note for {number}", before, key=f"note-{run_ids[0]}")
    too_long = len(text.strip()) > LONGEST_NOTE
    if too_long:
        st.error(f"It has {len(text.strip()):,} characters, and {LONGEST_NOTE:,} at most are kept: make it shorter.")
    with st.container(horizontal=True):
        if st.button("Save note", type="primary", key="keep_note", disabled=too_long):
            each(lambda run_id: app.runs.write_note(run_id, text), run_ids)
        if st.button("Cancel", key="keep_no_note"):
            st.rerun()
