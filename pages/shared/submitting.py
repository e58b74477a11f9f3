"""Buttons that have several runs computed in the background, and what came of them."""

import os
from collections.abc import Iterable, Sequence

import streamlit as st

from engine.config import SimulationConfig
from engine.errors import EpsilonError
from engine.records import Run, RunState
from engine.service import Application, reproducibility
from pages.shared import address, session

POLL_SECONDS = 2.0


def missing(app: Application, configs: Sequence[SimulationConfig]) -> list[SimulationConfig]:
    """Those of which no run of today's engine is done, waits or is under way."""
    left = []
    for config in configs:
        run = app.queries.find(config)
        if run is None or run.outdated or run.status.state in (RunState.FAILED, RunState.CANCELLED):
            left.append(config)
    return left


def button(app: Application, configs: Sequence[SimulationConfig], what: str, *, key: str) -> None:
    """Offer to run what is missing ``what`` ("of this table"); says so where nothing is."""
    if not configs:
        st.caption(f"All runs {what} are there or under way.")
    elif st.button(
        f"Run what is missing {what} ({_plural(configs)})",
        icon=":material/play_arrow:",
        key=key,
        disabled=not session.can_run(),
        help=session.disabled_reason(),
    ):
        _ask(app, configs, again=False)


def again(app: Application, configs: Sequence[SimulationConfig], what: str, *, key: str) -> None:
    """Offer to compute ``what`` ("this table") once more where it is done, and say whether it came out the same."""
    every = [run for run in map(app.queries.find, configs) if run and run.final and not run.outdated]
    done = [run for run in every if run.config.privacy.noise_source != "system"]
    if len(done) < len(every):
        st.caption("The keys of this noise were destroyed when the run ended, so it cannot be computed again.")
    if not done:
        return
    minutes = sum(run.provenance.wall_seconds for run in done if run.provenance) / 60
    if st.button(
        f"Run {what} again ({_plural(done)})",
        icon=":material/replay:",
        key=key,
        disabled=not session.can_run(),
        help="Computes them once more on this machine, beside the first runs, which stay, and says whether they come "
        f"out the same. The first ones took {max(minutes, 0.1):.2g} minutes one after another.",
    ):
        _ask(app, [run.config for run in done], again=True)
    under_way = _under_way(app.queries.repeated(done).values())
    st.fragment(_progress, run_every=POLL_SECONDS if under_way else None)(app, done, under_way)


def cancel(app: Application, *run_ids: str) -> None:
    """Stop runs, or say why not."""
    try:
        for run_id in run_ids:
            app.runs.cancel(run_id)
    except EpsilonError as error:
        st.toast(address.plain(str(error)), icon=":material/error:")
    else:
        st.rerun()


def _progress(app: Application, done: Sequence[Run], under_way: bool) -> None:
    found = app.queries.repeated(done).values()
    if text := reproducibility.summary(found):
        st.caption(text)
    if under_way and not _under_way(found):
        st.rerun()  # the table above says it too


def _under_way(found: Iterable[reproducibility.Rerun]) -> bool:
    return any(not each.state.final for each in found)


def _ask(app: Application, configs: Sequence[SimulationConfig], *, again: bool) -> None:
    """Submit all of them, or say why not."""
    try:
        app.runs.submit_all(configs, again=again, owner_pid=os.getpid())
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
    else:
        st.toast(f"{_plural(configs)} queued. See Runs for progress.", icon=":material/check:")
        st.rerun()  # whoever shows one of them follows it from now on


def _plural(several: Sequence[object]) -> str:
    return "1 run" if len(several) == 1 else f"{len(several):,} runs"
