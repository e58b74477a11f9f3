"""Which settings the page Compare shows: kept in the session, so that other pages can ask for some."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import streamlit as st

from engine.config import SimulationConfig
from pages.shared import titles
from pages.shared.group_by_config import seedless

MOST = 8
"""Settings that can be told apart in one picture."""
_KEY, _LINK = "compared", "runs"


def ask(configs: Iterable[SimulationConfig]) -> None:
    """Show these settings next, whatever their seeds, as many as can be told apart."""
    asked = dict.fromkeys(titles.setting(seedless(config)) for config in configs)
    st.session_state[_KEY] = list(asked)[:MOST]


def choose(known: Mapping[str, Collection[str]], usual: Sequence[str]) -> list[str]:
    """The chosen settings, by title: what was asked for at first, by another page or a link, as far as it is known, or
    the usual ones. known: the runs of each. The address becomes a link to what is chosen."""
    linked = st.query_params.get(_LINK, "").split(",")
    by_link = [name for name, runs in known.items() if not set(linked).isdisjoint(runs)]
    asked = st.session_state.get(_KEY, by_link or usual)
    st.session_state[_KEY] = [name for name in asked if name in known][:MOST]
    chosen = st.multiselect("Settings", sorted(known), max_selections=MOST, key=_KEY)
    if set(chosen) == set(usual):
        st.query_params.pop(_LINK, None)
    else:
        st.query_params[_LINK] = ",".join(min(known[name]) for name in chosen)
    return chosen
