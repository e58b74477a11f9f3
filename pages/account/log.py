"""Active runs by user, and the audit log."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import streamlit as st

from engine.access.roles import AuditLogEntry
from engine.reports.csv_export import csv_text, neutral
from engine.service import Application
from pages.shared import downloads

_MAX_ENTRIES = 10_000
"""Maximum number of log entries on the page, the newest first."""


def show(app: Application) -> None:
    """Show the active runs by user, and the audit log with the newest entry first.

    Raises:
        NotAllowed: The user is not an admin.
        StoreError: The log cannot be read.
    """
    active = Counter(run.owner or "no owner" for run in app.queries.runs_of() if not run.status.state.final)
    st.markdown("#### Active runs")
    if active:
        st.dataframe(
            pd.DataFrame([{"user": name, "queued or running": number} for name, number in active.most_common()]),
            hide_index=True,
        )
    else:
        st.caption("No run is queued or running.")
    st.markdown("#### Audit log")
    entries = app.access.audit_log(_MAX_ENTRIES)
    left, right = st.columns(2)
    user = left.selectbox("User", [None, *sorted({entry.person for entry in entries})], format_func=_all)
    action = right.selectbox("Action", [None, *sorted({entry.action for entry in entries})], format_func=_all)
    listed = [entry for entry in entries if user in (None, entry.person) and action in (None, entry.action)]
    frame = pd.DataFrame(rows(listed))
    st.dataframe(
        frame,
        hide_index=True,
        height=min(480, 38 + 35 * max(1, len(frame))),
        column_config={"when": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss", timezone="UTC")},
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        downloads.button(
            "Download CSV", lambda: _csv(frame), "who-did-what.csv", "text/csv", icon=":material/download:"
        )
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
