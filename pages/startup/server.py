"""Starts Streamlit's server: ``python -m pages.startup.server run app.py …``, as ``streamlit run`` does.

Before its first session Streamlit takes a folder ``pages`` for the navigation of its first version, and a link to a
page would open that page without ours. ``app.py`` says otherwise by ``st.navigation``, but only once it has run.
Each answer has the headers of :mod:`pages.startup.security_headers`, and :mod:`pages.startup.metrics_endpoint` has an
address of its own. Where many look, polls stand in nobody's way (:mod:`pages.startup.poll_throttle`), scripts take
turns (:mod:`pages.startup.script_scheduler`) and do not queue up at each message (:mod:`pages.startup.event_batching`).
"""

import sys

from streamlit.runtime.pages_manager import PagesManager
from streamlit.web.cli import main

from pages.startup import event_batching, metrics_endpoint, poll_throttle, script_scheduler, security_headers

if __name__ == "__main__":
    PagesManager.uses_pages_directory = False
    security_headers.install()
    metrics_endpoint.install()
    poll_throttle.install()
    event_batching.install()
    script_scheduler.install()
    sys.exit(main())
