"""What more than one page says about a run: no streamlit."""

from datetime import datetime

from engine.experiments.seed_aggregates import engine_of
from engine.records import Run


def origin(run: Run) -> str:
    """When and how a finished run was computed."""
    made = run.provenance
    if made is None:
        return ""
    day = datetime.fromisoformat(made.created).strftime("%-d %B %Y")
    where = "Published result" if run.published else "Your run"
    version = f", commit {made.commit[:7]}" if made.commit != "unknown" else ""
    older = f" Of engine {made.engine_version}: draws, ε and noise check are that version's." if engine_of(run) else ""
    return f"{where} of {day}: {duration(made.wall_seconds)} on {made.machine}{version}.{older}"


def percent(share: float) -> str:
    """A share, 0 to 1, in whole per cent; the space does not break."""
    return f"{100 * share:.0f}\u00a0%"


def duration(seconds: float) -> str:
    """Seconds in words, roughly: "40 s", "3 min", "2 h"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
