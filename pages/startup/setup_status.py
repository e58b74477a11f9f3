"""That set-up goes on behind the pages, how far it is, and what it could not do."""

import streamlit as st

from engine import setup_status
from engine.setup_status import Progress
from pages.shared import address

POLL_SECONDS = 2.0


def show() -> None:
    """A sentence above the page; nothing, and nothing that polls, where all is there."""
    progress = setup_status.look()
    if progress and progress.under_way:
        st.fragment(_going_on, run_every=POLL_SECONDS)()
    elif progress:
        for sentence in sentences(progress):
            st.warning(address.plain(sentence), icon=":material/build:")


def _going_on() -> None:
    progress = setup_status.look()
    if progress is None or not progress.under_way:
        st.rerun()  # the whole page: polling ends, and what has come in is there to choose
    with st.container(key="set_up"):
        st.progress(progress.over / len(progress.parts), text=address.plain(going_on(progress)))


def going_on(progress: Progress) -> str:
    """How far set-up is, and what that means for who looks."""
    runs = "You can browse results; new runs start when installation finishes."
    return f"Installing in the background: {progress.where}. {runs}"


def sentences(progress: Progress) -> list[str]:
    """What is missing although nobody is at it, and what to do."""
    said = list(progress.failed.values())
    if progress.left:
        left = ", ".join(progress.left)
        said.append(f"The installation was interrupted. Restart the dashboard to continue it. Missing: {left}.")
    return said
