"""Compare: finished runs laid over each other, mean and spread over their seeds."""

import streamlit as st

from pages.shared import address, compare, comparing, door, tables
from pages.shared.picture import show

runs = door.runs()
found = runs.overview()
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
groups = [
    compare.Group(by_label[name], tuple(runs.get(run_id) for run_id in known[by_label[name]].values()))
    for name in chosen
]
show(compare.overlay(groups, along, key=f"{along}-{chosen}"), key="overlay", label=f"F1 against {compare.ALONG[along]}")
if along == "epsilon" and any(group.epsilon == float("inf") for group in groups):
    st.caption("Runs without privacy have no place on the ε axis; the table has them.")
tables.show(compare.rows(groups), {"MB sent": tables.number(format="%.1f")})
tables.older(run for group in groups for run in group.runs)
best = [compare.label(group.config) for group in compare.frontier(groups)]
st.caption(address.plain(f"Not beaten at their ε or less: {'; '.join(best)}."))
st.markdown("#### All finished runs")
st.caption("Drag along an axis to keep the runs in between; log₁₀ ε = 3 stands for no privacy.")
show(compare.parallel(found, key="parallel"), key="parallel", label="Settings and results of all finished runs")
