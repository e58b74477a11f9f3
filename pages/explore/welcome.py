"""The greeting of a first visit, with a link to the lessons."""

import streamlit as st

from pages.shared import first_visit


def show() -> None:
    """Show the greeting until the user dismisses it or opens the lessons."""
    if first_visit.is_here():
        with st.container(horizontal=True, vertical_alignment="center", key="greeting"):
            st.markdown("New here? ε measures how much a model can reveal.", width="content")
            st.page_link("pages/learn/page.py", label="Start a ten-minute lesson", icon=":material/school:")
            st.button(
                "Dismiss", type="tertiary", icon=":material/close:", key="knows", on_click=first_visit.greet_no_more
            )
    first_visit.remember()
