"""Starts Streamlit's server: ``python -m pages.startup.server run app.py …``, as ``streamlit run`` does.

Before its first session Streamlit takes a folder ``pages`` for the navigation of its first version, and a link to a
page would open that page without ours. ``app.py`` says otherwise by ``st.navigation``, but only once it has run.
Each answer has the headers of :mod:`pages.startup.guard`, and :mod:`pages.startup.watch` has an address of its own.
Where many look, polls stand in nobody's way (:mod:`pages.startup.polls`), scripts take turns
(:mod:`pages.startup.turns`) and do not queue up at each message (:mod:`pages.startup.messages`).
"""

import sys

from streamlit.runtime.pages_manager import PagesManager
from streamlit.web.cli import main

from pages.startup import guard, messages, polls, turns, watch

if __name__ == "__main__":
    PagesManager.uses_pages_directory = False
    guard.stand()
    watch.stand()
    polls.stand()
    messages.stand()
    turns.stand()
    sys.exit(main())
