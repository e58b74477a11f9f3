"""A download button whose file is created on click; the audit log of a shared dashboard records each download."""

from collections.abc import Callable

import streamlit as st

from engine.access.roles import Role
from pages.shared import session


def button(
    label: str, content: Callable[[], str | bytes], name: str, mime: str, *, icon: str, key: str | None = None
) -> None:
    """Show a button that downloads a file.

    A click does not rerun the page, and the page does not wait for a file that the user does not download.

    Args:
        label: Text of the button.
        content: Creates the file's content.
        name: File name.
        mime: Media type of the file.
        icon: Icon of the button.
        key: Key of the widget, if several buttons of a page have the same label.
    """
    app, user_claims = session.application(), session.claims()

    def logged_content() -> str | bytes:
        session.user_of(user_claims)  # the session may have ended since the page was opened
        app.access.authorize("export", name, Role.VIEWER)
        return content()

    st.download_button(label, logged_content, name, mime, on_click="ignore", icon=icon, key=key)
