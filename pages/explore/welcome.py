"""One line for who is here for the first time, with two ways on."""

import streamlit as st

from pages.shared import first_visit


def show() -> None:
    """Nothing, once one of the ways was taken."""
    if first_visit.is_here():
        with st.container(horizontal=True, vertical_alignment="center", key="greeting"):
            st.markdown("New here? ε says how much may leak.", width="content")
            st.page_link("pages/learn/page.py", label="Ten minutes from the start", icon=":material/school:")
            st.button(
                "I know ε", type="tertiary", icon=":material/close:", key="knows", on_click=first_visit.greet_no_more
            )
    first_visit.remember()
