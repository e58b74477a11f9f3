"""Rows of results as a table, each column the same on every page."""

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
    help="How far F1 of one such tagger could lie elsewhere, had other sentences of the same kind been tested."
)
REPORT_COLUMN = st.column_config.LinkColumn(display_text="Report")
LEDGER_COLUMN = st.column_config.LinkColumn(display_text="Assumptions")
_USUAL = {
    "F1": number("F1, whole names", format="%.3f"),
    "± sd": number(format="%.3f", help="Over seeds: how far chance in training moves F1."),
    INTERVAL: INTERVAL_COLUMN,
    "difference": number(format="%.3f"),
    "σ": number(format="%g"),
    "seconds": number(format="%.0f"),
    "report": REPORT_COLUMN,
    "ε rests on": LEDGER_COLUMN,
    "run": st.column_config.LinkColumn("look", display_text="in Explore"),
}


def show(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Any] | None = None, **more: Any) -> Any:
    """A table; ``columns`` says what is special to it, ``more`` goes to Streamlit, whose answer is returned."""
    frame = pd.DataFrame(rows)
    settings = explained(frame.columns, {**_USUAL, **(columns or {})})
    return st.dataframe(frame, hide_index=True, placeholder="", column_config=settings, **more)


def explained(names: Iterable[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of columns, with the glossary's entry over each heading that it has and that says nothing else: a
    table is a picture to the browser, in which no word can be marked."""
    found = dict(settings)
    for name in names:
        column = found.get(name, {})
        if not isinstance(column, dict) or column.get("help"):
            continue
        if entry := glossary.of(column.get("label") or name):
            found[name] = st.column_config.Column() | column | {"help": entry.text}
    return found


def older(runs: Iterable[Run]) -> None:
    """Say which of the runs behind a table are of an older engine, where any is."""
    if text := older_text(runs):
        st.caption(text)
