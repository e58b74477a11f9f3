"""Buttons that start several runs in the background, and the results of reruns."""

import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

import streamlit as st

from engine.config import SimulationConfig
from engine.errors import EpsilonError
from engine.records import Run, RunState
from engine.service import Application, reproducibility
from pages.shared import address, script_scheduler, session, titles

POLL_SECONDS = 2.0


def missing(app: Application, configs: Sequence[SimulationConfig]) -> list[SimulationConfig]:
    """Return the configurations without a finished, running or queued run of the current engine."""
    return [
        config
        for config, run in app.queries.find_all(configs).items()
        if run is None or run.outdated or run.status.state in (RunState.FAILED, RunState.CANCELLED)
    ]


def accept_unprotected(corpora: Collection[str], *, key: str) -> bool:
    """Show a checkbox that accepts unprotected accesses; show nothing without any.

    Args:
        corpora: Names of the corpora whose budgets no longer hold after them.
        key: Key of the checkbox.

    Returns:
        Whether the user accepts them.
    """
    if not corpora:
        return False
    names = address.plain(", ".join(map(titles.corpus, dict.fromkeys(corpora))))
    return st.checkbox(
        f"Start without privacy guarantee: the privacy budget of {names} no longer holds afterwards", key=key
    )


def choice(app: Application, configs: Sequence[SimulationConfig], *, key: str) -> tuple[list[SimulationConfig], bool]:
    """Return the configurations to submit, without unprotected ones unless the user accepts them in a checkbox.

    Args:
        app: The application service.
        configs: The configurations.
        key: Prefix of the key of the checkbox.

    Returns:
        The configurations, and whether the user accepts unprotected accesses.
    """
    if not app.budgets.exists():
        return list(configs), False
    effects = [unprotected_corpora(app, config) for config in configs]
    accepted = accept_unprotected([name for names in effects for name in names], key=f"{key}-unprotected")
    return [config for config, names in zip(configs, effects, strict=True) if accepted or not names], accepted


def unprotected_corpora(app: Application, config: SimulationConfig) -> tuple[str, ...]:
    """Return the names of the corpora whose totals would no longer hold after a run."""
    with suppress(EpsilonError):  # a run that cannot be planned is refused when it is submitted
        return app.budgets.preview(config).unprotected
    return ()


def button(app: Application, configs: Sequence[SimulationConfig], what: str, *, key: str) -> None:
    """Show a button that starts missing runs, or a note that none is missing.

    Args:
        app: The application service.
        configs: The configurations to run.
        what: Where the runs are missing, after "Start missing runs": "of this table".
        key: Key of the button.
    """
    if not configs:
        st.caption(f"No run {what} is missing: each is finished or queued.")
        return
    chosen, unprotected = choice(app, configs, key=key)
    if st.button(
        f"Start missing runs {what} ({_plural(chosen)})",
        icon=":material/play_arrow:",
        key=key,
        disabled=not (chosen and session.can_run()),
        help=session.disabled_reason(),
    ):
        _submit(app, chosen, again=False, unprotected=unprotected)


def again(app: Application, configs: Sequence[SimulationConfig], what: str, *, key: str) -> None:
    """Show a button that reruns finished runs, and the comparison of reruns with their first runs.

    Args:
        app: The application service.
        configs: The configurations to rerun.
        what: The object of the button's label: "this table".
        key: Key of the button.
    """
    found = app.queries.find_all(configs).values()
    finished = [run for run in found if run and run.final and not run.outdated]
    done = [run for run in finished if run.config.privacy.noise_source != "system"]
    if len(done) < len(finished):
        st.caption("Runs with system noise cannot be rerun: their noise keys were destroyed when the run ended.")
    if not done:
        return
    minutes = sum(run.provenance.wall_seconds for run in done if run.provenance) / 60
    chosen, unprotected = choice(app, [run.config for run in done], key=key)
    if st.button(
        f"Rerun {what} ({_plural(chosen)})",
        icon=":material/replay:",
        key=key,
        disabled=not (chosen and session.can_run()),
        help=f"Computes {'the run' if len(done) == 1 else 'each run'} again on this machine and compares the results. "
        f"The first results are kept. They took {max(minutes, 0.1):,.{0 if minutes >= 10 else 1}f} minutes in total.",
    ):
        _submit(app, chosen, again=True, unprotected=unprotected)
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


def _submit(app: Application, configs: Sequence[SimulationConfig], *, again: bool, unprotected: bool) -> None:
    """Submit all runs, or show the error."""
    try:
        app.runs.submit_all(configs, again=again, owner_pid=os.getpid(), unprotected=unprotected)
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
    else:
        st.toast(f"{_plural(configs)} queued. See Runs for progress.", icon=":material/check:")
        st.rerun()  # pages that show one of the runs follow its progress from now on


def _plural(several: Sequence[object]) -> str:
    return "1 run" if len(several) == 1 else f"{len(several):,} runs"
