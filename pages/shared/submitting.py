"""Buttons that start several runs in the background, and the results of reruns."""

import os
from collections.abc import Iterable, Sequence

import streamlit as st

from engine.config import SimulationConfig
from engine.errors import EpsilonError
from engine.records import Run, RunState
from engine.service import Application, reproducibility
from pages.shared import address, script_scheduler, session

POLL_SECONDS = 2.0


def missing(app: Application, configs: Sequence[SimulationConfig]) -> list[SimulationConfig]:
    """Return the configurations without a finished, running or queued run of the current engine."""
    missing_configs = []
    for config in configs:
        run = app.queries.find(config)
        if run is None or run.outdated or run.status.state in (RunState.FAILED, RunState.CANCELLED):
            missing_configs.append(config)
    return missing_configs


def button(app: Application, configs: Sequence[SimulationConfig], what: str, *, key: str) -> None:
    """Show a button that starts missing runs, or a note that none is missing.

    Args:
        app: The application service.
        configs: The configurations to run.
        what: Where the runs are missing, after "Start missing runs": "of this table".
        key: Key of the button.
    """
    if not configs:
        st.caption(f"All runs {what} are finished or queued.")
    elif st.button(
        f"Start missing runs {what} ({_plural(configs)})",
        icon=":material/play_arrow:",
        key=key,
        disabled=not session.can_run(),
        help=session.disabled_reason(),
    ):
        _submit(app, configs, again=False)


def again(app: Application, configs: Sequence[SimulationConfig], what: str, *, key: str) -> None:
    """Show a button that reruns finished runs, and the comparison of reruns with their first runs.

    Args:
        app: The application service.
        configs: The configurations to rerun.
        what: The object of the button's label: "this table".
        key: Key of the button.
    """
    finished = [run for run in map(app.queries.find, configs) if run and run.final and not run.outdated]
    done = [run for run in finished if run.config.privacy.noise_source != "system"]
    if len(done) < len(finished):
        st.caption("Runs with system noise cannot be rerun: their noise keys were destroyed when the run ended.")
    if not done:
        return
    minutes = sum(run.provenance.wall_seconds for run in done if run.provenance) / 60
    if st.button(
        f"Rerun {what} ({_plural(done)})",
        icon=":material/replay:",
        key=key,
        disabled=not session.can_run(),
        help=f"Computes {'the run' if len(done) == 1 else 'each run'} again on this machine and compares the results. "
        f"The first results are kept. They took {max(minutes, 0.1):,.{0 if minutes >= 10 else 1}f} minutes in total.",
    ):
        _submit(app, [run.config for run in done], again=True)
    active = _any_active(app.queries.repeated(done).values())
    script_scheduler.polling_fragment(_progress, POLL_SECONDS if active else None)(app, done, active)


def cancel(app: Application, *run_ids: str) -> None:
    """Cancel runs, or show the error."""
    try:
        for run_id in run_ids:
            app.runs.cancel(run_id)
    except EpsilonError as error:
        st.toast(address.plain(str(error)), icon=":material/error:")
    else:
        st.rerun()


def _progress(app: Application, done: Sequence[Run], was_active: bool) -> None:
    reruns = app.queries.repeated(done).values()
    if text := reproducibility.summary(reruns):
        st.caption(text)
    if was_active and not _any_active(reruns):
        st.rerun()  # the whole page, so that the table above shows the results


def _any_active(reruns: Iterable[reproducibility.Rerun]) -> bool:
    return any(not rerun.state.final for rerun in reruns)


def _submit(app: Application, configs: Sequence[SimulationConfig], *, again: bool) -> None:
    """Submit all runs, or show the error."""
    try:
        app.runs.submit_all(configs, again=again, owner_pid=os.getpid())
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
    else:
        st.toast(f"{_plural(configs)} queued. See Runs for progress.", icon=":material/check:")
        st.rerun()  # pages that show one of the runs follow its progress from now on


def _plural(several: Sequence[object]) -> str:
    return "1 run" if len(several) == 1 else f"{len(several):,} runs"
