"""Who is not known sees this, and nothing else."""

import streamlit as st

from engine.errors import EpsilonError
from engine.people import Person
from pages.shared import address, door

_GREETED = "signed_in_as"


def required() -> Person | None:
    """Who has signed in, None where nobody has to; asks, and ends the page, where nobody has."""
    try:
        person = door.who()
    except door.NotSignedIn as error:
        _ask(str(error))
        st.stop()
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
        if st.user.get("is_logged_in"):
            st.button("Sign in as somebody else", on_click=st.logout, icon=":material/logout:")
        st.stop()
    if person and st.session_state.get(_GREETED) != person.name:
        door.runs().note_sign_in()
        st.session_state[_GREETED] = person.name
    return person


def _ask(why: str) -> None:
    st.markdown("### See what privacy costs a name finder, and whether a claimed privacy is real")
    st.markdown("This dashboard is shared: what you run and upload is yours alone until you share it. " + why)
    st.button("Sign in", type="primary", on_click=st.login, icon=":material/login:", key="sign_in")
    st.caption(
        "You are asked by your own organisation, and come back here. No password is seen or kept by this program."
    )
