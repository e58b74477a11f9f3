"""The notice on seeded noise, for each page that shows the ε of runs."""

import streamlit as st

SEEDED = (
    "By default noise is seeded, so that runs are reproducible. The seed is public, so a seeded model is not "
    "protected: its ε holds for the same training with secret keys. To release a model, set *Noise source* to "
    "*System* (*Advanced* on [Explore](/))."
)


def caption() -> None:
    """Show the notice."""
    st.caption(SEEDED)
