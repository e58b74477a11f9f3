"""Page Compare: several configurations in one chart, with mean and standard deviation over their seeds."""

import streamlit as st

from engine.config import SimulationConfig, with_noise
from engine.experiments.papers import jana_biemann_2021
from pages.compare import every_run, groups
from pages.compare.groups import ALONG, Group
from pages.compare.overlay import overlay
from pages.shared import address, compare_selection, group_by_config, seeded_noise_notice, session, tables, titles
from pages.shared.plotly_component import show

app = session.application()
found = app.queries.overview()
configs = group_by_config.configurations(found)
if not configs:
    st.markdown("### Nothing to compare yet. Start a run on the page Explore.")
    st.stop()
st.markdown("### Compare configurations")
by_title = {titles.setting(config): config for config in configs}
starts = [SimulationConfig.from_flat({"corpus": "conll2003", "tagger": tagger}) for tagger in jana_biemann_2021.TAGGERS]
usual = [titles.setting(one) for start in starts for one in (with_noise(start, 0.0), start) if one in configs]
with st.container(horizontal=True, vertical_alignment="bottom"):
    runs_of = {name: tuple(configs[config].values()) for name, config in by_title.items()}
    chosen = compare_selection.choose(runs_of, usual or sorted(by_title)[:2])
    along = st.selectbox("Horizontal axis", list(ALONG), format_func=ALONG.__getitem__, width=240)
if not chosen:
    st.caption("Choose configurations to compare.")
    st.stop()
chosen_groups = [
    Group(by_title[name], tuple(app.queries.get(run_id) for run_id in configs[by_title[name]].values()))
    for name in chosen
]
show(overlay(chosen_groups, along, key=f"{along}-{chosen}"), key="overlay", label=f"F1 against {ALONG[along]}")
tables.show(groups.rows(chosen_groups), {"MB sent": tables.number(format="%.1f")})
tables.older(run for group in chosen_groups for run in group.runs)
best = [titles.setting(group.config) for group in groups.pareto_optimal(chosen_groups)]
st.caption(
    "The chart shows F1 on the validation set, the table F1 on the test set. Bars are standard deviations over seeds."
    + (
        " In the shaded section of ε = ∞, the position shows the progress of the training."
        if along == "epsilon"
        else ""
    )
)
st.caption(address.plain(f"Pareto-optimal: {'; '.join(best)}."))
st.caption("To find configurations that reach a given score, ε or time, use the [Planner](./planner).")
st.markdown("#### All finished runs")
every_run.choose(found)
seeded_noise_notice.caption()
