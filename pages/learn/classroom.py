"""Class mode: what is projected for many people. Large type, nothing around it, arrow keys, a QR code of the link."""

from urllib.parse import urlencode, urlsplit

import streamlit as st
from streamlit.components.v2.types import ComponentRenderer

from pages.learn import qr
from pages.shared import address

_STYLE = """
  html { font-size: 20px !important; }
  [data-testid="stHeader"], [data-testid="stSidebar"], [data-testid="stToolbar"] { display: none !important; }
  .stMainBlockContainer { padding-top: 1.2rem; max-width: 1400px; }
  .qr { display: block; width: min(100%, 15rem); }
"""
_KEYS = """
export default function () {
  const own = "input, textarea, select, [contenteditable], [role=slider], [role=tab], [role=radio], [role=combobox], " +
    "[role=listbox], [role=grid]";  // these use the arrow keys themselves
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
    """Clear the room around the lesson, and let ← and → lead from lesson to lesson."""
    st.html(f"<style>{_STYLE}</style>")
    _keys()(key="arrow_keys", height=1)


def share(polls: bool) -> None:
    """The link of what is shown now: as a QR code where a phone could open it, and why not where it could not. polls:
    whether phones can reach the poll."""
    fields = [(name, value) for name in st.query_params for value in st.query_params.get_all(name)]
    link = f"{st.context.url or ''}?{urlencode(fields)}"
    if on_this_machine(link):
        rest = "" if polls else " For guesses from phones, start the dashboard with EPSILON_POLL_ADDRESS=8600."
        st.caption(f"This page's link opens on this machine only: {address.plain(link)}.{rest}")
    else:
        code(link)


def code(link: str) -> None:
    """A link that phones can open, as a picture and in letters."""
    st.html(qr.image(link))
    st.markdown(f"**{address.plain(link)}**")


def on_this_machine(link: str) -> bool:
    """Whether a link leads to the machine that it is opened on."""
    host = urlsplit(link).hostname or "localhost"
    return host == "localhost" or host.endswith(".localhost") or host == "::1" or host.startswith("127.")
