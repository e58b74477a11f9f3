"""Who did what, and what is under way for whom."""

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
    """The queue by person, and the log, newest first. Raises NotAllowed, StoreError."""
    waiting = Counter(run.owner or "nobody's" for run in app.queries.runs_of() if not run.status.state.final)
    st.markdown("#### Under way")
    if waiting:
        st.dataframe(
            pd.DataFrame([{"person": name, "runs that wait or run": number} for name, number in waiting.most_common()]),
            hide_index=True,
        )
    else:
        st.caption("Nothing waits or runs.")
    st.markdown("#### Who did what")
    found = app.access.audit_log(_SHOWN)
    left, right = st.columns(2)
    person = left.selectbox("Person", [None, *sorted({each.person for each in found})], format_func=_all)
    deed = right.selectbox("Deed", [None, *sorted({each.action for each in found})], format_func=_all)
    listed = [each for each in found if person in (None, each.person) and deed in (None, each.action)]
    frame = pd.DataFrame(rows(listed))
    st.dataframe(
        frame,
        hide_index=True,
        height=min(480, 38 + 35 * max(1, len(frame))),
        column_config={"when": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss", timezone="UTC")},
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        downloads.button(
            "CSV", lambda: frame.to_csv(index=False), "who-did-what.csv", "text/csv", icon=":material/download:"
        )
        st.caption(
            f"The newest {_SHOWN:,} at most; times are UTC. What somebody only looked at, or copied from the screen, "
            "is not in here."
        )


def rows(found: Sequence[AuditLogEntry]) -> list[dict[str, Any]]:
    """As a table."""
    return [
        {
            "when": datetime.fromtimestamp(each.at, UTC),
            "person": each.person,
            "deed": each.action,
            "of": each.subject,
            "": "✗ refused" if each.refused else "",
        }
        for each in found
    ]


def _all(value: str | None) -> str:
    return value or "all"
