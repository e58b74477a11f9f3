"""The ε that somebody wants, beside the noise that gives it."""

from collections.abc import Callable

import streamlit as st

from engine.config import SimulationConfig
from engine.errors import EpsilonError
from engine.service import Application
from pages.shared import address

_WANTED, _REFUSED = "target_epsilon", "target_refused"


def ask(app: Application, chosen: Callable[[], SimulationConfig]) -> None:
    """A field for an ε; once it is filled, σ is set to what gives it. chosen: what all other widgets say."""
    st.number_input(
        "Or type the ε you want",
        min_value=1e-6,
        max_value=1e6,
        value=None,
        key=_WANTED,
        placeholder="σ is worked out",
        format="%g",
        on_change=_take,
        args=(app, chosen),
        help="Sets the noise multiplier to the smallest that costs no more, with everything else as it is.",
    )
    if problem := st.session_state.pop(_REFUSED, None):
        st.error(address.plain(problem), icon=":material/error:")


def _take(app: Application, chosen: Callable[[], SimulationConfig]) -> None:
    state = st.session_state
    wanted = state[_WANTED]
    state[_WANTED] = None
    if wanted is None:
        return
    try:
        with st.spinner(f"Computing σ for ε = {wanted:g} …"):
            sigma = app.previews.noise_multiplier_for(chosen(), wanted)
    except EpsilonError as error:
        state[_REFUSED] = str(error)
    else:
        state.noise_multiplier = state.exact_noise = sigma
