"""Which settings the page Compare shows: kept in the session, so that other pages can ask for some."""

from collections.abc import Iterable, Sequence

import streamlit as st

from engine.config import SimulationConfig
from pages.shared import titles
from pages.shared.finished import seedless

MOST = 8
"""Settings that can be told apart in one picture."""
_KEY = "compared"


def ask(configs: Iterable[SimulationConfig]) -> None:
    """Show these settings next, whatever their seeds, as many as can be told apart."""
    asked = dict.fromkeys(titles.setting(seedless(config)) for config in configs)
    st.session_state[_KEY] = list(asked)[:MOST]


def choose(known: Sequence[str], usual: Sequence[str]) -> list[str]:
    """The chosen settings, by title: what was asked for at first, as far as it is known, or the usual ones."""
    asked = st.session_state.get(_KEY, usual)
    st.session_state[_KEY] = [name for name in asked if name in known]
    return st.multiselect("Settings", known, max_selections=MOST, key=_KEY)
