"""Epsilon Explorer: navigation, and the error message of a page that fails. `make run` starts it."""

from typing import Any

import streamlit as st

from engine import PLAIN_VERSION, PRIVATE_VERSION, VERSION
from engine.errors import EpsilonError
from pages.shared import address, script_scheduler, session
from pages.startup import glossary_tooltips, last_page, old_links, setup_status, sign_in, theme

st.set_page_config(page_title="Epsilon Explorer", page_icon="static/mark.svg", layout="wide")
st.logo("static/wordmark.svg", size="large", icon_image="static/mark.svg")

WITHOUT_RUNS = {"Assumptions", "Check a claim", "Glossary", "Home", "Lessons", "Performance", "Privacy budget"}
"""Titles of pages that do not wait for the published runs; a part of such a page may."""


def _page(name: str, title: str, icon: str | None = None, folder: str = "", **more: Any) -> st.Page:
    """Return the page at the address ``/name``; ``folder`` has its files if its name differs."""
    return st.Page(f"pages/{folder or name}/page.py", title=title, icon=icon, url_path=name, **more)


person = sign_in.required()
RESEARCH = [
    _page("paper", "Replication: Jana & Biemann 2021 (CoNLL-2003)", visibility="hidden"),
    _page("medical", "Replication: FedNER 2020 (medical)", visibility="hidden"),
    _page("speed", "Performance", visibility="hidden"),
]
"""Pages that the footer offers."""
GROUPS = {
    "": [_page("", "Home", ":material/home:", folder="home", default=True), *RESEARCH],
    "Learn": [
        _page("learn", "Lessons", ":material/school:", folder="learn"),
        _page("try", "Tag text", ":material/edit_note:", folder="try_it"),
        _page("glossary", "Glossary", ":material/menu_book:"),
    ],
    "Experiment": [
        _page("explore", "Explore", ":material/query_stats:"),
        _page("runs", "Runs", ":material/list:"),
        _page("compare", "Compare", ":material/stacked_line_chart:"),
        _page("diagnose", "Training diagnostics", ":material/troubleshoot:"),
        _page("practice", "Recommended settings", ":material/stairs:"),
        _page("planner", "Planner", ":material/flag:"),
        _page("frontier", "Pareto frontier", ":material/show_chart:"),
        _page("tuning", "Hyperparameter search", ":material/tune:"),
    ],
    "Assure": [
        _page("claim", "Check a claim", ":material/fact_check:"),
        _page("assumptions", "Assumptions", ":material/account_balance:"),
        # Address of Assumptions up to version 0.7.0.
        _page("ledger", "Assumptions", ":material/account_balance:", folder="assumptions", visibility="hidden"),
        _page("audit", "Privacy audit", ":material/policy:"),
        _page("report", "Privacy report", ":material/verified_user:"),
        _page("budget", "Privacy budget", ":material/savings:"),
    ],
}
if person:
    GROUPS["Account"] = [_page("account", address.plain(person.name), ":material/account_circle:")]
with script_scheduler.turn(poll=False):
    page = st.navigation(GROUPS, position="top")
    title = person.name if person and page.url_path == "account" else page.title
    last_page.reopen(page, [each for pages in GROUPS.values() for each in pages])
    st.set_page_config(page_title="Epsilon Explorer" if page.url_path == "" else f"{title} · Epsilon Explorer")
    theme.apply(title, group=next(index for index, pages in enumerate(GROUPS.values()) if page in pages))
    glossary_tooltips.mount()
    last_page.remember(page)
    setup_status.show()
    old_links.apply()
    try:
        if page.title not in WITHOUT_RUNS and page not in GROUPS.get("Account", ()):
            session.read_published()
        page.run()
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
    with st.container(horizontal=True, key="footer"):
        for research in RESEARCH:
            st.page_link(research, label=research.title)
    st.caption(
        f"Epsilon Explorer {VERSION} · engine (training code): version {PRIVATE_VERSION} with noise, version "
        f"{PLAIN_VERSION} without noise"
    )
