"""Page Performance: measured training time and memory, compared with other libraries."""

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
"""Sections of the page by the name of the benchmark whose measurement they show."""

measurements = session.application().queries.measurements()
for name, part in PARTS.items():
    if name not in measurements:
        st.info(
            f"This section has no measurement yet. Run `python -m benchmarks.{name} --save`.", icon=":material/timer:"
        )
        continue
    try:
        part(measurements[name])
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        st.warning(
            address.plain(
                f"The measurement {name} cannot be shown ({type(error).__name__}: {error}). Run its benchmark again."
            ),
            icon=":material/warning:",
        )
