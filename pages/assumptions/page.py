"""Page Assumptions: the assumptions of an ε, and its value under other assumptions."""

import json
from dataclasses import replace

import streamlit as st

from engine.errors import EpsilonError
from engine.privacy.assumptions import TITLES, at_least, epsilon, rows, waterfall, why
from engine.records.assumption_texts import SEEDED
from engine.reports.assumptions import incomplete_epochs, ledger_epsilon, ledger_fields
from engine.reports.numbers import delta_text, epsilon_text
from pages.assumptions import charts
from pages.assumptions.controls import FIRST_BAR, choices, subject
from pages.shared import address, downloads, session, tables
from pages.shared.plotly_component import show

app = session.application()
asked = st.query_params.get("run")
heading = st.container()
try:
    found = subject(app, asked)
except EpsilonError as error:
    heading.markdown("### No ε can be computed")
    st.error(address.plain(str(error)), icon=":material/error:")
    st.stop()
training, promised = found.training, found.training.promised
st.markdown("#### Your assumptions")
chosen = choices(training)
with st.spinner("Computing ε …"):
    steps = waterfall(training, found.start, promised)
    chosen_steps = waterfall(training, promised, chosen)[1:]
    effects = rows(training)
path = [replace(steps[0], choice=found.first), *steps[1:], *chosen_steps]
headline = f"Guaranteed: {ledger_epsilon(epsilon(training, promised))} at δ = {delta_text(promised.delta)}."
if chosen != promised:
    headline += f" Under your assumptions: {ledger_epsilon(epsilon(training, chosen))}."
heading.markdown(f"### {headline}")
heading.caption(
    address.plain(
        f"This ε is for {found.name}. ε is not a property of a model alone: it depends on the assumptions below."
    )
)
for subject_text, assumed in (("The guaranteed ε", promised), ("The ε under your assumptions", chosen)):
    least = at_least(training, assumed)
    if least and (assumed != promised or subject_text == "The guaranteed ε"):
        heading.markdown(
            f"{subject_text} is an upper bound. For some data, the true ε is **at least {epsilon_text(least)}**: an "
            "attacker who observes every step can learn this much."
        )
if found.seeded and training.noise_multiplier:
    heading.warning(SEEDED, icon=":material/key:")
show(charts.waterfall(path, key=f"ledger-{len(path)}"), key="waterfall", label=headline)
st.caption(
    f"{FIRST_BAR[found.first]} Each further bar changes one assumption: first towards the guaranteed ε, then towards "
    "your assumptions. Orange, rising stripes: the change raises ε. Blue, falling stripes: the change lowers ε."
)
st.markdown("#### Effect of each assumption")
tables.show(
    [
        {
            "assumption": TITLES[row.assumption],
            "choice": row.choice,
            "status": "✓ guaranteed" if row.claimed else "",
            "ε": "unknown" if row.epsilon is None else epsilon_text(row.epsilon),
            "at least": epsilon_text(row.at_least) if row.at_least else "",
            "δ": delta_text(row.delta),
        }
        for row in effects
    ],
    {
        "choice": st.column_config.TextColumn(width="large"),
        "ε": st.column_config.TextColumn(help="Upper bound. “Unknown”: no valid upper bound is known."),
        "status": st.column_config.TextColumn(width="small"),
        "at least": st.column_config.TextColumn(
            "ε at least", help="Lower bound on the true ε, for some data. Only complete epochs count."
        ),
    },
    height="content",
)
if any(row.at_least for row in effects) and (left_out := incomplete_epochs(training)):
    st.caption(left_out)
st.markdown("\n".join(f"- **{title}**: {why(name, training.unit)}" for name, title in TITLES.items()))
downloads.button(
    "Download JSON",
    lambda: json.dumps(ledger_fields(effects, path), ensure_ascii=False, indent=1),
    "ledger.json",
    "application/json",
    icon=":material/download:",
)
