"""How good the audit itself is, where the truth is known."""

import streamlit as st

from engine.records import Measurement
from engine.service import Application
from pages.audit import messages
from pages.shared import address, tables

KNOWN, BROKEN = "audit_known", "audit_broken"
"""What the benchmarks keep."""


def show(app: Application) -> None:
    """Coverage and power, as far as they were measured."""
    measured = app.queries.measurements()
    known, broken = measured.get(KNOWN), measured.get(BROKEN)
    if not (known or broken):
        return
    with st.expander("How good is this ruler?", icon=":material/straighten:"):
        two, whole = tables.number(format="%.2f"), tables.number(format="%.1f")
        if known:
            st.markdown(
                f"**Where the truth is known.** {known.values['repetitions']:,} audits of a Gaussian mechanism: a "
                "bound at 95 % must hold in 95 % of them at least, and should not be far below ε."
            )
            columns = {
                "bound holds, %": whole,
                "half the noise found, %": whole,
                "bound, median": two,
                "share of ε": two,
            }
            tables.show(messages.truth_known(known.values), columns)
            _origin(known)
        if broken:
            st.markdown(
                f"**Where something is wrong.** Trainings that claim ε = {broken.values['claimed']:.2f} and keep less, "
                "and the same as they should be."
            )
            tables.show(messages.sabotage(broken.values), {"bound, mean": two})
            _origin(broken)


def _origin(found: Measurement) -> None:
    st.caption(f"Measured by `{found.command}` on {address.plain(found.machine)}, {found.created[:10]}.")
