"""Page Planner: from requirements to the configurations whose runs meet them."""

import json

import streamlit as st

from engine.errors import InvalidConfig
from engine.experiments.planner import curve, evidence
from engine.reports import planner as texts
from engine.service import planner
from pages.planner import chart, controls, rows
from pages.shared import address, downloads, seeded_noise_notice, session, tables, titles
from pages.shared.plotly_component import show

SHOWN = 12
"""Maximum number of configurations in the table."""
SCORES = {
    "reached": st.column_config.TextColumn(
        "evidence", help="Evidence that the configuration reaches the target, and how many of its runs reach it."
    ),
    "F1": st.column_config.TextColumn("F1", help="Mean over seeds, with its 95 % CI where there are several seeds."),
}

app = session.application()
overview = app.queries.overview()
finished = {item.run.config.corpus for item in overview if item.last_record and item.last_record.final}
available = sorted(finished, key=lambda name: (name != "conll2003", name))
if not available:
    st.markdown("### No run is finished yet. Start one on the page Explore.")
    st.stop()
heading = st.container()
st.markdown("#### Requirements")
corpus = st.selectbox("Corpus", available, format_func=titles.corpus, key="corpus", bind="query-params", width=320)
done = evidence.done(((item.run, item.last_record) for item in overview), corpus)
try:
    target = controls.target(corpus, done)
except InvalidConfig:
    heading.markdown("### Enter a requirement: a minimum score, a maximum ε, or a maximum number of seconds.")
    st.stop()
with st.spinner("Comparing the runs and computing the noise of the suggested runs …"):
    plan = planner.plan(app, target, overview)
answer = texts.answer_text(plan)
heading.markdown(f"### {address.plain(answer)}")
for line in texts.explanations(plan):
    heading.markdown(address.plain(line))
if best := plan.answer.best[:SHOWN]:
    st.markdown(f"#### {'Configurations that meet the requirements' if target.thresholds else 'Best configurations'}")
    tables.show(rows.settings(best), SCORES)
    st.caption(rows.selection(plan))
elif plan.answer.nearest:
    st.markdown("#### Nearest configurations")
    tables.show(rows.settings([plan.answer.nearest, *filter(None, [plan.answer.beyond, plan.answer.ceiling])]), SCORES)
if plan.next_runs:
    st.markdown("#### Suggested runs, cheapest first")
    st.markdown("\n".join(f"- {rows.next_run(run)}" for run in plan.next_runs))
st.caption(f"{texts.chance_text(plan)} {texts.OPTIMISTIC}")
seeded_noise_notice.caption()
st.info(f"{texts.COSTS} {texts.adjacency_note(plan)}", icon=":material/receipt_long:")
drawn = curve.highest(plan.lines, chart.MOST)
name = texts.measure_text(target.main)
st.markdown(f"#### {address.plain(name)} against ε")
show(chart.score_chart(plan, drawn, key=f"planner-{corpus}-{name}"), key="planner", label=f"{name} against ε. {answer}")
st.caption(
    "Each circle is a configuration; click one to open it in Explore. A family is a group of configurations that "
    "differ only in their noise. Each line is the monotone fit of a family. Its band is a simultaneous 95 % confidence "
    "band for the expected scores of the family, if these never fall with ε. A family in which each configuration has "
    f"a single run has no band. The chart shows at most {chart.MOST} families: those with the highest fit at some ε. "
    f"{texts.error_text(plan)}"
)
st.markdown("#### Excluded runs")
excluded = texts.left_out_lines(plan)
st.markdown("\n".join(f"- {line}" for line in excluded) or "None: every finished run on this corpus was compared.")
tables.older(result.run for setting in plan.evidence.settings for result in setting.done)
with st.container(horizontal=True):
    downloads.button("Download CSV", lambda: rows.csv(plan), "plan.csv", "text/csv", icon=":material/table:")
    downloads.button(
        "Download JSON",
        lambda: json.dumps(texts.plan_fields(plan), ensure_ascii=False, indent=1),
        "plan.json",
        "application/json",
        icon=":material/data_object:",
    )
