"""Pages of a shared dashboard for users with different roles."""

import io
import json
import time
import zipfile
from dataclasses import replace

import pytest
import streamlit as st
from sqlalchemy import update

from engine.access.roles import Limits, Role, User
from engine.config import run_id
from engine.service import Application
from engine.store.schema import deeds
from pages.account import activity, messages
from pages.runs import listing
from pages.shared import downloads, session
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
    labels = [box.label for box in test.selectbox]
    assert labels == ["User", "Period", "Action"]
    test.selectbox[0].set_value("rita@example.org").run()
    assert list(test.dataframe[-1].value["user"]) == ["rita@example.org"]
    assert list(test.dataframe[0].value["user"]) == ["rita@example.org"]


def test_period_selects_the_entries_of_log_and_activity(open_as, shared_settings):
    app = Application(shared_settings)
    for at, action in ((time.time() - 10 * 86_400, "run"), (time.time(), "upload")):
        app._context.access_store.log_action("rita@example.org", action, "a")
        with app._context.store.begin() as connection:
            connection.execute(update(deeds).where(deeds.c.deed == action).values(at=at))
    app.close()
    test = open_as("ada", "account")
    activity_table = test.dataframe[0].value.set_index("user").loc["rita@example.org"]
    assert (activity_table["actions"], activity_table["runs"], activity_table["uploads"]) == (2, 1, 1)
    test.selectbox[1].set_value("7 days").run()
    activity_table = test.dataframe[0].value.set_index("user").loc["rita@example.org"]
    assert (activity_table["actions"], activity_table["runs"], activity_table["uploads"]) == (1, 0, 1)
    assert list(test.dataframe[-1].value["action"]) == ["sign in", "upload"]


def test_activity_names_refusals_and_limits():
    counts = [("rita", "run", False, 14), ("rita", "publish", True, 7), ("vera", "sign in", False, 1)]
    limits = Limits(runs=3, uploads=2)
    first, second, third = activity.rows(counts, {"rita": 3}, {"rudi": 2, "rita": 1}, limits, 7.0)
    assert (first["user"], first["actions"], first["per day"], first["runs"]) == ("rita", 21, 3.0, 14)
    assert (first["refused"], first["active runs"], first["limit reached"]) == (7, "3 of 3", "runs")
    assert (second["user"], second["sign-ins"], second["limit reached"]) == ("vera", 1, "")
    assert (third["user"], third["corpora"], third["limit reached"]) == ("rudi", "2 of 2", "corpora")
    assert activity.rows(counts, {}, {}, limits, None)[0]["per day"] is None


def test_each_user_can_download_their_own_data_only(open_as, ritas_run, shared_settings, monkeypatch):
    contents = {}
    monkeypatch.setattr(downloads, "button", lambda label, content, *given, **more: contents.update({label: content}))
    for name, runs in (("rita", [ritas_run]), ("vera", [])):
        open_as(name, "account")
        with zipfile.ZipFile(io.BytesIO(contents["Download my data"]())) as archive:
            values = json.loads(archive.read("person.json"))
        assert values["person"] == f"{name}@example.org"
        assert [run["run_id"] for run in values["runs"]] == runs


def test_account_states_the_retention_period(open_as, open_page, shared_settings):
    assert "are deleted" not in texts(open_as("rita", "account").markdown)
    test = open_page("account", replace(shared_settings, retention_days=365))
    assert "After 365 days without use, ended runs and uploaded corpora are deleted" in texts(test.markdown)


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
