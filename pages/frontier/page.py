"""Page Pareto frontier: the highest F1 for each ε over all finished runs."""

import streamlit as st

from engine.experiments import token_f1
from engine.experiments.papers import jana_biemann_2021
from pages.frontier import chart
from pages.frontier import points as frontier
from pages.shared import seeded_noise_notice, session, tables, titles
from pages.shared.metrics import METRICS
from pages.shared.plotly_component import show

app = session.application()
overviews = app.queries.overview()
finished = {item.run.config.corpus for item in overviews if item.last_record and item.last_record.final}
corpora = sorted(finished, key=lambda name: (name != "conll2003", name))
if not corpora:
    st.markdown("### No run is finished yet. Start one on the page Explore.")
    st.stop()
heading = st.container()
with st.container(horizontal=True, vertical_alignment="bottom"):
    corpus = st.selectbox("Corpus", corpora, format_func=titles.corpus, width=280)
    metric = st.segmented_control(
        "Metric", list(METRICS), default="entity", format_func=METRICS.__getitem__, required=True
    )
    tests = [
        item.last_record.test
        for item in overviews
        if item.run.config.corpus == corpus and item.last_record and item.last_record.test
    ]
    kinds = [frontier.ALL, *sorted({name for test in tests for name in test.strict})]
    kind = st.selectbox("Entity type", kinds, width=160, disabled=metric == "published")
settings = frontier.settings(overviews, corpus, metric, kind)
best = frontier.best(settings)
top = frontier.ceiling(settings, best)
by_tokens = metric == "published"
published = []
if by_tokens and corpus == "conll2003":
    cells = jana_biemann_2021.cells(corpus=corpus)
    published = frontier.reported([jana_biemann_2021.measure(cell, app.queries.find) for cell in cells])
floor = token_f1.floor(tests[0]).f1 if by_tokens and tests else 0.0
answer = frontier.answer(best, top)
heading.markdown(f"### {answer}")
show(
    chart.picture(settings, best, top, published, floor, key=f"{corpus}-{metric}-{kind}"), key="frontier", label=answer
)
st.caption(
    "Each circle is a configuration, with the mean F1 over its seeds. A line joins the Pareto-optimal configurations: "
    "no other configuration has a higher F1 at the same or a smaller ε. The lines *5 clients* and *20 clients* show "
    "federated runs: each client spends this ε on its own data. Only runs with sentence-level privacy and Poisson "
    "sampling are compared. Click a point to open its configuration in Explore. To find settings that reach a given "
    "score, use the [Planner](./planner)."
)
seeded_noise_notice.caption()
if not by_tokens:
    st.caption(
        "The scores of the paper (Jana and Biemann 2021) are most likely token-level. Choose "
        f"“{METRICS['published']}” to see them at our recomputed ε."
    )
tables.show(frontier.rows(best, top), {"F1": tables.number(f"F1, {METRICS[metric].lower()}", format="%.3f")})
tables.older(
    item.run for item in overviews if item.run.config.corpus == corpus and item.last_record and item.last_record.final
)
