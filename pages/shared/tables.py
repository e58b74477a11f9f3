"""Tables of results, with the same columns on every page."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from engine.experiments.seed_aggregates import older_text
from engine.records import Run
from pages.shared import glossary
from pages.shared.metrics import INTERVAL

number = st.column_config.NumberColumn
INTERVAL_COLUMN = st.column_config.TextColumn(
    "95 % CI", help="95 % confidence interval of F1 over test sentences, for one model of this configuration."
)
REPORT_COLUMN = st.column_config.LinkColumn(display_text="Report", width=65)
LEDGER_COLUMN = st.column_config.LinkColumn("assumptions", display_text="Assumptions", width=110)
_USUAL = {
    "F1": number("F1, entity-level", format="%.3f"),
    "± sd": number(
        format="%.3f", width=65, help="Standard deviation of F1 over seeds, which estimates the seed variance."
    ),
    INTERVAL: INTERVAL_COLUMN,
    "difference": number(format="%.3f"),
    "σ": number(format="%g", width=55),
    "seconds": number(format="%.0f", width=75),
    "report": REPORT_COLUMN,
    "ε rests on": LEDGER_COLUMN,
    "run": st.column_config.LinkColumn("run", display_text="Explore", width=70),
}


def show(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Any] | None = None, **more: Any) -> Any:
    """Show a table and return Streamlit's result.

    Args:
        rows: The rows, each with its values by column.
        columns: Settings of columns that only this table has, or that differ here.
        **more: Further arguments of ``st.dataframe``.
    """
    frame = pd.DataFrame(rows)
    settings = explained(frame.columns, {**_USUAL, **(columns or {})})
    return st.dataframe(frame, hide_index=True, placeholder="–", column_config=settings, **more)


def explained(names: Iterable[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of columns, with the glossary's entry as tooltip of each heading without help of its own.

    The browser draws a table on a canvas, in which terms cannot be marked.
    """
    columns = dict(settings)
    for name in names:
        column = columns.get(name, {})
        if not isinstance(column, dict) or column.get("help"):
            continue
        if entry := glossary.of(column.get("label") or name):
            columns[name] = st.column_config.Column() | column | {"help": entry.text}
    return columns


def older(runs: Iterable[Run]) -> None:
    """Show which runs of a table are outdated, if any is."""
    if text := older_text(runs):
        st.caption(text)
