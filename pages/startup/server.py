"""The dashboard's server for ``streamlit run``: Streamlit's application with our middleware and the metrics endpoint.

Before its first session Streamlit treats a folder ``pages`` as a navigation of its first version, so a link to a page
would report that the page does not exist. A call of ``st.navigation`` tells it to ignore the folder. ``app.py`` calls
it too, but only during the first session.
"""

import logging
from contextlib import suppress

import streamlit as st
from starlette.middleware import Middleware
from streamlit.watcher import polling_path_watcher

from engine import launcher_pipe
from engine.errors import InvalidConfig
from engine.settings import REPOSITORY, Settings
from pages.startup import metrics_endpoint, warm_up
from pages.startup.gate import Gate
from pages.startup.origins import OwnOrigin
from pages.startup.security_headers import Guard

WATCH_SECONDS = 1.0
"""Seconds between two checks of a configuration or secrets file; the server's end waits for one of them."""

# Even with fileWatcherType = "none", Streamlit checks its configuration files five times a second. That is half of the
# processor time of an idle server. No setting changes the period.
polling_path_watcher._POLLING_PERIOD_SECS = WATCH_SECONDS  # type: ignore[misc]

logging.disable(logging.WARNING)  # Streamlit warns about a call outside of a session
st.navigation([st.Page(lambda: None, title="No page", url_path="none")])
logging.disable(logging.NOTSET)

app = st.App(
    REPOSITORY / "app.py",
    routes=[metrics_endpoint.ROUTE],
    middleware=[Middleware(Guard), Middleware(OwnOrigin), Middleware(Gate)],
)

with suppress(InvalidConfig):  # each page shows the error
    if Settings.from_environment().access:
        # Imported here, because a server without sign-in does not need it.
        from pages.startup import identity_provider

        identity_provider.share_tls_context()
launcher_pipe.end_with_launcher()
warm_up.start()
