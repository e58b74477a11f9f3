"""The notice on seeded noise, for each page that shows the ε of runs."""

import streamlit as st

SEEDED = (
    "By default the noise comes from a public seed, so that runs are reproducible. Such a model is not protected. The "
    "stated ε would apply only to the same training with secret noise. To release a model, set *Noise source* to "
    "*System* (*Advanced* on [Explore](/explore))."
)


def caption() -> None:
    """Show the notice."""
    st.caption(SEEDED)
