"""Page Privacy budget: the total ε of a corpus, its charges, and the runs that still fit."""

import json

import streamlit as st

from engine.errors import EpsilonError
from engine.privacy.budget import UNITS
from engine.reports.budgets import account_fields, headline
from engine.service.budget_accounts import sharing_text
from pages.budget import charts, messages
from pages.shared import address, downloads, session, tables, titles
from pages.shared.plotly_component import show

app = session.application()
names = [info.name for info in app.corpora.all() if info.available]
heading = st.container()
corpus = st.selectbox("Corpus", names, format_func=titles.corpus, key="corpus", bind="query-params")
try:
    now = app.budgets.state(corpus)
    affordable, sharing = app.budgets.affordable_runs(now), app.budgets.accounts.sharing(corpus)
except EpsilonError as error:
    heading.markdown("### The privacy ledger is corrupted")
    st.error(address.plain(str(error)), icon=":material/error:")
    st.stop()
heading.markdown(f"### {headline(now)}")
if not now.holds:
    st.warning(messages.BROKEN, icon=":material/gpp_bad:")
if text := sharing_text(sharing):
    st.info(address.plain(text), icon=":material/content_copy:")
st.markdown(messages.INTRODUCTION)
share = tables.number("% of the budget", format="%.1f")
if now.budget:
    show(charts.bar(now, key=f"budget-{now.chain_hash[:8]}"), key="bar", label=headline(now))
    if now.bookings:
        st.markdown("#### Charges")
        tables.show(messages.charges(now), {"share": share, "what": st.column_config.TextColumn("run")})
    else:
        st.caption("No run with noise has been charged yet. Start one on [Explore](/explore).")
    if now.looks:
        st.markdown("#### Unprotected accesses")
        tables.show(messages.unprotected_accesses(now), {"what": st.column_config.TextColumn("access")})
    st.caption(messages.ACCESSES)
    if affordable:
        st.markdown("#### Affordable runs")
        tables.show(messages.affordable(affordable), {"share": share, "times": tables.number("runs that fit")})
        st.caption(messages.AFFORDABLE)
with st.expander("Change budget" if now.budget else "Set budget", icon=":material/tune:", expanded=not now.budget):
    with st.form("total", border=False):
        first, second, third = st.columns(3)
        before = now.budget
        epsilon = first.number_input("Total ε", 0.1, 1000.0, before.epsilon if before else 3.0)
        delta = second.select_slider(
            "δ",
            sorted({before.delta if before else 1e-5, *(10.0**-power for power in range(4, 11))}, reverse=True),
            before.delta if before else 1e-5,
            "{:g}".format,
        )
        unit = third.selectbox("Protected unit", UNITS, UNITS.index(before.unit) if before else 0)
        st.caption(
            "A larger total weakens the privacy guarantee for every person in the corpus. All totals remain stored."
        )
        if st.form_submit_button("Save budget", type="primary"):
            try:
                app.budgets.set_total(corpus, epsilon, delta, unit)
            except EpsilonError as error:
                st.error(address.plain(str(error)), icon=":material/error:")
            else:
                st.rerun()
    if len(now.totals) > 1:
        tables.show(messages.totals(now))
st.markdown(messages.COVERAGE)
if now.budget:
    st.caption(f"Chain head (hash of the last entry), to save and compare later: `{now.chain_hash}`")
    downloads.button(
        "Download JSON",
        lambda: json.dumps(account_fields(now, affordable), ensure_ascii=False, indent=1),
        f"budget-{now.name}.json",
        "application/json",
        icon=":material/download:",
    )
