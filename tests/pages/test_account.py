"""A shared dashboard's pages, run without a browser, for users with different roles."""

import time

import pytest
import streamlit as st

from engine.access.roles import Limits, Role, User
from engine.config import run_id
from engine.service import Application
from pages.account import messages
from pages.runs import listing
from pages.shared import session
from tests.engine.factories import SMALL, provenance, record


@pytest.fixture
def hers(shared):
    """A run of Rita's that is done."""
    app = Application(shared).for_user(User(name="rita@example.org", role=Role.RUNNER))
    identity = run_id(SMALL, "0" * 64)
    app._context.store.submit(identity, SMALL, "0" * 64)
    claim = app._context.all_users_store.claim(identity, "me/1")
    for number in range(3):
        app._context.all_users_store.append(claim, record(number))
    app._context.all_users_store.finish(claim, provenance())
    return identity


def said(elements) -> str:
    return "\n".join(element.value for element in elements)


def test_who_has_not_signed_in_is_asked_to_and_sees_nothing(open_as, hers):
    for claims in ({"is_logged_in": False}, {"iat": time.time() - 13 * 3600}, {"iat": None}):
        test = open_as("rita", "runs", **claims)
        assert [button.label for button in test.button] == ["Sign in"]
        assert not test.dataframe


def test_a_sign_in_that_is_not_believed_is_said(open_as):
    test = open_as("ada", "runs", email_verified=False)
    assert "has not verified the address" in said(test.error)
    assert not test.dataframe


def test_a_run_is_seen_by_its_owner_then_by_all_then_by_its_owner(open_as, hers, shared):
    assert "1 done" in said(open_as("rita", "runs").markdown)
    assert "No runs yet" in said(open_as("rudi", "runs").markdown)
    of_rita = Application(shared).for_user(User(name="rita@example.org", role=Role.RUNNER))
    of_rita.access.share("run", hers, shared=True)
    seen = open_as("rudi", "runs")
    assert list(seen.dataframe[0].value["source"]) == ["rita@example.org"]
    of_rita.access.share("run", hers, shared=False)
    assert "No runs yet" in said(open_as("rudi", "runs").markdown)


def test_a_list_is_searched_by_whose_runs_are(hers, shared):
    found = Application(shared).queries.overview()
    assert listing.matching(found, "", (), "other users", "rudi@example.org") == found
    assert listing.matching(found, "", (), "other users", "rita@example.org") == []
    assert listing.matching(found, "source=rita@example.org", (), None, "rudi@example.org") == found
    assert listing.matching(found, "", (), "yours", "rita@example.org") == found
    assert listing.matching(found, "", (), "yours", "rudi@example.org") == []


def test_an_account_says_what_one_may_and_has(open_as, hers):
    test = open_as("rita", "account")
    assert "You are `rita@example.org`, a runner" in said(test.markdown)
    assert "Active runs: 0 of 3. Stored runs: 1." in said(test.markdown)
    assert "Audit log" not in said(test.markdown)
    test = open_as("vera", "account")
    assert "a viewer" in said(test.markdown)
    assert "upload corpora" not in said(test.markdown)


def test_an_admin_reads_the_log(open_as, hers):
    open_as("rita", "runs")
    test = open_as("ada", "account")
    log = test.dataframe[-1].value
    assert list(log["user"]) == ["ada@example.org", "rita@example.org"]
    assert list(log["action"]) == ["sign in", "sign in"]
    test.selectbox[0].set_value("rita@example.org").run()
    assert list(test.dataframe[-1].value["user"]) == ["rita@example.org"]


def test_a_viewer_is_not_offered_what_would_be_refused(open_as):
    test = open_as("vera", "practice")
    (run,) = (button for button in test.button if button.label.startswith("Start missing runs"))
    assert run.disabled
    assert "requires the role runner" in run.help


def test_nothing_of_it_is_there_where_nobody_signs_in(open_page):
    assert session.claims() == {}
    test = open_page("explore")
    assert not any(button.label == "Sign in" for button in test.button)
    st.cache_resource.clear()


def test_words_of_limits():
    person = User(name="a`b", role=Role.ADMIN, limits=Limits(runs=1000, uploads=7))
    assert messages.heading(person) == "You are `a'b`, an admin"
    assert len(messages.allowed(Role.ADMIN)) == 3
    assert "Active runs: 0 of 1,000" in messages.usage(person, [], 3)
