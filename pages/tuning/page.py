"""Tuning: the search for a recipe on public data, trial by trial, what it cost and would have cost on private data."""

from dataclasses import replace

import streamlit as st

from engine.experiments.seed_aggregates import over_seeds
from engine.reports.tuning import study_cost, study_origin
from pages.shared import address, seeded_noise_notice, session, tables, titles
from pages.shared.plotly_component import show
from pages.tuning import chart as tuning

COMMAND = "python -m engine tune --epsilon 3 --corpus conll2003 --development btc --trials 30"

app = session.application()
found = app.queries.studies()
heading = st.container()
if not found:
    heading.markdown("### No search for a recipe has been made yet.")
    st.markdown(
        "This begins one: recipes are tried on Broad Twitter, which is public; the best is run on CoNLL-2003, once for "
        "each of five seeds."
    )
    st.code(COMMAND, language="bash", wrap_lines=True)
    st.stop()
study = found[st.selectbox("Search", sorted(found), format_func=lambda name: tuning.label(found[name]))]
named = replace(study, corpus=titles.corpus(study.corpus), development=titles.corpus(study.development))
tested = over_seeds(study.best, app.queries.find) if study.best else None
heading.markdown(f"### {address.plain(tuning.answer(study, tested))}")
told = "Trying many recipes on private data and telling of the best spends privacy with every trial."
if not study.private:
    told += (
        " Here each trial trains on data that need no protection, with the noise, the batches and the steps that the "
        "private corpus would need; of that only the number of sentences is asked."
    )
st.markdown(told)
if tested:
    tables.older(tested.runs)
st.info(address.plain(study_cost(named)), icon=":material/receipt_long:")
st.caption(address.plain(study_origin(study)))
seeded_noise_notice.caption()
show(tuning.history(study, key=f"history-{study.name}"), key="history", label="F1 of each trial, and the best so far")
st.markdown("#### What made the difference")
field = st.selectbox("F1 by", list(tuning.FIELDS), format_func=titles.heading, width=240)
picture = tuning.by_field(study, field, key=f"{field}-{study.name}")
show(picture, key="field", label=f"F1 of each trial by {titles.heading(field)}")
number = tables.number
tables.show(tuning.rows(study), {"F1": number(f"F1, {named.development}", format="%.4f")})
if study.best:
    apart = address.ledger(*tested.runs) if tested else None
    more = f" · [What its ε rests on]({apart})" if apart else ""
    st.markdown(f"[The best one in Explore]({address.link(study.best)}){more}")
st.caption("This goes on with it, with as many trials as you say:")
st.code(f"{study.command} --trials {2 * len(study.trials)}", language="bash", wrap_lines=True)
