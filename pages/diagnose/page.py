"""Diagnose: why training under DP breaks, for any run and for the two questions that the paper leaves open."""

import streamlit as st

from pages.diagnose import tabs
from pages.shared import seeded_noise_notice, session, titles

QUESTIONS = ("Does a CRF suffer more?", "Does training in phases collapse?", "Any run, record by record")

app = session.application()
asked = st.query_params.get("run")
left, right = st.columns([3, 1], vertical_alignment="bottom")
left.markdown("### Why does it break?")
corpus = right.selectbox("Corpus", ["conll2003", "synthetic"], format_func=titles.corpus)
first, second, third = st.tabs(QUESTIONS, default=QUESTIONS[2] if asked else QUESTIONS[0])
with first:
    st.caption("The paper sees the CRF lose under DP what the dense layer (TDDL) keeps, and leaves open why.")
    tabs.crf(app, corpus)
with second:
    st.caption("The paper sees F1 drop after 60 % of the data when each client adds noise, and leaves open why.")
    tabs.phases(app, corpus)
with third:
    tabs.any_run(app, asked)
seeded_noise_notice.caption()
