"""The sign-in page of a shared dashboard, the only page without sign-in."""

import streamlit as st

from engine.access.roles import Role, User
from engine.errors import EpsilonError
from pages.shared import address, session, visits
from pages.startup import theme


def required() -> User | None:
    """Return the signed-in user, or None if the dashboard has no sign-in.

    Otherwise show the sign-in page and stop the script.
    """
    try:
        person = session.current_user()
    except session.NotSignedIn as error:
        visits.of_this_server().expel(st.context.cookies.get(visits.COOKIE))
        _ask(str(error))
        st.stop()
    except EpsilonError as error:
        visits.of_this_server().expel(st.context.cookies.get(visits.COOKIE))
        st.error(address.plain(str(error)), icon=":material/error:")
        if session.claims().get("is_logged_in"):
            st.button("Switch user", on_click=st.logout, icon=":material/logout:")
        st.stop()
    if person:
        visit = st.context.cookies.get(visits.COOKIE)
        may_upload = person.role.may(Role.RUNNER)
        visits.of_this_server().admit(visit, person.name, may_upload=may_upload, seconds=session.seconds_left())
        _log_sign_in(person.name, session.claims().get("iat"))
    return person


@st.cache_resource(show_spinner=False, max_entries=10_000)
def _log_sign_in(name: str, when: object) -> None:
    """Write each sign-in to the audit log once; ``name`` and ``when``, its time, are the key of the cache."""
    session.application().access.note_sign_in()


def _ask(why: str) -> None:
    theme.apply("Sign in", group=0)
    st.markdown("### Explore the privacy–utility trade-off of NER models, and audit privacy claims")
    st.markdown(
        f"{why} This dashboard is shared: only you and the admins see your runs and uploads until you share them."
    )
    st.button("Sign in", type="primary", on_click=st.login, icon=":material/login:", key="sign_in")
    st.caption("You sign in with your organisation's account. This program never sees your password.")
