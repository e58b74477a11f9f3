"""What the theme in ``.streamlit/config.toml`` cannot say."""

import streamlit as st

_STYLE = """<style>
  .stMainBlockContainer { padding-top: 4rem; padding-bottom: 2rem; max-width: 1100px; }
  .stMain h3 { text-wrap: balance; padding-top: 0; }
  [data-testid="stExpandSidebarButton"] { width: auto; }
  [data-testid="stExpandSidebarButton"]::after { content: "Menu"; margin-left: 0.4rem; }
  [data-testid="stPopoverButton"]:is(:hover, :active, [aria-expanded="true"]) { color: inherit !important; }
  @media (max-width: 640px) { .stMainBlockContainer { padding-left: 1rem; padding-right: 1rem; } }
</style>"""


def apply() -> None:
    """Use the height of the window: the answer and its picture fit on a laptop's screen together."""
    st.html(_STYLE)
