"""Page Replication of Jana & Biemann 2021: the six reported tables and our results with the same settings."""

import streamlit as st

from engine.experiments.papers import jana_biemann_2021
from engine.experiments.seed_aggregates import SEEDS, over_seeds
from pages.paper import discussion
from pages.paper import tables as paper
from pages.shared import address, lazy_tabs, seeded_noise_notice, session, submitting, tables, titles
from pages.shared.metrics import METRICS
from pages.shared.plotly_component import show

app = session.application()
about = jana_biemann_2021.published()
st.markdown("### Reported results and our replication")
st.caption(f"{about['title']}. {about['authors']}, {about['venue']}, doi:{about['doi']}.")
seeded_noise_notice.caption()
with st.container(horizontal=True, vertical_alignment="bottom"):
    corpus = st.selectbox("Corpus", ["conll2003", "synthetic"], format_func=titles.corpus, width=280)
    metric = st.segmented_control(
        "Metric", list(METRICS), default="published", format_func=METRICS.__getitem__, required=True
    )
if corpus != "conll2003":
    st.caption(
        "The paper used CoNLL-2003. The runs below use the paper's settings with another corpus, so their scores "
        "differ."
    )
columns = {
    label: tables.number(format="%.3f")
    for label in ("reported P", "reported R", "reported F1", "P", "R", "F1", *paper.COUNTERFACTUAL_SCORES)
}
TABS = {f"Table {table.removeprefix('table')}": (table, title) for table, title in jana_biemann_2021.TABLES.items()}
for name in lazy_tabs.opened(list(TABS), key="paper_table"):
    table, title = TABS[name]
    cells = [cell for cell in jana_biemann_2021.cells(corpus=corpus) if cell.table == table]
    found = app.queries.find_all(config for cell in cells for config in cell.seeds(SEEDS))
    rows = [jana_biemann_2021.measure(cell, found.get) for cell in cells]
    runs = {run.run_id: run for row in rows for run in row.found.runs}.values()
    tables.older(runs)
    st.markdown(f"#### {title}")
    key = f"{table}-{metric}-{corpus}"
    show(paper.picture(rows, metric, key=key), key=f"picture-{table}", label=f"{title}: F1 reported and measured")
    event = tables.show(
        paper.rows(rows, metric, app.queries.repeated(runs)),
        columns,
        key=f"rows-{key}",
        on_select="rerun",
        selection_mode="multi-row",
    )
    chosen = [rows[number] for number in event["selection"]["rows"]] or rows
    scope = "this table" if chosen is rows else "this row" if len(chosen) == 1 else f"these {len(chosen)} rows"
    configs = list(dict.fromkeys(config for row in chosen for config in row.cell.seeds(SEEDS)))
    submitting.button(app, submitting.missing(app, configs), f"of {scope}", key=f"run-{table}")
    submitting.again(app, configs, scope, key=f"again-{table}")
    story = discussion.story(table, rows)
    for head, text in (
        ("The paper's conclusion", story.concluded),
        ("Our results", story.seen),
        ("Possible reasons for differences", story.why),
    ):
        st.markdown(f"**{head}.** {address.plain(text)}")
    counterfactuals = paper.counterfactuals(table, jana_biemann_2021.counterfactuals(corpus))
    if counterfactuals:
        st.markdown("**Counterfactuals.** Runs with a deliberate fault, to show its effect. They are not replications.")
        measured = [(label, over_seeds(config, app.queries.find)) for label, config in counterfactuals.items()]
        tables.show(paper.counterfactual_rows(measured), columns, key=f"if-{key}")
