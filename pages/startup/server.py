"""The dashboard's server for ``streamlit run``: Streamlit's application with our middleware and the metrics endpoint.

Before its first session Streamlit treats a folder ``pages`` as a navigation of its first version, so a link to a page
would report that the page does not exist. A call of ``st.navigation`` tells it to ignore the folder. ``app.py`` calls
it too, but only during the first session.
"""

import logging
import os
import signal
import threading
import time

import streamlit as st
from starlette.middleware import Middleware

from engine.serve import GRACE, LAUNCHER_PIPE
from engine.settings import REPOSITORY
from pages.startup import metrics_endpoint
from pages.startup.origins import OwnOrigin
from pages.startup.security_headers import Guard

logging.disable(logging.WARNING)  # Streamlit warns about a call outside of a session
st.navigation([st.Page(lambda: None, title="No page", url_path="none")])
logging.disable(logging.NOTSET)

app = st.App(
    REPOSITORY / "app.py", routes=[metrics_endpoint.ROUTE], middleware=[Middleware(OwnOrigin), Middleware(Guard)]
)


def end_with_launcher(descriptor: int) -> None:
    """End this process when its launcher has ended: then the launcher's end of the pipe is closed.

    Args:
        descriptor: The pipe's reading end.
    """
    os.read(descriptor, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os.kill(os.getpid(), signal.SIGKILL)


if LAUNCHER_PIPE in os.environ:
    threading.Thread(target=end_with_launcher, args=(int(os.environ[LAUNCHER_PIPE]),), daemon=True).start()
