"""Support for the browser's back and forward buttons.

When the user goes back, the pinned Streamlit reruns the page with the address that the user left. Reloading the page
opens the view of the new address. It is as cheap as any first view, and loses no run, since runs do not depend on the
page.
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
    """Reload the page when the user goes back or forward."""
    _component()(key="back", height=1)
