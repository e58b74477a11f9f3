"""Start of Streamlit's server: ``python -m pages.startup.server run pages/startup/server.py …``, as ``streamlit run``.

Before its first session Streamlit treats a folder ``pages`` as a navigation of its first version, so a link to a page
would open the page without our navigation. ``app.py`` replaces that by ``st.navigation``, but only after it has run.

The server also adds security headers (:mod:`pages.startup.security_headers`) and the endpoint for metrics
(:mod:`pages.startup.metrics_endpoint`). For many sessions it throttles polls (:mod:`pages.startup.poll_throttle`),
schedules scripts (:mod:`pages.startup.script_scheduler`) and batches their messages
(:mod:`pages.startup.event_batching`).
"""

import sys

from starlette.middleware import Middleware
from streamlit.runtime.pages_manager import PagesManager
from streamlit.starlette import App
from streamlit.web.cli import main

from engine import file_access
from engine.settings import REPOSITORY
from pages.startup import event_batching, metrics_endpoint, poll_throttle, script_scheduler
from pages.startup.security_headers import Guard

app = App(REPOSITORY / "app.py", routes=[metrics_endpoint.ROUTE], middleware=[Middleware(Guard)])

if __name__ == "__main__":
    file_access.protect_process()
    PagesManager.uses_pages_directory = False
    poll_throttle.install()
    event_batching.install()
    script_scheduler.install()
    sys.exit(main())
