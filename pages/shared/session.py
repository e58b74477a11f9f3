"""The engine's door, opened once for all sessions of this server, and for each person who signed in."""

import gc
import os
import threading
import time
from typing import Any

import streamlit as st

from engine.access import roles
from engine.access.roles import Role, User
from engine.errors import EpsilonError, NotAllowed
from engine.service import Application


class NotSignedIn(NotAllowed):
    """Nobody has signed in, or too long ago."""


def application() -> Application:
    """The runs that whoever looks may see. Raises NotAllowed."""
    person = current_user()
    return _every() if person is None else _of(person)


def current_user() -> User | None:
    """Who has signed in; None where nobody has to. Raises NotAllowed, InvalidConfig."""
    access = _every().settings.access
    if access is None:
        return None
    found, said = roles.read(access), claims()
    if not said.get("is_logged_in"):
        raise NotSignedIn("Nobody has signed in.")
    if not roles.is_current(said, time.time()):
        raise NotSignedIn(f"Your session expired after {roles.HOURS} hours.")
    return found.person(said)


def claims() -> dict[str, Any]:
    """What the provider said of whoever looks."""
    return dict(st.user.to_dict())


def can_run() -> bool:
    """Whether whoever looks may have anything computed."""
    person = current_user()
    return person is None or person.role.may(Role.RUNNER)


def disabled_reason() -> str | None:
    """What to say beside a button that would have something computed, where whoever looks may not press it."""
    return None if can_run() else "You have read-only access. Starting runs requires the role runner."


@st.cache_resource(show_spinner=False)
def _every() -> Application:
    """The runs of this server. What is slow to import is fetched behind the first paint."""
    opened = Application.from_environment()
    threading.Thread(target=_warm_up_in_background, args=(opened,), daemon=True).start()
    return opened


@st.cache_resource(show_spinner=False, max_entries=1000, hash_funcs={User: repr})
def _of(person: User) -> Application:
    return _every().for_user(person)


def _warm_up_in_background(opened: Application) -> None:
    """Runs that a crashed app left are taken up; the accountant is there when a slider moves."""
    import contextlib

    with contextlib.suppress(EpsilonError):  # the page says what is wrong with the store or the workers
        opened.runs.resume(owner_pid=os.getpid())
    import engine.privacy.accounting as accounting

    accounting.warm_up()
    gc.collect()
    gc.freeze()  # what is there by now stays, and need not be looked through for what nobody uses any more
