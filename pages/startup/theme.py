"""Styles that the theme in ``.streamlit/config.toml`` cannot set."""

import html

import streamlit as st
from streamlit.components.v2.types import ComponentRenderer

_STYLE = """
  .stMainBlockContainer { padding-top: 4rem; padding-bottom: 2rem; max-width: 1100px; }
  .stMain h3 { text-wrap: balance; padding-top: 0; }
  [data-testid="stExpandSidebarButton"] { width: auto; }
  [data-testid="stExpandSidebarButton"]::after { content: "Menu"; margin-left: 0.4rem; }
  [data-testid="stPopoverButton"]:is(:hover, :active, [aria-expanded="true"]) { color: inherit !important; }
  [data-testid="stCaptionContainer"] { color: inherit; opacity: 0.78; }
  .stCheckbox label * { white-space: normal; overflow: visible; }
  .stMultiSelect [data-baseweb="tag"], .stMultiSelect [data-baseweb="tag"] span { max-width: 100%; }
  .stElementContainer:has(.page-title),
  :is(.st-key-quiet_icons, .st-key-arrow_keys, .st-key-last_page, .stMain .st-key-back) {
    position: absolute; height: 0; overflow: hidden;
  }
  .page-title { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  a:focus-visible, button:focus-visible, summary:focus-visible {
    outline: 3px solid currentColor !important; outline-offset: 2px;
  }
  @media print {
    [data-testid="stSidebar"], [data-testid="stHeader"], [data-testid="stToolbar"] { display: none !important; }
    .stMainBlockContainer { max-width: none; padding: 0; }
  }
  @media (max-width: 640px) {
    .stMainBlockContainer { padding-left: 1rem; padding-right: 1rem; }
    [data-testid="stButtonGroup"] > div:last-child { flex-wrap: wrap; }
    [data-testid="stButtonGroup"] button { padding-inline: 0.6rem; }
  }
"""
_OPEN_GROUP = """
  .rc-overflow > .rc-overflow-item:nth-child(%d) [data-testid="stTopNavSection"] {
    background-color: color-mix(in srgb, currentColor 8%%, transparent); font-weight: 600;
  }
"""
"""Highlight of the open page's group in the navigation bar, which shows no pages of groups.

It has the style that Streamlit gives to an open page.
"""


_QUIET_ICONS = """
export default function () {
  const hush = () => document.querySelectorAll('[data-testid="stIconMaterial"]:not([aria-hidden])')
    .forEach(icon => icon.setAttribute("aria-hidden", "true"));
  const watch = new MutationObserver(hush);
  watch.observe(document.body, { childList: true, subtree: true });
  hush();
  return () => watch.disconnect();
}
"""
"""Hides icons from screen readers: an icon is a word in an icon font, which they would read aloud."""


@st.cache_resource(show_spinner=False)
def _quiet_icons() -> ComponentRenderer:
    return st.components.v2.component("quiet_icons", js=_QUIET_ICONS)


def apply(title: str, group: int) -> None:
    """Apply the styles to a page; the headline and its chart fit on a laptop's screen together.

    Args:
        title: Title of the page, for screen readers.
        group: Index of the page's group in the navigation; 0 for pages that are in the bar themselves.
    """
    st.html(f"<style>{_STYLE}{_OPEN_GROUP % (group + 1) if group else ''}</style>")
    st.html(f'<h1 class="page-title">{html.escape(title)}</h1>')
    _quiet_icons()(key="quiet_icons", height=1)
