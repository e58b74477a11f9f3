"""Who is not known sees this, and nothing else."""

import streamlit as st

from engine.access.roles import User
from engine.errors import EpsilonError
from pages.shared import address, session
from pages.startup import theme


def required() -> User | None:
    """Who has signed in, None where nobody has to; asks, and ends the page, where nobody has."""
    try:
        person = session.current_user()
    except session.NotSignedIn as error:
        _ask(str(error))
        st.stop()
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
        if session.claims().get("is_logged_in"):
            st.button("Sign in as somebody else", on_click=st.logout, icon=":material/logout:")
        st.stop()
    if person:
        _came(person.name, session.claims().get("iat"))
    return person


@st.cache_resource(show_spinner=False, max_entries=10_000)
def _came(name: str, when: object) -> None:
    """Write down each sign-in once, however many pages it opens. name, when: of whom it is, and of what time."""
    session.application().access.note_sign_in()


def _ask(why: str) -> None:
    theme.apply("Sign in", here=0)
    st.markdown("### Explore the privacy–utility trade-off of NER models, and audit privacy claims")
    st.markdown("This dashboard is shared: what you run and upload is yours alone until you share it. " + why)
    st.button("Sign in", type="primary", on_click=st.login, icon=":material/login:", key="sign_in")
    st.caption(
        "You are asked by your own organisation, and come back here. No password is seen or kept by this program."
    )
