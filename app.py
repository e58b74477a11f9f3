"""Epsilon Explorer: navigation and error messages of all pages. `make run` starts it."""

from typing import Any

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from engine import PLAIN_VERSION, PRIVATE_VERSION, VERSION
from engine.errors import EpsilonError
from pages.shared import address
from pages.startup import glossary_tooltips, setup_status, sign_in, theme

st.set_page_config(page_title="Epsilon Explorer", page_icon="static/mark.svg", layout="wide")
st.logo("static/wordmark.svg", size="large", icon_image="static/mark.svg")


def _page(name: str, title: str, icon: str, folder: str = "", **more: Any) -> StreamlitPage:
    """Return a page at the address ``/name``.

    Args:
        name: Path of the page's address.
        title: Title in the menu and in the browser's tab.
        icon: Material icon.
        folder: Folder of its files below ``pages``, where it differs from ``name``.
        more: Further arguments of ``st.Page``.

    """
    return st.Page(f"pages/{folder or name}/page.py", title=title, icon=icon, url_path=name, **more)


person = sign_in.required()
# Grouped by the user's task.
GROUPS = {
    # At the root, and under its own name as all other pages.
    "": [
        _page("", "Explore", ":material/query_stats:", folder="explore", default=True),
        _page("explore", "Explore", ":material/query_stats:", visibility="hidden"),
    ],
    "Learn": [
        _page("learn", "Learn", ":material/school:"),
        _page("try", "Tag text", ":material/edit_note:", folder="try_it"),
    ],
    "Results": [
        _page("runs", "Runs", ":material/list:"),
        _page("compare", "Compare", ":material/stacked_line_chart:"),
        _page("frontier", "Pareto frontier", ":material/show_chart:"),
        _page("planner", "Planner", ":material/flag:"),
        _page("practice", "Recommended settings", ":material/stairs:"),
        _page("diagnose", "Training diagnostics", ":material/troubleshoot:"),
    ],
    "Replications": [
        _page("paper", "Replication: Jana & Biemann 2021 (CoNLL-2003)", ":material/newspaper:"),
        _page("medical", "Replication: FedNER 2020 (medical)", ":material/local_hospital:"),
    ],
    "Privacy": [
        _page("assumptions", "Assumptions", ":material/account_balance:"),
        # The page's former address, so that old links open.
        _page("ledger", "Assumptions", ":material/account_balance:", folder="assumptions", visibility="hidden"),
        _page("audit", "Privacy audit", ":material/policy:"),
        _page("report", "Privacy report", ":material/verified_user:"),
        _page("budget", "Privacy budget", ":material/savings:"),
    ],
    "Reference": [
        _page("tuning", "Hyperparameter search", ":material/tune:"),
        _page("speed", "Performance", ":material/timer:"),
        _page("glossary", "Glossary", ":material/menu_book:"),
    ],
}
if person:
    GROUPS["Account"] = [_page("account", person.name, ":material/account_circle:")]
page = st.navigation(GROUPS, position="top")
st.set_page_config(page_title="Epsilon Explorer" if page.url_path == "" else f"{page.title} · Epsilon Explorer")
theme.apply(page.title, here=next(place for place, pages in enumerate(GROUPS.values()) if page in pages))
glossary_tooltips.open_where_they_stand()
setup_status.show()
try:
    page.run()
except EpsilonError as error:
    st.error(address.plain(str(error)), icon=":material/error:")
st.caption(f"Epsilon Explorer {VERSION} · engine {PRIVATE_VERSION} with noise, {PLAIN_VERSION} without")
