"""Sentences about a run that several pages show. Does not use Streamlit."""

from datetime import datetime

from engine.experiments.seed_aggregates import engine_of
from engine.records import Run, RunState, RunStatus

_SILENT_SECONDS = 30.0
"""Seconds without a heartbeat after which pages state it; workers send one every few seconds."""


def origin(run: Run) -> str:
    """Describe when and how a finished run was computed."""
    made = run.provenance
    if made is None:
        return ""
    day = datetime.fromisoformat(made.created).strftime("%-d %B %Y")
    where = "Published result" if run.published else "Your run"
    version = f", commit {made.commit[:7]}" if made.commit != "unknown" else ""
    older = (
        f" Computed by engine {made.engine_version} (outdated), with that version's random draws, ε and noise check."
        if engine_of(run)
        else ""
    )
    time = f"{duration(made.wall_seconds)} of wall time (other runs may have shared the processor)"
    return f"{where} of {day}: {time} on {made.machine}{version}.{older}"


def percent(share: float) -> str:
    """Format a share, 0 to 1, in whole per cent with a no-break space."""
    return f"{100 * share:.0f}\u00a0%"


def silence(status: RunStatus, seconds: float) -> str:
    """Return a sentence if the worker of a running run has been silent; empty otherwise.

    Args:
        status: Status of the run.
        seconds: Time since its heartbeat changed, by this machine's clock.
    """
    if status.state != RunState.RUNNING or seconds < _SILENT_SECONDS:
        return ""
    return (
        f"The worker has sent no sign of life for {duration(seconds)}. If its machine or process has ended, another "
        "worker continues the run from its last checkpoint. You can also cancel the run."
    )


def duration(seconds: float) -> str:
    """Format a duration in seconds, rounded: "40 s", "3 min", "2 h"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
