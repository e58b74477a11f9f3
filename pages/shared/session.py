"""Access of pages to the application service: one instance for the server, and one for each signed-in user."""

import gc
import os
import threading
import time
from collections.abc import Mapping
from typing import Any

import streamlit as st

from engine import file_access
from engine.access import roles
from engine.access.roles import Role, User
from engine.errors import EpsilonError, NotAllowed
from engine.service import Application
from pages.shared import visits


class NotSignedIn(NotAllowed):
    """The user has not signed in, or the session has expired."""


def application() -> Application:
    """Return the application service with the permissions of the current user.

    Raises:
        NotAllowed: The user has not signed in or has no role.
    """
    person = current_user()
    return server_application() if person is None else _user_application(person)


def current_user() -> User | None:
    """Return the signed-in user, or None if this dashboard has no sign-in.

    Raises:
        NotAllowed: The user has not signed in, has signed out, or has no role.
        InvalidConfig: The access file is invalid.
        StoreError: The database failed.
    """
    return user_of(claims())


def user_of(user_claims: Mapping[str, Any]) -> User | None:
    """Return the user with these claims, as :func:`current_user`; for calls outside a script, which have no session."""
    file = server_application().settings.access
    if file is None:
        return None
    access = roles.read(file)
    if not user_claims.get("is_logged_in"):
        raise NotSignedIn("You are not signed in.")
    if not roles.is_current(user_claims, time.time()):
        raise NotSignedIn(f"Your session expired after {roles.HOURS} hours.")
    person = access.person(user_claims)
    if _user_application(person).access.has_signed_out(float(user_claims["iat"])):
        raise NotSignedIn("You signed out.")
    return person


def require_sign_in() -> None:
    """Run the whole page again, which asks the user to sign in, if the session has ended; for fragments and dialogs."""
    try:
        current_user()
    except EpsilonError:
        st.rerun()


def sign_out() -> None:
    """Sign the current user out: this session and all others of this sign-in, or of an earlier one, end."""
    if person := current_user():
        application().access.note_sign_out(float(claims()["iat"]))
        visits.of_this_server().expel(name=person.name)
    st.logout()


def seconds_left() -> float:
    """Return the seconds until the current session expires."""
    return 3600 * roles.HOURS + float(claims()["iat"]) - time.time()


def claims() -> dict[str, Any]:
    """Return the identity provider's claims about the current user."""
    return dict(st.user.to_dict())


def can_run() -> bool:
    """Return whether the current user may start runs."""
    person = current_user()
    return person is None or person.role.may(Role.RUNNER)


def disabled_reason() -> str | None:
    """Return why buttons that start runs are disabled, or None if the user may start runs."""
    return None if can_run() else "You have read-only access. Starting runs requires the role runner."


@st.cache_resource(show_spinner=False)
def server_application() -> Application:
    """Return the application service of this server; its first call loads the accountant in the background."""
    file_access.protect_process()  # Streamlit may have been started by hand
    app = Application.from_environment()
    file_access.correct(app.settings.home)
    threading.Thread(target=_warm_up_in_background, args=(app,), daemon=True).start()
    return app


def read_published() -> None:
    """Read the published runs unless this server has read them, with a spinner: a new home has no index of them yet."""
    queries = server_application().queries
    if not queries.has_read_published:
        with st.spinner("Reading the published runs …"):
            queries.published()


@st.cache_resource(show_spinner=False, max_entries=1000, hash_funcs={User: repr})
def _user_application(person: User) -> Application:
    return server_application().for_user(person)


def _warm_up_in_background(app: Application) -> None:
    """Resume the runs of a crashed app, and load the accountant before the user moves a slider."""
    import contextlib

    with contextlib.suppress(EpsilonError):  # pages show errors of the store and the workers
        app.runs.resume(owner_pid=os.getpid())
    import engine.privacy.accounting as accounting

    accounting.warm_up()
    gc.collect()
    gc.freeze()  # objects loaded so far stay, so the garbage collector need not scan them
