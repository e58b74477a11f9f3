"""Class mode for a projector: large type, no header or sidebar, arrow keys, and a QR code of the link."""

from urllib.parse import urlencode, urlsplit

import streamlit as st
from streamlit.components.v2.types import ComponentRenderer

from pages.learn import qr

_STYLE = """
  html { font-size: 20px !important; }
  [data-testid="stHeader"], [data-testid="stSidebar"], [data-testid="stToolbar"] { display: none !important; }
  .stMainBlockContainer { padding-top: 1.2rem; max-width: 1400px; }
  .qr { display: block; width: min(100%, 15rem); }
"""
_KEYS = """
export default function () {
  const own = "input, textarea, select, [contenteditable], [role=slider], [role=tab], [role=radio], [role=combobox], " +
    "[role=listbox], [role=grid]";  // elements with their own arrow keys
  const press = event => {
    const key = { ArrowLeft: "lesson_back", ArrowRight: "lesson_next" }[event.key];
    const held = event.altKey || event.ctrlKey || event.metaKey || event.shiftKey;
    if (!key || held || event.defaultPrevented || event.target.closest?.(own)) return;
    document.querySelector(`.st-key-${key} button`)?.click();
  };
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}
"""


@st.cache_resource(show_spinner=False)
def _keys() -> ComponentRenderer:
    return st.components.v2.component("arrow_keys", js=_KEYS)


def begin() -> None:
    """Hide header and sidebar, and bind ← and → to the previous and the next lesson."""
    st.html(f"<style>{_STYLE}</style>")
    _keys()(key="arrow_keys", height=1)


def share(polls: bool) -> None:
    """Show the link of the page as a QR code, or the reason why phones cannot open it.

    Args:
        polls: Whether this dashboard allows polls.
    """
    fields = [(name, value) for name in st.query_params for value in st.query_params.get_all(name)]
    link = f"{st.context.url or ''}?{urlencode(fields)}"
    if on_this_machine(link):
        advice = "" if polls else " To collect guesses from phones, start the dashboard with EPSILON_POLL_ADDRESS=8600."
        st.caption(f"This page's link opens on this machine only: <{link}>.{advice}")
    else:
        show_qr_code(link)


def show_qr_code(link: str) -> None:
    """Show a link for phones as a QR code and as text."""
    st.html(qr.image(link))
    st.markdown(f"**<{link}>**")


def on_this_machine(link: str) -> bool:
    """Return whether the host of a link is the local machine, so that other machines cannot open it."""
    host = urlsplit(link).hostname or "localhost"
    return host == "localhost" or host.endswith(".localhost") or host == "::1" or host.startswith("127.")
