"""Who has never been here is greeted, once for each browser: a cookie says that it was done.

It holds nothing but that, and stays in this browser and on its way to this server.
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
    """Whether nobody has been greeted in this browser yet."""
    return _COOKIE not in st.context.cookies and _GREETED not in st.session_state


def greet_no_more() -> None:
    """Not in this session, and not in this browser, once :func:`remember` has been drawn."""
    st.session_state[_GREETED] = True


def remember() -> None:
    """Have the browser keep it, where it does not yet."""
    if _GREETED in st.session_state and _COOKIE not in st.context.cookies:
        _component()(key="greeted_cookie", height=1)
