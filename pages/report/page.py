"""Page Privacy report: the privacy guarantee of a run, its assumptions and checks, to read and to download."""

import streamlit as st

from pages.report import render
from pages.report.render import USUAL
from pages.shared import run_picker, session

app = session.application()
st.markdown("### Privacy guarantee of a run, its assumptions and its checks")
chosen = run_picker.choose(app, st.query_params.get("run"), USUAL)
if chosen is None:
    st.caption("No run is finished yet. Start one on the page Explore. You can then read and download its report here.")
    st.stop()
other_id = st.query_params.get("beside")
beside = None
if st.toggle("Compare with another run", value=bool(other_id), key="report_beside"):
    beside = run_picker.choose(app, other_id, USUAL, key="_beside")
    if beside and beside.run_id == chosen.run_id:
        st.info("Choose another configuration or seed to compare with.", icon=":material/compare_arrows:")
        beside = None
st.query_params.from_dict({"run": chosen.run_id} | ({"beside": beside.run_id} if beside else {}))
render.show(app, chosen, beside)
