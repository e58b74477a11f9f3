"""Compare: finished runs laid over each other, mean and spread over their seeds."""

import pandas as pd
import streamlit as st

from engine.errors import EpsilonError
from pages.shared import address, compare, comparing, door
from pages.shared.picture import show

runs = door.runs()
try:
    found = runs.overview()
except EpsilonError as error:
    st.error(address.plain(str(error)), icon=":material/error:")
    st.stop()
known = compare.configurations(found)
if not known:
    st.markdown("### Nothing to compare yet: start a run on the page Explore.")
    st.stop()
st.markdown("### Settings laid over each other")
by_label = {compare.label(config): config for config in known}
usual = [name for name in by_label if name.endswith(("σ 0 · conll2003", "σ 1 · conll2003"))][:4]
with st.container(horizontal=True, vertical_alignment="bottom"):
    chosen = comparing.choose(sorted(by_label), usual or sorted(by_label)[:2])
    along = st.selectbox("F1 against", list(compare.ALONG), format_func=compare.ALONG.__getitem__, width=240)
if not chosen:
    st.caption("Choose settings to see them.")
    st.stop()
groups = [compare.Group(by_label[name], tuple(runs.get(run_id) for run_id in known[by_label[name]])) for name in chosen]
show(compare.overlay(groups, along, key=f"{along}-{chosen}"), key="overlay", label=f"F1 against {compare.ALONG[along]}")
if along == "epsilon" and any(group.epsilon == float("inf") for group in groups):
    st.caption("Runs without privacy have no place on the ε axis; the table has them.")
number = st.column_config.NumberColumn
st.dataframe(
    pd.DataFrame(compare.rows(groups)),
    hide_index=True,
    placeholder="",
    column_config={
        "F1": number("F1, test", format="%.3f"),
        "± sd": number(format="%.3f"),
        "MB sent": number(format="%.1f"),
        "seconds": number(format="%.0f"),
    },
)
best = [compare.label(group.config) for group in compare.frontier(groups)]
st.caption(address.plain(f"Not beaten at their ε or less: {'; '.join(best)}."))
st.markdown("#### All finished runs")
st.caption("Drag along an axis to keep the runs in between; log₁₀ ε = 3 stands for no privacy.")
show(compare.parallel(found, key="parallel"), key="parallel", label="Settings and results of all finished runs")
