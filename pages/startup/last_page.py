"""The page that a browser had last, which opens again where the browser asks for the program without a page.

A cookie has its address. Only the browser and this server see it.
"""

from urllib.parse import parse_qsl, unquote

import streamlit as st
from streamlit.components.v2.types import ComponentRenderer
from streamlit.navigation.page import StreamlitPage

COOKIE = "epsilon_last_page"
_OPENED = "opened_a_page"
_LONGEST = 2000
"""Characters of an address; a longer one is not kept."""
_JS = f"""
const write = () => {{
  const address = window.epsilonPage + location.search;
  if (address.length > {_LONGEST}) return;
  document.cookie = `{COOKIE}=${{encodeURIComponent(address)}}; path=/; max-age={365 * 24 * 3600}; SameSite=Lax`;
}};
export default function ({{ data }}) {{
  if (window.epsilonPage === undefined) {{
    window.addEventListener("pagehide", write);
    document.addEventListener("visibilitychange", write);
  }}
  window.epsilonPage = data.page;
  write();
}}
"""


@st.cache_resource(show_spinner=False)
def _component() -> ComponentRenderer:
    return st.components.v2.component("last_page", js=_JS)


def reopen(page: StreamlitPage, pages: list[StreamlitPage]) -> None:
    """Open the last page if a session begins at the home page; this stops the script.

    Args:
        page: The page that the session asks for.
        pages: All pages.
    """
    if _OPENED in st.session_state:
        return
    st.session_state[_OPENED] = True
    if page.url_path or st.query_params:
        return
    name, _, fields = unquote(str(st.context.cookies.get(COOKIE, ""))).partition("?")
    last = next((each for each in pages if each.url_path == name and name), None)
    if last:
        st.switch_page(last, query_params=dict(parse_qsl(fields)))


def remember(page: StreamlitPage) -> None:
    """Write the cookie."""
    _component()(key="last_page", data={"page": page.url_path}, height=1)
