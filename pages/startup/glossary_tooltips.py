"""Tooltips with the glossary's entries for all terms in the text of a page."""

from pathlib import Path

import streamlit as st
from streamlit.components.v2.types import ComponentRenderer

from pages.shared import glossary

_SCRIPT = Path(__file__).with_name("glossary_tooltips.js")
_MARKED = """
  ::highlight(terms) {
    text-decoration: underline dotted 1px; text-decoration-color: color-mix(in srgb, currentColor 55%, transparent);
    text-underline-offset: 0.2em;
  }
  .on-term, .on-term * { cursor: help !important; }
  .stElementContainer:has(> .st-key-terms), .st-key-terms { position: absolute; height: 0; overflow: hidden; }
"""
_HTML = """
<div class="words" role="toolbar" aria-label="Terms explained on this page"></div>
<div class="card" popover="manual" role="dialog" aria-labelledby="term" aria-describedby="text" tabindex="-1">
  <h2 id="term"></h2>
  <p id="text" class="text"></p>
  <p class="small"><span class="source"></span> · <a href="glossary" target="_blank" rel="noopener">Glossary</a></p>
</div>
"""
_STYLE = """
  .words button {
    position: fixed; left: -99px; width: 1px; height: 1px; opacity: 0; padding: 0; border: 0; background: none;
  }
  .words button:focus-visible {
    opacity: 1; outline: 3px solid var(--st-text-color); outline-offset: 1px; border-radius: 3px;
  }
  .card {
    position: fixed; inset: auto; margin: 0; box-sizing: border-box; width: min(22rem, calc(100vw - 1rem));
    max-height: calc(100vh - 1rem); overflow: auto; padding: 0.75rem 0.9rem;
    font: 400 0.95rem/1.5 var(--st-font); color: var(--st-text-color); background: var(--st-background-color);
    border: 1px solid var(--st-border-color); border-radius: var(--st-base-radius);
    box-shadow: 0 4px 18px rgb(0 0 0 / 25%);
  }
  .card:focus { outline: none; }
  .card:focus-visible { outline: 2px solid var(--st-text-color); }
  .card h2 { margin: 0 0 0.3rem; font-size: 1rem; font-weight: 600; }
  .card p { margin: 0 0 0.4rem; }
  .card .small { margin: 0; font-size: 0.8rem; opacity: 0.8; }
  .card a { color: inherit; }
  @media print { .card { display: none; } }
"""


@st.cache_resource(show_spinner=False)
def _component() -> ComponentRenderer:
    return st.components.v2.component("terms", html=_HTML, css=_STYLE, js=_SCRIPT.read_text(encoding="utf-8"))


def mount() -> None:
    """Add the component to a page, once and before the page's content."""
    st.html(f"<style>{_MARKED}</style>")
    entries = [
        {"term": entry.term, "text": entry.text, "source": entry.source, "forms": entry.forms}
        for entry in glossary.entries()
    ]
    _component()(key="terms", data={"entries": entries}, height=1)
