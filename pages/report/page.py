"""Report: what a run promises, to whom and on what grounds, to read and to file."""

import streamlit as st

from engine.config import SimulationConfig
from pages.report import render
from pages.shared import run_picker, session

USUAL = SimulationConfig.from_flat({"corpus": "conll2003", "tagger": "bilstm-tddl"})

app = session.application()
st.markdown("### What does a run promise, to whom, and who checked it?")
chosen = run_picker.choose(app, st.query_params.get("run"), USUAL)
if chosen is None:
    st.caption("No run is done yet: start one on the page Explore. Its report can then be read and filed here.")
    st.stop()
asked = st.query_params.get("beside")
beside = None
if st.toggle("Beside another run", value=bool(asked), key="report_beside"):
    beside = run_picker.choose(app, asked, USUAL, key="_beside")
st.query_params.from_dict({"run": chosen.run_id} | ({"beside": beside.run_id} if beside else {}))
render.show(app, chosen, beside)
