"""The saved models of finished runs: their number, their size, and their removal."""

import streamlit as st

from engine.errors import EpsilonError
from engine.service import Application
from pages.shared import address


def show(app: Application) -> None:
    """Show a line below the list; show nothing without saved models."""
    sizes = app.models.sizes()
    if not sizes:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(summary(sizes))
        with st.popover("Remove saved models", icon=":material/folder_delete:"):
            st.markdown(
                "This removes the saved models only; runs and records stay. To recreate a model, rerun its run."
            )
            if st.button("Remove", type="primary", key="remove_taggers"):
                _remove(app)


def summary(sizes: dict[str, int]) -> str:
    """Describe the number and total size of saved models, from the bytes of each model by its run."""
    number = "the model of 1 run" if len(sizes) == 1 else f"the models of {len(sizes):,} runs"
    return f"Saved: {number}, {sum(sizes.values()) / 1e6:,.1f} MB. Deleting a run also deletes its model."


def _remove(app: Application) -> None:
    try:
        app.models.delete()
    except EpsilonError as error:
        st.toast(address.plain(str(error)), icon=":material/error:")
    st.rerun()
