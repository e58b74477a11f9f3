"""What the theme in ``.streamlit/config.toml`` cannot say."""

import streamlit as st

_STYLE = """
  .stMainBlockContainer { padding-top: 4rem; padding-bottom: 2rem; max-width: 1100px; }
  .stMain h3 { text-wrap: balance; padding-top: 0; }
  [data-testid="stExpandSidebarButton"] { width: auto; }
  [data-testid="stExpandSidebarButton"]::after { content: "Menu"; margin-left: 0.4rem; }
  [data-testid="stPopoverButton"]:is(:hover, :active, [aria-expanded="true"]) { color: inherit !important; }
  .stMultiSelect [data-baseweb="tag"], .stMultiSelect [data-baseweb="tag"] span { max-width: 100%; }
  @media (max-width: 640px) { .stMainBlockContainer { padding-left: 1rem; padding-right: 1rem; } }
"""
_OPEN_GROUP = """
  .rc-overflow > .rc-overflow-item:nth-child(%d) [data-testid="stTopNavSection"] {
    background-color: color-mix(in srgb, currentColor 8%%, transparent); font-weight: 600;
  }
"""
"""A page in a group is not to be seen in the bar above: its group's name is marked, as Streamlit marks a page."""


def apply(here: int) -> None:
    """Use the height of the window: the answer and its picture fit on a laptop's screen together. here: which group of
    the navigation the page is in, 0 for the pages that stand in the bar by themselves."""
    st.html(f"<style>{_STYLE}{_OPEN_GROUP % (here + 1) if here else ''}</style>")
