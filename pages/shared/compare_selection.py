"""Configurations that the page Compare shows. They are in the session, so that other pages can select some."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import streamlit as st

from engine.config import SimulationConfig
from pages.shared import titles
from pages.shared.group_by_config import seedless

MOST = 8
"""Maximum number of configurations in one chart: more curves cannot be distinguished."""
_KEY, _LINK = "compared", "runs"


def ask(configs: Iterable[SimulationConfig]) -> None:
    """Select these configurations for Compare, whatever their seeds, up to the maximum number."""
    asked = dict.fromkeys(titles.setting(seedless(config)) for config in configs)
    st.session_state[_KEY] = list(asked)[:MOST]


def choose(known: Mapping[str, Collection[str]], usual: Sequence[str]) -> list[str]:
    """Show the choice of configurations and return the chosen ones, by title.

    Another page or a link selects the initial ones, as far as they exist. The address becomes a link to the choice.

    Args:
        known: Run identities of each configuration, by title.
        usual: Configurations that are selected by default.
    """
    linked = st.query_params.get(_LINK, "").split(",")
    by_link = [name for name, runs in known.items() if not set(linked).isdisjoint(runs)]
    asked = st.session_state.get(_KEY, by_link or usual)
    st.session_state[_KEY] = [name for name in asked if name in known][:MOST]
    chosen = st.multiselect("Configurations", sorted(known), max_selections=MOST, key=_KEY)
    if set(chosen) == set(usual):
        st.query_params.pop(_LINK, None)
    else:
        st.query_params[_LINK] = ",".join(min(known[name]) for name in chosen)
    return chosen
