"""A button that gives a file, made when it is clicked; who took it stands in the log, where people sign in."""

from collections.abc import Callable

import streamlit as st

from engine.access.roles import Role
from pages.shared import session


def button(
    label: str, content: Callable[[], str | bytes], name: str, mime: str, *, icon: str, key: str | None = None
) -> None:
    """Offer what ``content`` makes as a file called ``name``. Nobody waits for files that nobody wants, and the page
    stays as it is."""
    app = session.application()

    def taken() -> str | bytes:
        app.access.authorize("export", name, Role.VIEWER)
        return content()

    st.download_button(label, taken, name, mime, on_click="ignore", icon=icon, key=key)
