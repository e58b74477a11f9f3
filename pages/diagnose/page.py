"""Page Training diagnostics: why F1 falls under DP, for two open questions of the paper and for any run."""

import streamlit as st

from pages.diagnose import tabs
from pages.shared import lazy_tabs, run_picker, seeded_noise_notice, session, titles

QUESTIONS = ("CRF under DP", "Phases under DP", "Run details")

app = session.application()
asked = st.query_params.get("run")
left, right = st.columns([3, 1], vertical_alignment="bottom")
left.markdown("### Why F1 falls under differential privacy")
corpus = right.selectbox("Corpus", ["conll2003", "synthetic"], format_func=titles.corpus)
default, kept = QUESTIONS[2] if asked else QUESTIONS[0], (tabs.METRIC, *run_picker.keys())
for question in lazy_tabs.opened(QUESTIONS, key="question", default=default, kept=kept):
    if question == QUESTIONS[0]:
        st.caption(
            "The paper (Jana and Biemann 2021) reports that under DP the CRF loses much of its F1 and the dense layer "
            "(TDDL) hardly any. It gives no reason."
        )
        tabs.crf(app, corpus)
    elif question == QUESTIONS[1]:
        st.caption(
            "Each client trains in phases, each time on the next part of its data. The paper (Jana and Biemann 2021) "
            "reports that F1 drops from 0.74 at 40 % of the data to 0.17 at 60 % if each client adds noise. It gives "
            "no reason."
        )
        tabs.phases(app, corpus)
    else:
        tabs.any_run(app, asked)
seeded_noise_notice.caption()
