"""The button that downloads all that is held on the signed-in user."""

import io

import streamlit as st

from engine.access.roles import User
from engine.service import Application, person_export
from pages.shared import downloads


def button(app: Application, user: User) -> None:
    """Show the button, and what the file has."""

    def content() -> bytes:
        file = io.BytesIO()
        person_export.write(app, user.name, file)
        return file.getvalue()

    with st.container(horizontal=True, vertical_alignment="center"):
        downloads.button("Download my data", content, "my-data.zip", "application/zip", icon=":material/download:")
        st.caption(
            "A zip of all that is held on you here: account, sign-ins, runs, notes, corpora with their texts, your "
            "entries in the audit log, and charges to budgets."
        )
