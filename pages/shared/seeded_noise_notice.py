"""What stands on each page that shows the ε of runs, beside which their seeds stand or are one click away."""

import streamlit as st

SEEDED = (
    "Where the noise of a run comes from a seed, as it does unless something else was asked for, its ε is that of a "
    "simulation: what such a training promises with secret keys. The seed is printed, so its very tagger is not "
    "protected. One to give away takes noise from the system (*Advanced* on [Explore](/))."
)


def caption() -> None:
    """Say it."""
    st.caption(SEEDED)
