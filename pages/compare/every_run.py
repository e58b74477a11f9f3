"""The picture of all finished runs, whose marks choose the rows of the table below it."""

from collections.abc import Sequence

import streamlit as st

from engine.service import Overview
from pages.compare import parallel
from pages.shared import tables, titles
from pages.shared.plotly_component import show

ROWS = 500
"""Of the table, where no more are asked for."""
_RESETS = "every_run_resets"
"""How often the marks were taken off: the picture is made anew each time."""


@st.fragment
def choose(found: Sequence[Overview]) -> None:
    """The picture and its table. A fragment: marking does not draw the rest of the page again."""
    corpora = sorted({each.run.config.corpus for each, _ in parallel.finished(found)}, key=titles.corpus)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        corpus = st.selectbox(
            "Corpus", [None, *corpora], format_func=lambda name: titles.corpus(name) if name else "all", width=280
        )
        st.button("Take off all marks", on_click=_reset, icon=":material/filter_alt_off:")
    here = [each for each in found if corpus in (None, each.run.config.corpus)]
    done, axes = parallel.finished(here), parallel.axes(here)
    number = st.session_state.get(_RESETS, 0)
    marks = show(
        parallel.picture(axes, key=f"parallel-{corpus}-{number}"),
        key=f"parallel-{corpus}-{number}",
        label="Settings and results of all finished runs",
        marked=True,
    )
    kept = [done[place] for place in parallel.between(axes, marks)]
    st.caption(
        "Drag along an axis to mark a range of it: the table keeps the runs that go through all marks. A click on the "
        "axis beside a mark takes it off. Colour: F1. σ, clients, rounds and share of the data: the values that occur, "
        "evenly apart."
    )
    if not kept:
        st.info("No runs match these filters. Remove one.", icon=":material/filter_alt:")
        return
    how_many = f"All {len(done):,} runs" if len(kept) == len(done) else f"{len(kept):,} of {len(done):,} runs"
    st.markdown(f"**{how_many}**, the best first")
    every = len(kept) <= ROWS or st.toggle(f"All {len(kept):,} rows, not {ROWS:,} alone", key="compare_all_rows")
    rows = parallel.rows(kept, most=None if every else ROWS)
    tables.show(rows, {"data, %": tables.number(format="%g")}, height=min(420, 38 + 35 * len(rows)))


def _reset() -> None:
    st.session_state[_RESETS] = st.session_state.get(_RESETS, 0) + 1
