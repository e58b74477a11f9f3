"""Progress and errors of the installation that runs in the background of the dashboard."""

import streamlit as st

from engine import setup_status
from engine.setup_status import Progress
from pages.shared import address, script_scheduler

POLL_SECONDS = 2.0
"""Seconds between two refreshes of the progress bar."""


def show() -> None:
    """Show the progress or the errors above the page; show nothing and poll nothing if everything is installed."""
    progress = setup_status.look()
    if progress and progress.under_way:
        script_scheduler.polling_fragment(_show_progress, POLL_SECONDS)()
    elif progress:
        for message in errors(progress):
            st.warning(address.plain(message), icon=":material/build:")


def _show_progress() -> None:
    progress = setup_status.look()
    if progress is None or not progress.under_way:
        st.rerun()  # the whole page: polling ends, and the installed parts can be chosen
    with st.container(key="set_up"):
        st.progress(progress.over / len(progress.parts), text=address.plain(progress_text(progress)))


def progress_text(progress: Progress) -> str:
    """Describe the progress of the installation and its effect on runs."""
    runs = "You can browse results; new runs start when installation finishes."
    return f"Installing in the background: {progress.where}. {runs}"


def errors(progress: Progress) -> list[str]:
    """Return messages on failed parts and on an interrupted installation, with what to do."""
    messages = list(progress.failed.values())
    if progress.left:
        left = ", ".join(progress.left)
        messages.append(f"The installation was interrupted. Restart the dashboard to continue it. Missing: {left}.")
    return messages
