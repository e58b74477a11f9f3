"""The engine's door, opened once for all sessions of this server."""

import os
import threading

import streamlit as st

from engine.errors import EpsilonError
from engine.runs import Runs


@st.cache_resource(show_spinner=False)
def runs() -> Runs:
    """The runs of this server. What is slow to import is fetched behind the first paint."""
    opened = Runs.from_environment()
    threading.Thread(target=_behind_the_scenes, args=(opened,), daemon=True).start()
    return opened


def _behind_the_scenes(opened: Runs) -> None:
    """Runs that a crashed app left are taken up; the accountant is there when a slider moves."""
    import contextlib

    with contextlib.suppress(EpsilonError):  # the page says what is wrong with the store or the workers
        opened.resume(owner_pid=os.getpid())
    import engine.privacy.accounting as accounting

    accounting.warm_up()
