"""Page Hyperparameter search: the trials on public data, and their privacy cost, had the data been private."""

from dataclasses import replace

import streamlit as st

from engine.experiments.seed_aggregates import over_seeds
from engine.reports.tuning import study_cost, study_origin
from pages.shared import address, seeded_noise_notice, session, tables, titles
from pages.shared.plotly_component import show
from pages.tuning import chart as tuning

COMMAND = ".venv/bin/python -m engine tune --epsilon 3 --corpus conll2003 --development btc --trials 30"

app = session.application()
studies = app.queries.studies()
heading = st.container()
if not studies:
    heading.markdown("### No hyperparameter search is saved yet.")
    st.markdown(
        "This command starts one. Its trials train on the public corpus Broad Twitter. The best configuration is then "
        "run on CoNLL-2003 with five seeds."
    )
    st.code(COMMAND, language="bash", wrap_lines=True)
    st.stop()
study = studies[
    st.selectbox("Hyperparameter search", sorted(studies), format_func=lambda name: tuning.label(studies[name]))
]
named = replace(study, corpus=titles.corpus(study.corpus), development=titles.corpus(study.development))
tested = over_seeds(study.best, app.queries.find) if study.best else None
heading.markdown(f"### {address.plain(tuning.answer(study, tested))}")
text = "A search on private data spends ε with every trial, even if only the best one is released."
if not study.private:
    text += (
        " Here each trial trains on public data, whose sentences no ε protects, with the noise, batch size and steps "
        "that the private corpus would need. The trials use only the number of sentences of that corpus."
    )
st.markdown(text)
if tested:
    tables.older(tested.runs)
st.info(address.plain(study_cost(named)), icon=":material/receipt_long:")
st.caption(address.plain(study_origin(study)))
seeded_noise_notice.caption()
show(tuning.history(study, key=f"history-{study.name}"), key="history", label="F1 of each trial, and the best so far")
if study.fields:
    st.markdown("#### Effect of each hyperparameter")
    field = st.selectbox("Hyperparameter", study.fields, format_func=titles.heading, width=240)
    picture = tuning.by_field(study, field, key=f"{field}-{study.name}")
    show(picture, key="field", label=f"F1 of each trial by {titles.heading(field)}")
    st.caption("Filled marker: the best trial.")
number = tables.number
tables.show(tuning.rows(study), {"F1": number(f"F1, {named.development}", format="%.4f")})
if study.best:
    ledger = address.ledger(*tested.runs) if tested else None
    more = f" · [Assumptions of its ε]({ledger})" if ledger else ""
    st.markdown(f"[Open the best configuration in Explore]({address.link(study.best)}){more}")
st.caption(f"This command continues the search until it has {2 * len(study.trials):,} trials:")
st.code(f".venv/bin/{study.command} --trials {2 * len(study.trials)}", language="bash", wrap_lines=True)
