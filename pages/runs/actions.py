"""Actions on the user's runs, and the dialogs that confirm them.

A dialog belongs to the page, not to the list, which is a fragment that refreshes while a run is active. When Streamlit
refreshes a fragment, it forgets the dialogs that the fragment opened, and the user cannot close them
(github.com/streamlit/streamlit/issues/17011). So the list requests a dialog, and the page opens it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import streamlit as st

from engine.config import SimulationConfig
from engine.errors import EpsilonError
from engine.service import LONGEST_NOTE, Application
from pages.shared import address, session, submitting

_DIALOG = "runs_question"
_ACTED = "runs_acted"
_T = TypeVar("_T")


def table_key() -> str:
    """Return the key of the list, a new one after each action: with the same key, a browser keeps its selection."""
    return f"runs_table_{st.session_state.get(_ACTED, 0)}"


def apply(action: Callable[[_T], object], chosen: Sequence[_T]) -> None:
    """Apply an action to each run or configuration, show its errors, and rerun the page."""
    for each in chosen:
        try:
            action(each)
        except EpsilonError as error:
            st.toast(address.plain(str(error)), icon=":material/error:")
    clear_selection()
    st.rerun()


def clear_selection() -> None:
    """Clear the selected rows, by a new key for the list."""
    st.session_state[_ACTED] = st.session_state.get(_ACTED, 0) + 1


def ask(dialog: Callable[[], None]) -> None:
    """Request a dialog from the page."""
    st.session_state[_DIALOG] = dialog
    st.rerun()


def show_dialog() -> None:
    """Open the requested dialog, once."""
    dialog: Callable[[], None] | None = st.session_state.pop(_DIALOG, None)
    if dialog:
        dialog()


def rerun(app: Application, configs: Mapping[str, SimulationConfig]) -> None:
    """Rerun runs, after the user's answer if some are unprotected accesses to a corpus with a budget.

    Args:
        app: The application service.
        configs: The configurations by run.
    """
    if app.budgets.exists() and any(submitting.unprotected_corpora(app, config) for config in configs.values()):
        ask(partial(_rerun_unprotected, app, configs))
    _rerun(app, list(configs.values()), unprotected=False)


def _rerun(app: Application, configs: Sequence[SimulationConfig], *, unprotected: bool) -> None:
    apply(lambda config: app.runs.resubmit(config, owner_pid=os.getpid(), unprotected=unprotected), configs)


@st.dialog("Rerun without a guarantee")
def _rerun_unprotected(app: Application, configs: Mapping[str, SimulationConfig]) -> None:
    session.require_sign_in()
    st.markdown("Some of these runs have no privacy guarantee, and their corpus has a budget.")
    chosen, unprotected = submitting.choice(app, list(configs.values()), key="runs_rerun")
    with st.container(horizontal=True):
        number = "1 run" if len(chosen) == 1 else f"{len(chosen):,} runs"
        if st.button(f"Rerun {number}", type="primary", key="rerun_chosen", disabled=not chosen):
            _rerun(app, chosen, unprotected=unprotected)
        if st.button("Cancel", key="rerun_not"):
            st.rerun()


@st.dialog("Delete runs")
def delete(app: Application, run_ids: Sequence[str]) -> None:
    """Ask the user to confirm the deletion of runs."""
    session.require_sign_in()
    number = "this run" if len(run_ids) == 1 else f"these {len(run_ids):,} runs"
    st.markdown(f"Delete {number} with all records? This cannot be undone, but you can run the configuration again.")
    with st.container(horizontal=True):
        if st.button("Delete", type="primary", key="delete_for_good"):
            apply(app.runs.delete, run_ids)
        if st.button("Cancel", key="delete_not"):
            st.rerun()


@st.dialog("Note")
def note(app: Application, run_ids: Sequence[str], before: str) -> None:
    """Ask for the note of runs.

    Args:
        app: The application service.
        run_ids: The runs.
        before: The present note of the first run.
    """
    session.require_sign_in()
    number = "this run" if len(run_ids) == 1 else f"these {len(run_ids):,} runs (replaces their notes)"
    text = st.text_area(f"Note for {number}", before, key=f"note-{run_ids[0]}")
    too_long = len(text.strip()) > LONGEST_NOTE
    if too_long:
        st.error(f"The note has {len(text.strip()):,} characters; the maximum is {LONGEST_NOTE:,}. Shorten it.")
    with st.container(horizontal=True):
        if st.button("Save note", type="primary", key="keep_note", disabled=too_long):
            apply(lambda run_id: app.runs.write_note(run_id, text), run_ids)
        if st.button("Cancel", key="keep_no_note"):
            st.rerun()
