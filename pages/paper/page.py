"""News: the six tables as printed, beside what the same settings give here."""

import streamlit as st

from engine.experiments.papers import jana_biemann_2021 as printed
from engine.experiments.seed_aggregates import SEEDS, over_seeds
from pages.paper import discussion
from pages.paper import tables as paper
from pages.shared import address, seeded_noise_notice, session, submitting, tables, titles
from pages.shared.metrics import METRICS
from pages.shared.plotly_component import show

app = session.application()
about = printed.published()
st.markdown("### What was printed, and what the same settings give when the noise reaches the weights")
st.caption(f"{about['title']}. {about['authors']}, {about['venue']}, doi:{about['doi']}.")
seeded_noise_notice.caption()
with st.container(horizontal=True, vertical_alignment="bottom"):
    corpus = st.selectbox("Corpus", ["conll2003", "synthetic"], format_func=titles.corpus, width=280)
    metric = st.segmented_control(
        "F1 counted", list(METRICS), default="published", format_func=METRICS.__getitem__, required=True
    )
if corpus != "conll2003":
    st.caption("The paper used CoNLL-2003: here the settings are its own, the corpus is not, and numbers differ.")
found = [printed.measure(cell, app.queries.find) for cell in printed.cells(corpus=corpus)]
tables.older(run for each in found for run in each.found.runs)
repeats = app.queries.repeated({run.run_id: run for each in found for run in each.found.runs}.values())
what_ifs = [(name, over_seeds(config, app.queries.find)) for name, config in printed.counterfactuals(corpus).items()]
columns = {
    name: tables.number(format="%.3f")
    for name in ("printed P", "printed R", "printed F1", "P", "R", "F1", *paper.WHAT_IF_SCORES)
}
for tab, (table, title) in zip(
    st.tabs([f"Table {name.removeprefix('table')}" for name in printed.TABLES]), printed.TABLES.items(), strict=True
):
    with tab:
        here = [each for each in found if each.cell.table == table]
        st.markdown(f"#### {title}")
        key = f"{table}-{metric}-{corpus}"
        show(paper.picture(here, metric, key=key), key=f"picture-{table}", label=f"{title}: F1 printed and measured")
        event = tables.show(
            paper.rows(here, metric, repeats),
            columns,
            key=f"rows-{key}",
            on_select="rerun",
            selection_mode="multi-row",
        )
        chosen = [here[row] for row in event["selection"]["rows"]] or here
        what = "this table" if chosen is here else "this row" if len(chosen) == 1 else f"these {len(chosen)} rows"
        wanted = list(dict.fromkeys(config for each in chosen for config in each.cell.seeds(SEEDS)))
        submitting.button(app, submitting.missing(app, wanted), f"of {what}", key=f"run-{table}")
        submitting.again(app, wanted, what, key=f"again-{table}")
        told = discussion.story(table, here)
        for head, text in (
            ("What the paper concluded", told.concluded),
            ("What we see", told.seen),
            ("Why they may differ", told.why),
        ):
            st.markdown(f"**{head}.** {address.plain(text)}")
        if beside := paper.what_ifs(table, what_ifs):
            st.markdown("**What if.** Runs that show what a fault would give; none of them is what the table says.")
            tables.show(beside, columns, key=f"if-{key}")
