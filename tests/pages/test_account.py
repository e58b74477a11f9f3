"""Pages of a shared dashboard for users with different roles."""

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
def ritas_run(shared_settings):
    """Return the identity of a finished run of Rita."""
    app = Application(shared_settings).for_user(User(name="rita@example.org", role=Role.RUNNER))
    identity = run_id(SMALL, "0" * 64)
    app._context.store.submit(identity, SMALL, "0" * 64)
    claim = app._context.all_users_store.claim(identity, "me/1")
    for number in range(3):
        app._context.all_users_store.append(claim, record(number))
    app._context.all_users_store.finish(claim, provenance())
    return identity


def texts(elements) -> str:
    return "\n".join(element.value for element in elements)


def test_pages_without_valid_sign_in_have_only_a_sign_in_button(open_as, ritas_run):
    for claims in ({"is_logged_in": False}, {"iat": time.time() - 13 * 3600}, {"iat": None}):
        test = open_as("rita", "runs", **claims)
        assert [button.label for button in test.button] == ["Sign in"]
        assert not test.dataframe


def test_pages_after_sign_out_have_only_a_sign_in_button(open_as, shared_settings):
    signed_in = time.time() - 60
    rita = Application(shared_settings).for_user(User(name="rita@example.org", role=Role.RUNNER))
    rita.access.note_sign_out(signed_in)
    assert [button.label for button in open_as("rita", "runs", iat=signed_in).button] == ["Sign in"]
    assert "No runs yet" in texts(open_as("rita", "runs", iat=signed_in + 1).markdown)


def test_unverified_address_shows_an_error(open_as):
    test = open_as("ada", "runs", email_verified=False)
    assert "has not verified the address" in texts(test.error)
    assert not test.dataframe


def test_run_is_listed_for_others_only_while_shared(open_as, ritas_run, shared_settings):
    assert "1 done" in texts(open_as("rita", "runs").markdown)
    assert "No runs yet" in texts(open_as("rudi", "runs").markdown)
    ritas_app = Application(shared_settings).for_user(User(name="rita@example.org", role=Role.RUNNER))
    ritas_app.access.share("run", ritas_run, shared=True)
    test = open_as("rudi", "runs")
    assert list(test.dataframe[0].value["source"]) == ["rita@example.org"]
    ritas_app.access.share("run", ritas_run, shared=False)
    assert "No runs yet" in texts(open_as("rudi", "runs").markdown)


def test_list_is_filtered_by_owner(ritas_run, shared_settings):
    runs = Application(shared_settings).queries.overview()
    assert listing.matching(runs, "", (), "other users", "rudi@example.org") == runs
    assert listing.matching(runs, "", (), "other users", "rita@example.org") == []
    assert listing.matching(runs, "source=rita@example.org", (), None, "rudi@example.org") == runs
    assert listing.matching(runs, "", (), "yours", "rita@example.org") == runs
    assert listing.matching(runs, "", (), "yours", "rudi@example.org") == []


def test_account_shows_role_limits_and_usage(open_as, ritas_run):
    test = open_as("rita", "account")
    assert "You are `rita@example.org`, a runner" in texts(test.markdown)
    assert "Active runs: 0 of 3. Stored runs: 1." in texts(test.markdown)
    assert "Audit log" not in texts(test.markdown)
    test = open_as("vera", "account")
    assert "a viewer" in texts(test.markdown)
    assert "upload corpora" not in texts(test.markdown)


def test_admin_can_filter_the_audit_log(open_as, ritas_run):
    open_as("rita", "runs")
    test = open_as("ada", "account")
    log = test.dataframe[-1].value
    assert list(log["user"]) == ["ada@example.org", "rita@example.org"]
    assert list(log["action"]) == ["sign in", "sign in"]
    test.selectbox[0].set_value("rita@example.org").run()
    assert list(test.dataframe[-1].value["user"]) == ["rita@example.org"]


def test_viewer_has_a_disabled_run_button(open_as):
    test = open_as("vera", "practice")
    (run,) = (button for button in test.button if button.label.startswith("Start missing runs"))
    assert run.disabled
    assert "requires the role runner" in run.help


def test_no_sign_in_button_without_sign_in(open_page):
    assert session.claims() == {}
    test = open_page("explore")
    assert not any(button.label == "Sign in" for button in test.button)
    st.cache_resource.clear()


def test_texts_of_role_permissions_and_usage():
    user = User(name="a`b", role=Role.ADMIN, limits=Limits(runs=1000, uploads=7))
    assert messages.heading(user) == "You are `a'b`, an admin"
    assert len(messages.allowed(Role.ADMIN)) == 3
    assert "Active runs: 0 of 1,000" in messages.usage(user, [], 3)
