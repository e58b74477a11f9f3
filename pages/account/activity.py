"""Actions by user in a period, and the users that have reached a limit; this module does not use Streamlit."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from engine.access.roles import Limits

PERIODS: dict[str, float | None] = {"24 hours": 1.0, "7 days": 7.0, "30 days": 30.0, "365 days": 365.0, "all": None}
"""Days of each period; None: the whole log."""
_COLUMNS = {
    "sign-ins": ("sign in",),
    "runs": ("run", "run again", "audit"),
    "uploads": ("upload",),
    "exports": ("export", "export person"),
}
"""Logged actions that each column counts."""


def rows(
    counts: Sequence[tuple[str, str, bool, int]],
    active: Mapping[str, int],
    corpora: Mapping[str, int],
    limits: Limits,
    days: float | None,
) -> list[dict[str, Any]]:
    """Return a table row for each user, the most active first.

    Args:
        counts: Number of logged actions by user, action, and whether they were refused.
        active: Number of queued and running runs by user.
        corpora: Number of uploaded corpora by user.
        limits: Limits of each user.
        days: Length of the period in days; None for the whole log, without a rate.
    """
    every, refused, columns = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for user, action, was_refused, number in counts:
        every[user] += number
        refused[user] += number if was_refused else 0
        for column, actions in _COLUMNS.items():
            columns[user, column] += number if action in actions and not was_refused else 0
    users = sorted({*every, *active, *corpora}, key=lambda user: (-every[user], user))
    return [
        {
            "user": user,
            "actions": every[user],
            "per day": round(every[user] / days, 1) if days else None,
            **{column: columns[user, column] for column in _COLUMNS},
            "refused": refused[user],
            "active runs": f"{active.get(user, 0):,} of {limits.runs:,}",
            "corpora": f"{corpora.get(user, 0):,} of {limits.uploads:,}",
            "limit reached": ", ".join(
                name
                for name, number, limit in (
                    ("runs", active.get(user, 0), limits.runs),
                    ("corpora", corpora.get(user, 0), limits.uploads),
                )
                if number >= limit
            ),
        }
        for user in users
    ]
