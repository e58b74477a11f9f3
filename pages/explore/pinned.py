"""The pinned run, which stays visible for comparison with other configurations."""

import streamlit as st

from engine.errors import EpsilonError
from engine.records import Run
from engine.reports.numbers import epsilon_text
from engine.reports.scores import f1_text
from engine.service import Application
from pages.shared import titles

_PINNED = "pinned_run"


def current(app: Application) -> Run | None:
    """Return the pinned run of this session, or None if none is pinned or it was deleted."""
    identity = st.session_state.get(_PINNED)
    if identity is None:
        return None
    try:
        return app.queries.get(identity)
    except EpsilonError:
        return None


def button(run: Run, pinned: Run | None) -> None:
    """Show the button that pins or unpins a finished run."""
    if pinned and pinned.run_id == run.run_id:
        if st.button("Unpin", type="tertiary", icon=":material/keep_off:", key="unpin"):
            st.session_state[_PINNED] = None
            st.rerun()
    elif st.button(
        "Pin result",
        type="tertiary",
        icon=":material/keep:",
        key="pin",
        help="Keep this run visible, to compare it with other configurations.",
    ):
        st.session_state[_PINNED] = run.run_id
        st.rerun()


def sentence(pinned: Run, run: Run | None) -> str:
    """Describe the pinned run and its difference from the open run; return an empty string if both are the same."""
    test = pinned.final.test if pinned.final else None
    if test is None or pinned.final is None or (run and run.run_id == pinned.run_id):
        return ""
    text = f"Pinned: F1 {f1_text(test, 3)} at ε = {epsilon_text(pinned.final.privacy.epsilon)}"
    if run is None:
        return f"{text}."
    pinned_fields, fields = pinned.config.flat(), run.config.flat()
    changes = [
        f"{titles.heading(name)} {titles.value(name, pinned_fields[name])} → {titles.value(name, fields[name])}"
        for name in pinned_fields
        if pinned_fields[name] != fields[name]
    ]
    if run.final and run.final.test:
        difference = run.final.test.f1 - test.f1
        text += f"; F1 difference of this run: {'−' if difference < 0 else '+'}{abs(difference):.3f}"
    return f"{text}. " + (f"Changed: {'; '.join(changes)}." if changes else "Both have the same configuration.")
