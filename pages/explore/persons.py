"""Group privacy of a person who is named in several sentences; part of *What does this ε mean?*"""

import math

import streamlit as st

from engine.config import SimulationConfig
from engine.errors import EpsilonError
from engine.records import PrivacySpent, RoundRecord
from engine.service import Application
from pages.explore import guarantee
from pages.shared import address

MOST = 50
"""Maximum number of sentences on the slider."""
_USUAL = 10
"""Initial number of sentences on the slider."""


def show(app: Application, config: SimulationConfig, privacy: PrivacySpent, last: RoundRecord | None) -> None:
    """Show the ε of a person, for a number of sentences that the user chooses.

    Args:
        app: The application service.
        config: The configuration.
        privacy: Privacy of one sentence, as the page shows it: spent up to ``last``, or planned.
        last: Last record of the run, or None before it starts.
    """
    if math.isinf(privacy.epsilon):
        return
    if reason := guarantee.no_person(config):
        st.markdown(reason)
        return
    size = st.slider("Sentences that name one person", 1, MOST, _USUAL, key="person_sentences", persist_state="session")
    try:
        with st.spinner("Computing ε …"):
            st.markdown(guarantee.person(size, _epsilon(app, config, size, privacy, last)))
            if longest := app.previews.longest_document(config.corpus):
                epsilon = _epsilon(app, config, longest, privacy, last)
                st.caption(f"The longest document of this corpus has {longest:,} sentences: {guarantee.odds(epsilon)}")
    except EpsilonError as error:
        st.caption(address.plain(str(error)))
    st.caption(guarantee.worst_person(privacy, config))


def _epsilon(
    app: Application, config: SimulationConfig, size: int, privacy: PrivacySpent, last: RoundRecord | None
) -> float:
    """Return the ε of ``size`` sentences: at least the ε of one sentence, as the page shows it."""
    group_epsilon = app.previews.person_epsilon(config, size, last) if size > 1 else None
    return max(group_epsilon or 0.0, privacy.epsilon)
