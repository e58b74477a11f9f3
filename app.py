"""Epsilon Explorer: navigation, and what is said where a page cannot go on. `make run` starts it."""

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from engine import PLAIN_VERSION, PRIVATE_VERSION, VERSION
from engine.errors import EpsilonError
from pages.shared import address
from pages.startup import look, set_up

st.set_page_config(page_title="Epsilon Explorer", page_icon="static/mark.svg", layout="wide")
st.logo("static/wordmark.svg", size="large", icon_image="static/mark.svg")


def _page(name: str, title: str, icon: str) -> StreamlitPage:
    """One page, at the address ``/name``; Explore is at the root."""
    return st.Page(f"pages/{name}/page.py", title=title, icon=icon, url_path=name, default=name == "explore")


# By what people come for. Learn will stand after Explore, and Trust after Papers, once they have pages.
GROUPS = {
    "": [_page("explore", "Explore", ":material/query_stats:")],
    "Results": [
        _page("runs", "Runs", ":material/list:"),
        _page("compare", "Compare", ":material/stacked_line_chart:"),
        _page("frontier", "Frontier", ":material/show_chart:"),
        _page("practice", "Good practice", ":material/stairs:"),
        _page("diagnose", "Diagnose", ":material/troubleshoot:"),
    ],
    "Papers": [_page("paper", "News: Jana and Biemann 2021", ":material/newspaper:")],
    "Reference": [
        _page("tuning", "Tuning", ":material/tune:"),
        _page("speed", "Speed", ":material/timer:"),
    ],
}
page = st.navigation(GROUPS, position="top")
st.set_page_config(page_title="Epsilon Explorer" if page.url_path == "" else f"{page.title} · Epsilon Explorer")
look.apply(page.title, here=next(place for place, pages in enumerate(GROUPS.values()) if page in pages))
set_up.show()
try:
    page.run()
except EpsilonError as error:
    st.error(address.plain(str(error)), icon=":material/error:")
st.caption(f"Epsilon Explorer {VERSION} · engine {PRIVATE_VERSION} with noise, {PLAIN_VERSION} without")
