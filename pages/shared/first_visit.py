"""The greeting of a first visit, shown once in each browser until a cookie says that the user has dismissed it.

The cookie contains nothing else. Only the browser and this server see it.
"""

import streamlit as st
from streamlit.components.v2.types import ComponentRenderer

_COOKIE, _GREETED = "epsilon_greeted", "greeted"
_YEARS = 10
_JS = f"""
export default function () {{
  document.cookie = "{_COOKIE}=yes; path=/; max-age={_YEARS * 365 * 24 * 3600}; SameSite=Lax";
}}
"""


@st.cache_resource(show_spinner=False)
def _component() -> ComponentRenderer:
    return st.components.v2.component("greeted", js=_JS)


def is_here() -> bool:
    """Return whether the greeting has not been dismissed in this browser."""
    return _COOKIE not in st.context.cookies and _GREETED not in st.session_state


def greet_no_more() -> None:
    """Dismiss the greeting for this session; :func:`remember` does so for the browser."""
    st.session_state[_GREETED] = True


def remember() -> None:
    """Set the browser's cookie if the greeting was dismissed and the cookie is missing."""
    if _GREETED in st.session_state and _COOKIE not in st.context.cookies:
        _component()(key="greeted_cookie", height=1)
