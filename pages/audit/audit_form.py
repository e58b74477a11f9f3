"""Form that starts, tracks and cancels an audit."""

import os

import streamlit as st

from engine.config import SimulationConfig
from engine.errors import EpsilonError, RunNotFound
from engine.privacy.audit import applicability
from engine.records import Run, RunState, RunStatus
from engine.reports.audits import audit_command
from engine.service import Application
from pages.audit import messages
from pages.shared import address, run_picker, script_scheduler, session, submitting

POLL_SECONDS = 2.0
USUAL = SimulationConfig.from_flat({"corpus": "synthetic"})
"""Configuration that is preset if the link names no run."""
_WATCHED = "audit_watched"


def show(app: Application, asked: str | None) -> None:
    """Show the choice of a run and the controls of its audit.

    Args:
        app: The application.
        asked: Id of the run in the link, or None.
    """
    try:
        run = run_picker.choose(app, asked, USUAL, key="_audit")
    except RunNotFound as error:
        st.error(address.plain(str(error)), icon=":material/error:")
        return
    if run is None:
        st.caption("No run is finished yet. Start one on the page Explore.")
        return
    status = app.audits.status(run.run_id)
    script_scheduler.polling_fragment(_job, POLL_SECONDS if _is_active(status) else None)(app, run)


def _is_active(status: RunStatus | None) -> bool:
    return status is not None and not status.state.final


def _job(app: Application, run: Run) -> None:
    status = app.audits.status(run.run_id)
    if status and _is_active(status):
        st.session_state[_WATCHED] = run.run_id
        with st.container(horizontal=True, vertical_alignment="center"):
            queued = f"queued (position {status.queue_place})" if status.queue_place else "queued"
            st.progress(
                min(1.0, status.progress), text=f"{address.plain(status.stage or queued)} · {status.progress:.0%}"
            )
            if st.button("Cancel", icon=":material/stop:", key="audit_cancel"):
                submitting.cancel(app, status.run_id)
        return
    if st.session_state.pop(_WATCHED, None) == run.run_id:
        if status and status.state == RunState.DONE:
            st.query_params["run"] = run.run_id  # the page then shows the result
        st.rerun()
    if status and status.error:
        st.error(address.plain(status.error), icon=":material/error:")
    try:
        canaries, references = applicability.usual(run.config)
        cost = messages.cost(app.audits.seconds(run.config), canaries, references)
    except EpsilonError as error:
        st.info(address.plain(str(error)), icon=":material/info:")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button(
            "Start audit",
            type="primary",
            icon=":material/policy:",
            key="attack",
            disabled=not session.can_run(),
            help=session.disabled_reason(),
        )
        st.caption(cost, width="stretch")
    unprotected = submitting.accept_unprotected(
        app.budgets.accounts.with_budget(run.config.corpus), key="audit_unprotected"
    )
    command = audit_command(run.config, canaries, references, run.run_id)
    st.code(f".venv/bin/{command}", language="bash", wrap_lines=True)
    if pressed:
        _submit(app, run, unprotected=unprotected)


def _submit(app: Application, run: Run, *, unprotected: bool) -> None:
    try:
        app.audits.submit(run, owner_pid=os.getpid(), unprotected=unprotected)
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
    else:
        st.rerun()
