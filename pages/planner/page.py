"""Planner: from what is needed to the settings that runs say reach it, or that none does."""

import json

import streamlit as st

from engine.errors import InvalidConfig
from engine.experiments.planner import curve, evidence
from engine.reports import planner as words
from engine.service import planner
from pages.planner import chart, controls, rows
from pages.shared import address, downloads, seeded_noise_notice, session, tables, titles
from pages.shared.plotly_component import show

SHOWN = 12
"""Settings in the table."""
SCORES = {
    "F1": st.column_config.TextColumn("F1", help="Mean over seeds, and its 95 % interval where there are several.")
}

app = session.application()
overview = app.queries.overview()
finished = {each.run.config.corpus for each in overview if each.last_record and each.last_record.final}
here = sorted(finished, key=lambda name: (name != "conll2003", name))
if not here:
    st.markdown("### Nothing can be planned yet: no run is done. Start one on the page Explore.")
    st.stop()
heading = st.container()
st.markdown("#### What is needed")
corpus = st.selectbox("Corpus", here, format_func=titles.corpus, key="corpus", bind="query-params", width=320)
found = evidence.done(((each.run, each.last_record) for each in overview), corpus)
try:
    target = controls.target(corpus, found)
except InvalidConfig:
    heading.markdown("### Say what is needed: a score, an ε, or seconds.")
    st.stop()
with st.spinner("Looking through the runs, and for the noise of a next one …"):
    plan = planner.plan(app, target, overview)
said = words.answer_text(plan)
heading.markdown(f"### {address.plain(said)}")
for line in words.explanations(plan):
    heading.markdown(address.plain(line))
if best := plan.answer.best[:SHOWN]:
    st.markdown("#### Settings that reach it" if target.thresholds else "#### The best within these limits")
    tables.show(rows.settings(best), SCORES)
    st.caption(rows.selection(plan))
elif plan.answer.nearest:
    st.markdown("#### The nearest")
    tables.show(rows.settings([plan.answer.nearest, *filter(None, [plan.answer.beyond, plan.answer.ceiling])]), SCORES)
if plan.next_runs:
    st.markdown("#### Runs that might settle it, the cheapest first")
    st.markdown("\n".join(f"- {rows.next_run(each)}" for each in plan.next_runs))
st.caption(f"{words.chance_text(plan)} {words.OPTIMISTIC}")
seeded_noise_notice.caption()
st.info(words.COSTS, icon=":material/receipt_long:")
drawn = curve.highest(plan.lines, chart.MOST)
name = words.measure_text(target.main)
st.markdown(f"#### {address.plain(name)} over ε")
show(chart.picture(plan, drawn, key=f"planner-{corpus}-{name}"), key="planner", label=f"{name} over ε. {said}")
st.caption(
    "Each circle is a setting; a click opens it in Explore. A line is the monotone fit of settings that differ in "
    "their noise alone. Its band holds the expected scores of all of them at once in 95 % of cases, if those never "
    "fall with ε; there is none where each setting has one run. Drawn are the recipes that are the highest somewhere, "
    f"{chart.MOST} at most. {words.error_text(plan)}"
)
st.markdown("#### What was left out")
left = words.left_out_lines(plan)
st.markdown("\n".join(f"- {each}" for each in left) or "Nothing: every finished run on this corpus was compared.")
tables.older(one.run for each in plan.evidence.settings for one in each.done)
with st.container(horizontal=True):
    downloads.button("All settings, CSV", lambda: rows.csv(plan), "plan.csv", "text/csv", icon=":material/table:")
    downloads.button(
        "JSON",
        lambda: json.dumps(words.plan_fields(plan), ensure_ascii=False, indent=1),
        "plan.json",
        "application/json",
        icon=":material/data_object:",
    )
