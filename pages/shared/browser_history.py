"""The browser's back and forward buttons.

The pinned Streamlit runs the page again when somebody goes back, but with the address that was left. Loading the page
anew opens the view of the address: as cheap as any first view, and no run is lost, since none lives in the page.
"""

import streamlit as st
from streamlit.components.v2.types import ComponentRenderer

_JS = """
export default function () {
  const reload = () => window.location.reload();
  window.addEventListener("popstate", reload);
  return () => window.removeEventListener("popstate", reload);
}
"""


@st.cache_resource(show_spinner=False)
def _component() -> ComponentRenderer:
    return st.components.v2.component("back", js=_JS)


def follow() -> None:
    """Open the view of the address when somebody goes back or forth."""
    _component()(key="back", height=1)
