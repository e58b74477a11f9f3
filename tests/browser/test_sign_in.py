"""A shared dashboard: users sign in, act according to their role and see only their own data."""

import urllib.error
import urllib.request

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import serving
from tests.browser.driving import MARKED, UNEXPLAINED, answer, free_port, wait_for
from tests.provider import Provider

pytestmark = pytest.mark.browser

SMALL = "?corpus=synthetic&data_fraction=0.05&noise_multiplier=1&batch_size=8&hidden_size=8&epochs=8"
ROLES = '[people]\nadmin = ["ada@example.org"]\nrunner = ["*@lab.example.org"]\nviewer = ["*"]\n[limits]\nruns = 3\n'


@pytest.fixture(scope="module")
def provider():
    with Provider() as started:
        yield started


@pytest.fixture(scope="module")
def shared(make_home, provider):
    """Yield the address of a dashboard that requires sign-in."""
    port, home = free_port(), make_home()
    access = home / "access.toml"
    access.write_text(provider.secrets_file(f"http://localhost:{port}/oauth2callback") + ROLES)
    access.chmod(0o600)
    with serving(home, port, EPSILON_ACCESS=str(access)) as address:
        yield address


@pytest.fixture
def signed_in(profile, shared):
    """Return a function that signs a user in and returns the page, in a profile of its own."""

    def sign_in(name: str) -> Page:
        page = profile().new_page()
        page.goto(shared)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name=name, exact=True).click()
        return page

    return sign_in


def opened(page: Page, address: str) -> Page:
    page.goto(address)
    wait_for(lambda: answer(page))
    page.wait_for_selector("[data-test-script-state='notRunning']")
    return page


@pytest.mark.repeats(area="dashboard")
def test_pages_show_nothing_without_sign_in(profile, shared):
    page = profile().new_page()
    for name in ("", "account", "report?run=0"):
        page.goto(shared + name)
        page.get_by_role("button", name="Sign in").wait_for()
        assert page.locator(".stApp a[href*='runs']").count() == 0
        assert "You are not signed in" in page.inner_text("body")
        assert "σ" not in page.inner_text("body")


@pytest.mark.repeats(area="pages")
def test_account_page_has_glossary_tooltips(signed_in, shared):
    ada = opened(signed_in("Ada"), shared + "account")
    wait_for(lambda: ada.evaluate(MARKED))
    wait_for(lambda: ada.evaluate(UNEXPLAINED) == [], 15)
    expect(ada.get_by_text("Counts come from the audit log.")).to_be_visible()
    assert "audit" not in map(str.lower, ada.evaluate(MARKED))  # the entry is about measurements of privacy


@pytest.mark.repeats(area="pages")
def test_roles_ownership_and_audit_log(signed_in, shared):
    rita, rudi = signed_in("Rita"), signed_in("Rudi")
    opened(rita, shared + SMALL)
    rita.get_by_role("button", name="Run", exact=True).click()
    wait_for(lambda: answer(rita).startswith("At ε = "), 300)
    opened(rudi, shared + SMALL)
    assert "privacy cost: ε" in answer(rudi)
    opened(rudi, shared + "runs")
    assert " done" not in answer(rudi)

    opened(rita, shared + "account")
    assert all(part in answer(rita) for part in ("rita@lab.example.org", "runner"))
    expect(rita.get_by_text("Active runs: 0 of 3. Stored runs: 1.")).to_be_visible()
    assert "Audit log" not in rita.inner_text("body")

    vera = opened(signed_in("Vera"), shared + SMALL)
    expect(vera.get_by_role("button", name="Run", exact=True)).to_be_disabled()
    expect(vera.get_by_text("Upload a corpus")).to_have_count(0)

    opened(rita, shared + SMALL)
    rita.get_by_role("tab", name="Download and repeat").click()
    with rita.expect_download() as download:
        rita.get_by_role("button", name="Download CSV", exact=True).click()
    get = f"fetch('{download.value.url}').then(got => got.status)"
    assert rita.evaluate(get) == 200
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(download.value.url)

    ada = opened(signed_in("Ada"), shared + "account")
    assert all(part in answer(ada) for part in ("ada@example.org", "admin"))
    with ada.expect_download() as download:
        ada.get_by_role("button", name="Download CSV", exact=True).click()
    log = download.value.path().read_text()
    lines = [line.split(",")[1:3] for line in log.splitlines()[1:]]
    assert lines.count(["rita@lab.example.org", "sign in"]) == 1  # however many pages she opened
    assert ["rita@lab.example.org", "run"] in lines
    assert ["rita@lab.example.org", "export"] in lines
    ada.get_by_role("button", name="Sign out").click()
    ada.get_by_role("button", name="Sign in").wait_for()


@pytest.mark.repeats(area="pages")
def test_runners_may_upload_until_they_sign_out(signed_in, shared, tmp_path):
    notes = tmp_path / "notes.conll"
    notes.write_text("".join(f"word{i} O\nName{i} B-PER\n\n" for i in range(60)))
    send = "fetch('/_stcore/upload_file/none/1', {method: 'PUT', body: new FormData()}).then(sent => sent.status)"
    vera = opened(signed_in("Vera"), shared)
    assert vera.evaluate(send) == 403
    rita = opened(signed_in("Rita"), shared + "explore")
    assert rita.evaluate(send) == 400  # a form without a file
    rita.get_by_text("Upload a corpus").click()
    rita.set_input_files("input[type=file]", notes)
    rita.get_by_text("This file has 60 sentences").wait_for()
    rita.get_by_role("button", name="Add corpus").click()
    rita.get_by_text("Imported 60 sentences").wait_for()
    opened(rita, shared + "account")
    stolen = rita.context.cookies()
    rita.get_by_role("button", name="Sign out").click()
    rita.get_by_role("button", name="Sign in").wait_for()
    assert rita.evaluate(send) == 403
    rita.context.add_cookies(stolen)
    rita.goto(shared + "account")
    rita.get_by_role("button", name="Sign in").wait_for()
    assert "You signed out" in rita.inner_text("body")
    assert rita.evaluate(send) == 403


def test_unverified_address_is_rejected(signed_in):
    page = signed_in("Mallory, who says she is Ada")
    expect(page.get_by_text("identity provider has not verified the address")).to_be_visible()
    assert "σ" not in page.inner_text("body")
    page.get_by_role("button", name="Switch user").click()
    page.get_by_role("button", name="Sign in", exact=True).wait_for()


@pytest.mark.repeats(area="dashboard")
def test_session_expires_after_12_hours(signed_in, provider):
    provider.age = 13 * 3600
    try:
        page = signed_in("Rita")
        expect(page.get_by_text("Your session expired after 12 hours.")).to_be_visible()
    finally:
        provider.age = 0


def test_forged_cookie_is_rejected(profile, shared):
    page = profile().new_page()
    page.goto(shared)
    page.get_by_role("button", name="Sign in").wait_for()
    cookie = '{"email":"ada@example.org","email_verified":true,"iat":9999999999,"is_logged_in":true,"origin":"%s"}'
    page.context.add_cookies([{"name": "_streamlit_user", "value": cookie % shared.rstrip("/"), "url": shared}])
    page.reload()
    page.get_by_role("button", name="Sign in").wait_for()
    assert "σ" not in page.inner_text("body")


def test_metrics_are_served_to_this_machine_only(shared):
    assert b"epsilon_runs" in urllib.request.urlopen(shared + "metrics", timeout=30).read()
    forwarded = urllib.request.Request(shared + "metrics", headers={"X-Forwarded-For": "192.0.2.1"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(forwarded, timeout=30)
