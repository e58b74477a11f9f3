"""Actions for the run of a configuration: start, cancel, continue or repeat it, or open other pages about it."""

import os
import time
from dataclasses import replace

import streamlit as st

from engine.config import NOISE, SimulationConfig, with_noise
from engine.errors import EpsilonError
from engine.records import Run, RunState
from engine.service import Application, Preview, reproducibility
from engine.service.budget_service import BudgetEffect
from pages.explore import messages, pinned
from pages.shared import address, session, submitting
from pages.shared.messages import origin, silence

SEEDS = 5
"""Number of seeds that *Vary seed or σ* starts."""


def show(app: Application, config: SimulationConfig, preview: Preview, run: Run | None, pinned_run: Run | None) -> None:
    """Show the actions that fit the state of the run: start, cancel or continue it, or open other pages about it.

    Args:
        app: The application service.
        config: The configuration.
        preview: Its planned ε and estimates.
        run: Its run, or None.
        pinned_run: The pinned run, or None.
    """
    if run and run.status.state == RunState.DONE:
        with st.container(horizontal=True, vertical_alignment="center"):
            _vary(app, config)
            pinned.button(run, pinned_run)
            st.page_link(
                "pages/diagnose/page.py",
                label="Diagnose",
                icon=":material/troubleshoot:",
                query_params={"run": run.run_id},
            )
            if run.config.privacy.private:
                st.page_link(
                    "pages/assumptions/page.py",
                    label="Assumptions",
                    icon=":material/account_balance:",
                    query_params={"run": run.run_id},
                )
            st.page_link(
                "pages/audit/page.py", label="Audit", icon=":material/policy:", query_params={"run": run.run_id}
            )
            st.page_link(
                "pages/report/page.py",
                label="Report",
                icon=":material/verified_user:",
                query_params={"run": run.run_id},
            )
            rerun = run.outdated and st.button("Rerun with current engine", icon=":material/replay:", key="renew")
            st.caption(address.plain(origin(run)), width="stretch")
        if rerun:
            _submit(app, config)
        return
    if run and not run.status.state.final:
        _progress(app, run)
        return
    if run and reproducibility.keys_destroyed(run):
        st.caption("It cannot continue: its noise keys were destroyed when it ended. Another seed is a new run.")
        _vary(app, config)
        return
    label = "Run" if run is None else "Continue" if run.status.state == RunState.CANCELLED else "Retry"
    estimate = address.plain(messages.estimate(preview.estimate)) if preview.estimate else ""
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button(
            label,
            type="primary",
            icon=":material/play_arrow:",
            key="run",
            disabled=not session.can_run(),
            help=session.disabled_reason(),
        )
        st.caption(f"{estimate} · {preview.train_sentences:,} sentences, {preview.steps:,} steps".strip(" ·"))
        _vary(app, config)
    if reason := session.disabled_reason():
        st.caption(reason)
    effect = _budget_effect(app, config)
    if effect.text:
        st.caption(f"[Privacy budget](/budget): {address.plain(effect.text)}")
    unprotected = submitting.accept_unprotected(effect.unprotected, key="unprotected")
    if pressed:
        _submit(app, config, unprotected=unprotected)


def _budget_effect(app: Application, config: SimulationConfig) -> BudgetEffect:
    """Return the effect of the run on privacy budgets, or the error as its text."""
    try:
        return app.budgets.preview(config)
    except EpsilonError as error:
        return BudgetEffect(text=str(error))


def _vary(app: Application, config: SimulationConfig) -> None:
    """Show the buttons that start runs with other seeds or noise multipliers, and that rerun this run."""
    popover = st.popover(
        "Vary seed or σ",
        type="tertiary",
        icon=":material/library_add:",
        key="vary",
        on_change="rerun",  # the missing runs are looked up when the user opens it
    )
    if not popover.open:
        return
    with popover:
        st.markdown("Run several seeds to estimate the variance, or all noise multipliers for the whole curve.")
        seeds = [replace(config, seed=config.seed + number) for number in range(SEEDS)]
        noises = [with_noise(config, sigma) for sigma in NOISE]
        try:
            submitting.button(
                app, submitting.missing(app, seeds), f"of seeds {config.seed} to {config.seed + SEEDS - 1}", key="seeds"
            )
            submitting.button(app, submitting.missing(app, noises), "of all σ on the slider", key="noises")
            submitting.again(app, [config], "this configuration", key="again")
        except EpsilonError as error:
            st.caption(address.plain(str(error)))


def _submit(app: Application, config: SimulationConfig, *, unprotected: bool = False) -> None:
    try:
        app.runs.submit(config, owner_pid=os.getpid(), unprotected=unprotected)
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
    else:
        st.rerun()


def _progress(app: Application, run: Run) -> None:
    status = run.status
    left = messages.time_left(run)
    text = f"{address.plain(status.stage or 'queued')} · {status.progress:.0%}" + (
        f" · about {left} left" if left else ""
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(min(1.0, status.progress), text=text)
        final = "A cancelled run cannot continue: its noise keys are destroyed."
        system = run.config.privacy.noise_source == "system"
        if st.button("Cancel", icon=":material/stop:", key="cancel", help=final if system else None):
            submitting.cancel(app, run.run_id)
    heard = st.session_state.get("heard", ())
    if heard[:2] != (run.run_id, status.heartbeat):
        heard = st.session_state.heard = (run.run_id, status.heartbeat, time.monotonic())
    if told := silence(status, time.monotonic() - heard[2]):
        st.warning(told, icon=":material/sensors_off:")
