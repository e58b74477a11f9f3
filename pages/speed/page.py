"""Speed: what private training costs in time here and elsewhere, as it was measured."""

import streamlit as st

from pages.shared import address, session
from pages.speed import parts

PARTS = {
    "step": parts.step,
    "whole_run": parts.whole_run,
    "growth": parts.growth,
    "workers": parts.workers,
    "fedner_step": parts.fedner_step,
    "fedner_table": parts.fedner_table,
    "secure_sum": parts.secure_sum,
}
"""By the benchmark whose figures they show."""

known = session.application().queries.measurements()
for name, part in PARTS.items():
    if name not in known:
        st.info(f"Not measured here yet: run `python -m benchmarks.{name} --save`.", icon=":material/timer:")
        continue
    try:
        part(known[name])
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        st.warning(
            address.plain(f"The measurement {name} cannot be shown ({type(error).__name__}: {error}); measure again."),
            icon=":material/warning:",
        )
