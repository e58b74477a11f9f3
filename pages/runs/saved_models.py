"""The taggers that finished runs have kept: how many, how large, and how to be rid of them."""

import streamlit as st

from engine.errors import EpsilonError
from engine.service import Application
from pages.shared import address


def show(app: Application) -> None:
    """A line below the list. Nothing where no tagger was kept."""
    sizes = app.models.sizes()
    if not sizes:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(summary(sizes))
        with st.popover("Remove all taggers", icon=":material/folder_delete:"):
            st.markdown("Runs and their records stay. A run gives its tagger again when it is run again.")
            if st.button("Remove", type="primary", key="remove_taggers"):
                _remove(app)


def summary(sizes: dict[str, int]) -> str:
    """How many taggers there are, and what they take; sizes: bytes of each, by its run."""
    number = "the tagger of one run" if len(sizes) == 1 else f"the taggers of {len(sizes):,} runs"
    return f"Kept beside your runs: {number}, {sum(sizes.values()) / 1e6:,.1f} MB. Each goes with its run."


def _remove(app: Application) -> None:
    try:
        app.models.delete()
    except EpsilonError as error:
        st.toast(address.plain(str(error)), icon=":material/error:")
    st.rerun()
