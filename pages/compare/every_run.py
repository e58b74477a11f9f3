"""Parallel axes of all finished runs, whose selected ranges filter the table below."""

from collections.abc import Sequence

import streamlit as st

from engine.service import Overview
from pages.compare import parallel
from pages.shared import session, tables, titles
from pages.shared.plotly_component import show

ROWS = 500
"""Maximum number of table rows, unless the user requests all."""
_RESETS = "every_run_resets"
"""Session key: how often the ranges were cleared. Each time the chart gets a new key."""


@st.fragment
def choose(found: Sequence[Overview]) -> None:
    """Show the chart and its table, as a fragment, so that a selection does not rerun the rest of the page."""
    session.require_sign_in()
    corpora = sorted({overview.run.config.corpus for overview, _ in parallel.finished(found)}, key=titles.corpus)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        corpus = st.selectbox(
            "Corpus", [None, *corpora], format_func=lambda name: titles.corpus(name) if name else "all", width=280
        )
        st.button("Clear ranges", on_click=_reset, icon=":material/filter_alt_off:")
    of_corpus = [overview for overview in found if corpus in (None, overview.run.config.corpus)]
    done, axes = parallel.finished(of_corpus), parallel.axes(of_corpus)
    number = st.session_state.get(_RESETS, 0)
    key, label = f"parallel-{corpus}-{number}", "Configurations and results of all finished runs"
    marks = show(parallel.picture(axes, key=key), key=key, label=label, marked=True)
    selected = [done[index] for index in parallel.between(axes, marks)]
    st.caption(
        "Drag along an axis to select a range. The table shows the runs within all selected ranges. To clear a range, "
        "click the axis outside of it. The colour shows F1. On the axes model, σ, clients, "
        "rounds and share of data, equal distances do not mean equal differences."
    )
    if not selected:
        st.info("No run is within all selected ranges. Clear a range.", icon=":material/filter_alt:")
        return
    number_of_runs = f"{len(done):,} runs"
    scope = f"All {number_of_runs}" if len(selected) == len(done) else f"{len(selected):,} of {number_of_runs}"
    heading = st.container()
    show_all = len(selected) <= ROWS or st.toggle(
        f"Show all {len(selected):,} rows (default: {ROWS:,})", key="compare_all_rows"
    )
    shown = "" if show_all else f", first {ROWS:,} shown"
    heading.markdown(f"**{scope}**{shown}, highest F1 first")
    rows = parallel.rows(selected, most=None if show_all else ROWS)
    tables.show(rows, {"share of data, %": tables.number(format="%g")}, height=min(420, 38 + 35 * len(rows)))


def _reset() -> None:
    st.session_state[_RESETS] = st.session_state.get(_RESETS, 0) + 1
