"""Calibration of the audit: coverage and power on mechanisms with known ε and on faulty trainings."""

import streamlit as st

from engine.privacy.audit import power
from engine.records import Measurement
from engine.service import Application
from pages.audit import messages
from pages.shared import address, tables

KNOWN, BROKEN = "audit_known", "audit_broken"
"""Names of the two saved measurements."""


def show(app: Application) -> None:
    """Show coverage and power on known mechanisms and faulty trainings, where they were measured, and power by size."""
    measured = app.queries.measurements()
    known, broken = measured.get(KNOWN), measured.get(BROKEN)
    with st.expander("Audit calibration", icon=":material/straighten:"):
        two, whole = tables.number(format="%.2f"), tables.number(format="%.1f")
        if known:
            st.markdown(
                f"**Known ε.** {known.values['repetitions']:,} audits with 100,000 canaries each attacked a Gaussian "
                "mechanism with a known ε. *Coverage* is the share of audits whose lower bound holds. It must be at "
                "least 95 % for a bound with 95 % confidence. The bound should not be far below ε. *Power at half the "
                "noise* is the share of audits that contradict this ε if the mechanism adds half the noise. The column "
                "*bound* names the condition: any mechanism, or a Gaussian mechanism, with independent canaries or not."
            )
            columns = {
                "coverage, %": whole,
                "power at half the noise, %": whole,
                "median bound": two,
                "median bound ÷ ε": two,
            }
            tables.show(messages.known_mechanisms(known.values), columns)
            _origin(known)
        if broken:
            st.markdown(
                f"**Faulty trainings.** These trainings claim ε = {broken.values['claimed']:.2f}, but protect less. "
                "The bound of an audit is the largest of the white-box attacker's lower bounds. Some of these assume "
                "DP-SGD. So it can be larger than any bound that holds without this assumption. The last row is the "
                "same training without a fault."
            )
            tables.show(messages.faulty_trainings(broken.values), {"mean bound": two})
            _origin(broken)
        st.markdown(
            "**Size of an audit.** Median bound ÷ ε on correct mechanisms with known ε, by the number of canaries. "
            "*Runs together* is the number of runs behind one joint bound. The method *count* uses the count of "
            "correct guesses on independent canaries. *Error rates*, on half of the canaries, is the method of earlier "
            "audits. *Guesses* uses the correct guesses and assumes DP-SGD. *Coverage* is the smallest over the "
            "three values of ε. With 40 repetitions, a coverage of 92.5 % is compatible with 95 %."
        )
        tables.show(messages.sizes(power.cells()), {"coverage, %": whole})
        st.caption(f"Measured by `{power.command()}`.")


def _origin(measurement: Measurement) -> None:
    st.caption(
        f"Measured by `{measurement.command}` on {address.plain(measurement.machine)}, {measurement.created[:10]}."
    )
