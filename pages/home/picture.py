"""The picture of page Home: a letter with the names that taggers find, and F1, at the ε that a user drags.

The browser draws it without the server. Its values are those of published runs: ``python -m benchmarks.home_picture``
writes them to ``picture.json``.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2.types import ComponentRenderer

from engine.tagging.examples import examples
from pages.shared import palette

VALUES = Path(__file__).with_name("picture.json")
_SCRIPT = Path(__file__).with_name("picture.js")
_START = 0.76
"""ε at first, the one of the paper's main result."""
_SERIES = {
    "paper": ("Settings of a published paper (2021)", "published paper", palette.F1, "6 4"),
    "recommended": ("Recommended settings of this program", "recommended", palette.PRIVATE, ""),
}
"""Title, label, colour and dash of each series."""
_HTML = """
<div class="picture">
  <div class="letters"></div>
  <div class="control">
    <label for="epsilon">Drag ε, the limit on what the tagger reveals about one sentence:</label> <output></output>
  </div>
  <svg role="img" aria-label="F1 against ε, for both settings"></svg>
  <input id="epsilon" type="range" min="0" max="1000" step="1">
</div>
"""
_STYLE = """
  .picture { font: 400 1rem/1.55 var(--st-font); color: var(--st-text-color); }
  .letters { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 0.8rem; }
  article { border: 1px solid var(--st-border-color); border-radius: var(--st-base-radius); padding: 0.7rem 0.9rem; }
  h3 { font-size: 1.05rem; font-weight: 600; margin: 0; }
  p { margin: 0.15rem 0 0; }
  .result { font-weight: 600; font-variant-numeric: tabular-nums; }
  .text { white-space: pre-line; font-size: 0.92rem; margin-top: 0.4rem; }
  mark {
    color: inherit; padding: 0.05em 0.15em; border-radius: 0.25em;
    background: color-mix(in srgb, var(--colour) calc(var(--found) * 0.55), transparent);
    box-shadow: inset 0 -2px color-mix(in srgb, var(--colour) var(--found), transparent);
  }
  mark.missed { text-decoration: underline dashed 1.5px; text-underline-offset: 0.25em; }
  .control { margin-top: 0.9rem; }
  output { font-weight: 600; font-variant-numeric: tabular-nums; }
  input { width: 100%; margin: 0; height: 1.6rem; accent-color: var(--st-primary-color); cursor: pointer; }
  svg { width: 100%; height: 230px; display: block; touch-action: pan-y; cursor: ew-resize; }
  svg text { font-size: 12px; fill: var(--st-text-color); }
  svg .label { font-weight: 600; font-size: 13px; }
  svg .grid { stroke: var(--st-text-color); stroke-opacity: 0.15; }
  svg .line { fill: none; stroke-width: 2.5; }
  svg .now { stroke: var(--st-text-color); stroke-opacity: 0.6; stroke-dasharray: 2 3; }
  svg .dot { stroke: var(--st-background-color); stroke-width: 2; }
"""


@cache
def values() -> dict[str, Any]:
    """Return the title of the letter and, by series, the points of published runs.

    A point has ``epsilon`` (null without noise), ``f1`` on the test set, and ``found``: for each name of the letter 1
    if the tagger of the first run finds it, else 0.
    """
    read: dict[str, Any] = json.loads(VALUES.read_text(encoding="utf-8"))
    return read


@cache
def _drawn() -> dict[str, Any]:
    read = values()
    letter = examples()[read["letter"]]
    return {
        "text": letter.text,
        "names": [
            {"start": name.start, "end": name.end, "colour": palette.ENTITIES[name.type]} for name in letter.names
        ],
        "series": [
            {"title": title, "short": label, "colour": colour, "dash": dash, "points": read["series"][name]}
            for name, (title, label, colour, dash) in _SERIES.items()
        ],
        "start": _START,
    }


@st.cache_resource(show_spinner=False)
def _component() -> ComponentRenderer:
    """Register the component once in each server."""
    return st.components.v2.component("home_picture", html=_HTML, css=_STYLE, js=_SCRIPT.read_text(encoding="utf-8"))


def show() -> None:
    """Show the picture."""
    _component()(key="home_picture", data=_drawn())
