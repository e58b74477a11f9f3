"""The field for a target ε, which sets the noise multiplier."""

from collections.abc import Callable

import streamlit as st

from engine.config import SimulationConfig
from engine.errors import EpsilonError
from engine.service import Application
from pages.shared import address

_TARGET, _ERROR = "target_epsilon", "target_refused"


def ask(app: Application, chosen: Callable[[], SimulationConfig]) -> None:
    """Show the field; an entered ε sets the smallest σ that keeps to it.

    Args:
        app: The application service.
        chosen: Returns the configuration of all other widgets.
    """
    st.number_input(
        "Target ε",
        min_value=1e-6,
        max_value=1e6,
        value=None,
        key=_TARGET,
        placeholder="sets σ",
        format="%g",
        on_change=_set_noise,
        args=(app, chosen),
        help="Sets the noise multiplier to the smallest σ whose ε is at most this value. Other values do not change.",
    )
    if problem := st.session_state.pop(_ERROR, None):
        st.error(address.plain(problem), icon=":material/error:")


def _set_noise(app: Application, chosen: Callable[[], SimulationConfig]) -> None:
    state = st.session_state
    target = state[_TARGET]
    state[_TARGET] = None
    if target is None:
        return
    try:
        with st.spinner(f"Computing σ for ε = {target:g} …"):
            sigma = app.previews.noise_multiplier_for(chosen(), target)
    except EpsilonError as error:
        state[_ERROR] = str(error)
    else:
        state.noise_multiplier = state.exact_noise = sigma
