"""Active runs by user, and the audit log."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import streamlit as st

from engine.access.roles import AuditLogEntry
from engine.service import Application
from pages.shared import downloads

_SHOWN = 10_000


def show(app: Application) -> None:
    """Show the active runs by user, and the audit log with the newest entry first.

    Raises:
        NotAllowed: The user is not an admin.
        StoreError: The log cannot be read.
    """
    waiting = Counter(run.owner or "no owner" for run in app.queries.runs_of() if not run.status.state.final)
    st.markdown("#### Active runs")
    if waiting:
        st.dataframe(
            pd.DataFrame([{"user": name, "queued or running": number} for name, number in waiting.most_common()]),
            hide_index=True,
        )
    else:
        st.caption("No run is queued or running.")
    st.markdown("#### Audit log")
    found = app.access.audit_log(_SHOWN)
    left, right = st.columns(2)
    person = left.selectbox("User", [None, *sorted({each.person for each in found})], format_func=_all)
    deed = right.selectbox("Action", [None, *sorted({each.action for each in found})], format_func=_all)
    listed = [each for each in found if person in (None, each.person) and deed in (None, each.action)]
    frame = pd.DataFrame(rows(listed))
    st.dataframe(
        frame,
        hide_index=True,
        height=min(480, 38 + 35 * max(1, len(frame))),
        column_config={"when": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss", timezone="UTC")},
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        downloads.button("CSV", lambda: _file(frame), "who-did-what.csv", "text/csv", icon=":material/download:")
        st.caption(
            f"At most {_SHOWN:,} newest entries, in UTC. Viewing pages and copying from the screen are not logged."
        )


def rows(found: Sequence[AuditLogEntry]) -> list[dict[str, Any]]:
    """Return the table rows of log entries."""
    return [
        {
            "when": datetime.fromtimestamp(each.at, UTC),
            "user": each.person,
            "action": each.action,
            "target": each.subject,
            "": "✗ refused" if each.refused else "",
        }
        for each in found
    ]


def _all(value: str | None) -> str:
    return value or "all"


def _file(frame: pd.DataFrame) -> str:
    """Return the table as CSV, under the column names that the file has had from the beginning."""
    return frame.rename(columns={"user": "person", "action": "deed", "target": "of"}).to_csv(index=False)
