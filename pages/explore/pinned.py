"""A setting that stays in sight while others are looked at."""

import streamlit as st

from engine.errors import EpsilonError
from engine.records import Run
from engine.reports.numbers import epsilon_text
from engine.reports.scores import f1_text
from engine.service import Application
from pages.shared import titles

_PINNED = "pinned_run"


def current(app: Application) -> Run | None:
    """The run that was pinned in this session, while it is there."""
    identity = st.session_state.get(_PINNED)
    if identity is None:
        return None
    try:
        return app.queries.get(identity)
    except EpsilonError:
        return None


def button(run: Run, pinned: Run | None) -> None:
    """Pin a finished run, or take the pin off."""
    if pinned and pinned.run_id == run.run_id:
        if st.button("Unpin", type="tertiary", icon=":material/keep_off:", key="unpin"):
            st.session_state[_PINNED] = None
            st.rerun()
    elif st.button(
        "Pin",
        type="tertiary",
        icon=":material/keep:",
        key="pin",
        help="Keep this setting in sight beside the next one.",
    ):
        st.session_state[_PINNED] = run.run_id
        st.rerun()


def sentence(pinned: Run, run: Run | None) -> str:
    """What is pinned, and how the run beside it differs; empty where it is the same."""
    test = pinned.final.test if pinned.final else None
    if test is None or pinned.final is None or (run and run.run_id == pinned.run_id):
        return ""
    text = f"Pinned: F1 {f1_text(test, 3)} at ε = {epsilon_text(pinned.final.privacy.epsilon)}"
    if run is None:
        return f"{text}."
    there, here = pinned.config.flat(), run.config.flat()
    changes = [
        f"{titles.heading(name)} {titles.value(name, there[name])}, here {titles.value(name, here[name])}"
        for name in there
        if there[name] != here[name]
    ]
    if run.final and run.final.test:
        difference = run.final.test.f1 - test.f1
        text += f", {'−' if difference < 0 else '+'}{abs(difference):.3f} here"
    return f"{text}. " + (f"It has {'; '.join(changes)}." if changes else "It has the same settings.")
