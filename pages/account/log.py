"""Actions by user, and the audit log."""

import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import streamlit as st

from engine.access.roles import AuditLogEntry, Limits
from engine.reports.csv_export import csv_text, neutral
from engine.service import Application
from pages.account import activity
from pages.shared import downloads

_MAX_ENTRIES = 10_000
"""Maximum number of log entries on the page, the newest first."""


def show(app: Application, limits: Limits) -> None:
    """Show the actions by user, and the audit log with the newest entry first.

    Args:
        app: The application.
        limits: Limits of each user.

    Raises:
        NotAllowed: The user is not an admin.
        StoreError: The log cannot be read.
    """
    st.markdown("#### Activity by user")
    left, middle, right = st.columns(3)
    period = middle.selectbox("Period", list(activity.PERIODS), index=2)
    days = activity.PERIODS[period]
    since = time.time() - 86_400 * days if days else 0.0
    counts = app.access.activity(since)
    user = left.selectbox("User", [None, *sorted({name for name, *_ in counts})], format_func=_all)
    action = right.selectbox("Action", [None, *sorted({each for _, each, *_ in counts})], format_func=_all)
    active = Counter(run.owner or "no owner" for run in app.queries.runs_of() if not run.status.state.final)
    table = activity.rows(counts, active, app.access.corpora_by_user(), limits, days)
    st.dataframe(pd.DataFrame([row for row in table if user in (None, row["user"])]), hide_index=True)
    st.caption(
        "Counts come from the audit log. An upload on a page counts twice: when it is read, and when it is added. "
        "*refused* counts actions for which the role was too low; attempts above a limit are not logged as refused. "
        "*active runs*, *corpora* and *limit reached* are as of now."
    )
    st.markdown("#### Audit log")
    entries = app.access.audit_log(_MAX_ENTRIES, user, since)
    listed = [entry for entry in entries if action in (None, entry.action)]
    frame = pd.DataFrame(rows(listed))
    st.dataframe(
        frame,
        hide_index=True,
        height=min(480, 38 + 35 * max(1, len(frame))),
        column_config={"when": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss", timezone="UTC")},
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        downloads.button("Download CSV", lambda: _csv(frame), "audit-log.csv", "text/csv", icon=":material/download:")
        st.caption(
            f"At most the {_MAX_ENTRIES:,} newest entries, with times in UTC. Viewing pages and copying from the "
            "screen are not logged."
        )


def rows(entries: Sequence[AuditLogEntry]) -> list[dict[str, Any]]:
    """Return the table rows of log entries."""
    return [
        {
            "when": datetime.fromtimestamp(entry.at, UTC),
            "user": entry.person,
            "action": entry.action,
            "target": neutral(entry.subject),  # the table has a download button of its own
            "": "✗ refused" if entry.refused else "",
        }
        for entry in entries
    ]


def _all(value: str | None) -> str:
    return value or "all"


def _csv(frame: pd.DataFrame) -> str:
    """Return the table as CSV, under the column names of earlier versions."""
    return csv_text(frame.rename(columns={"user": "person", "action": "deed", "target": "of"}))
