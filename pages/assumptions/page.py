"""Ledger: which assumptions an ε rests on, and what it would be under others."""

import json
from dataclasses import replace

import streamlit as st

from engine.errors import EpsilonError
from engine.privacy.accounting import SEEDED
from engine.privacy.assumptions import TITLES, at_least, epsilon, rows, waterfall, why
from engine.reports.assumptions import ledger_epsilon, ledger_fields
from engine.reports.numbers import delta_text, epsilon_text
from pages.assumptions import charts
from pages.assumptions.controls import choices, subject
from pages.shared import address, downloads, session, tables
from pages.shared.plotly_component import show

app = session.application()
asked = st.query_params.get("run")
heading = st.container()
try:
    found = subject(app, asked)
except EpsilonError as error:
    heading.markdown("### The ledger has no numbers for this")
    st.error(address.plain(str(error)), icon=":material/error:")
    st.stop()
training, promised = found.training, found.training.promised
st.markdown("#### Assume something else")
chosen = choices(training)
with st.spinner("Accounting …"):
    steps = waterfall(training, found.start, promised)
    own = waterfall(training, promised, chosen)[1:]
    every = rows(training)
path = [replace(steps[0], choice="as printed"), *steps[1:], *own]
said = f"Promised: {ledger_epsilon(epsilon(training, promised))} at δ = {delta_text(promised.delta)}."
if chosen != promised:
    said += f" As you assume: {ledger_epsilon(epsilon(training, chosen))}."
heading.markdown(f"### {said}")
heading.caption(address.plain(f"Of {found.name}. ε is no property of a tagger alone: it rests on what stands below."))
for whose, assumed in (("what is promised", promised), ("what you assume", chosen)):
    least = at_least(training, assumed)
    if least and (assumed != promised or whose == "what is promised"):
        heading.markdown(
            f"This ε is an upper bound. For some data {whose} costs **at least ε = {epsilon_text(least)}**, whatever "
            "is printed: whoever sees every step is known to learn so much."
        )
if found.seeded and training.noise_multiplier:
    heading.warning(SEEDED, icon=":material/key:")
show(charts.waterfall(path, key=f"ledger-{len(path)}"), key="waterfall", label=said)
st.caption(
    "From what a paper would print to what is promised here, one assumption after another, and on to what you assume. "
    "Hatched upwards: what was left out. Hatched downwards: what was counted too carefully."
)
st.markdown("#### One by one")
tables.show(
    [
        {
            "assumption": TITLES[row.assumption],
            "choice": row.choice,
            "": "✓ promised" if row.claimed else "",
            "ε": ledger_epsilon(row.epsilon).removeprefix("ε = "),
            "at least": epsilon_text(row.at_least) if row.at_least else "",
            "δ": delta_text(row.delta),
        }
        for row in every
    ],
    {"choice": st.column_config.TextColumn(width="large"), "": st.column_config.TextColumn(width="small")},
    height="content",
)
st.markdown("\n".join(f"- **{title}**: {why(name, training.unit)}" for name, title in TITLES.items()))
downloads.button(
    "Take it away as JSON",
    lambda: json.dumps(ledger_fields(every, path), ensure_ascii=False, indent=1),
    "ledger.json",
    "application/json",
    icon=":material/download:",
)
