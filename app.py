"""Epsilon Explorer: navigation, and the error message of a page that fails. `make run` starts it."""

from typing import Any

import streamlit as st

from engine import PLAIN_VERSION, PRIVATE_VERSION, VERSION
from engine.errors import EpsilonError
from pages.shared import address, script_scheduler, session
from pages.startup import glossary_tooltips, old_links, setup_status, sign_in, theme

st.set_page_config(page_title="Epsilon Explorer", page_icon="static/mark.svg", layout="wide")
st.logo("static/wordmark.svg", size="large", icon_image="static/mark.svg")

WITHOUT_RUNS = {"Assumptions", "Glossary", "Learn", "Performance", "Privacy budget"}
"""Titles of pages that do not wait for the published runs; a part of such a page may."""


def _page(name: str, title: str, icon: str, folder: str = "", **more: Any) -> st.Page:
    """Return the page at the address ``/name``; ``folder`` has its files if its name differs."""
    return st.Page(f"pages/{folder or name}/page.py", title=title, icon=icon, url_path=name, **more)


person = sign_in.required()
GROUPS = {
    # Explore has two addresses: the root, and /explore like all other pages.
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
        # Address of Assumptions up to version 0.7.0.
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
    GROUPS["Account"] = [_page("account", address.plain(person.name), ":material/account_circle:")]
with script_scheduler.turn(poll=False):
    page = st.navigation(GROUPS, position="top")
    title = person.name if person and page.url_path == "account" else page.title
    st.set_page_config(page_title="Epsilon Explorer" if page.url_path == "" else f"{title} · Epsilon Explorer")
    theme.apply(title, group=next(index for index, pages in enumerate(GROUPS.values()) if page in pages))
    glossary_tooltips.mount()
    setup_status.show()
    old_links.apply()
    try:
        if page.title not in WITHOUT_RUNS and page not in GROUPS.get("Account", ()):
            session.read_published()
        page.run()
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
    st.caption(
        f"Epsilon Explorer {VERSION} · engine (training code): version {PRIVATE_VERSION} with noise, version "
        f"{PLAIN_VERSION} without noise"
    )
