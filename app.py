"""Epsilon Explorer: navigation, and what is said where a page cannot go on. `make run` starts it."""

import streamlit as st

from engine.errors import EpsilonError
from pages.shared import address
from pages.startup import look

st.set_page_config(page_title="Epsilon Explorer", page_icon="static/mark.svg", layout="wide")
st.logo("static/wordmark.svg", size="large", icon_image="static/mark.svg")
look.apply()
page = st.navigation(
    {
        "": [
            st.Page("pages/explore/page.py", title="Explore", icon=":material/query_stats:", default=True),
            st.Page("pages/runs/page.py", title="Runs", icon=":material/list:"),
            st.Page("pages/compare/page.py", title="Compare", icon=":material/stacked_line_chart:"),
            st.Page("pages/paper/page.py", title="Paper", icon=":material/table_chart:"),
            st.Page("pages/diagnose/page.py", title="Diagnose", icon=":material/troubleshoot:"),
            st.Page("pages/frontier/page.py", title="Frontier", icon=":material/show_chart:"),
            st.Page("pages/practice/page.py", title="Good practice", icon=":material/stairs:"),
        ],
        "Reference": [
            st.Page("pages/tuning/page.py", title="Tuning", icon=":material/tune:"),
            st.Page("pages/speed/page.py", title="Speed", icon=":material/timer:"),
        ],
    },
    position="top",
)
try:
    page.run()
except EpsilonError as error:
    st.error(address.plain(str(error)), icon=":material/error:")
