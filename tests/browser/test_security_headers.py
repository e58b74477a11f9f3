"""What the server tells a browser to forbid, and what it says of itself."""

import re
import urllib.request

import pytest

from pages.startup import security_headers
from tests.browser.conftest import profile

pytestmark = pytest.mark.browser

SMUGGLED = """async () => {
  const found = new Set();
  document.addEventListener('securitypolicyviolation', event => found.add(event.effectiveDirective));
  document.body.insertAdjacentHTML('beforeend', '<img src="https://example.org/seen.png"><p onclick="">x</p>');
  const script = document.createElement('script');
  script.textContent = 'window.smuggled = true';
  document.body.append(script);
  const frame = document.createElement('iframe');
  frame.src = 'https://example.org/';
  document.body.append(frame);
  await fetch('https://example.org/?told').catch(() => {});
  try { new WebSocket('wss://example.org/'); } catch (error) {}
  await new Promise(done => setTimeout(done, 500));
  return {found: [...found].sort(), smuggled: window.smuggled === true};
}"""


def test_what_somebody_smuggled_in_runs_nothing_and_reaches_nobody(browser, dashboard):
    """In a page of its own: what the browser forbids is an error of the console, which fails other tests."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(dashboard + "glossary")
    page.locator("h1").first.wait_for()
    tried = page.evaluate(SMUGGLED)
    assert not tried["smuggled"]
    assert tried["found"] == ["connect-src", "frame-src", "img-src", "script-src-attr", "script-src-elem"]
    context.close()


def test_a_request_to_another_machine_is_noticed(browser):
    """Else no test would fail by one. It is ended before it leaves the browser."""
    watched = profile(browser)
    context = watched.__enter__()
    context.route("https://elsewhere.invalid/**", lambda route: route.abort())
    page = context.new_page()
    with page.expect_event("requestfailed"):
        page.set_content('<img src="https://elsewhere.invalid/seen.png">')
    with pytest.raises(AssertionError, match=r"https://elsewhere\.invalid/seen\.png"):
        watched.__exit__(None, None, None)


def test_every_answer_has_the_headers(dashboard):
    for path in ("", "glossary", "app/static/mark.svg", "_stcore/health", "metrics"):
        answer = urllib.request.urlopen(dashboard + path, timeout=30)
        assert answer.headers["Content-Security-Policy"].startswith(
            "default-src 'self'; script-src 'self' blob: 'unsafe-eval' 'sha2"
        )
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"


def test_a_prometheus_reads_how_it_is(dashboard):
    said = urllib.request.urlopen(dashboard + "metrics", timeout=30).read().decode()
    assert "epsilon_cluster_up 1.0" in said
    assert re.search(r"^epsilon_workers [1-9]", said, re.MULTILINE)
    assert 'epsilon_runs{state="queued"}' in said


def test_a_script_of_the_first_page_is_known_by_its_sum():
    """The sum: ``printf 'one()' | openssl dgst -sha256 -binary | base64``."""
    assert "'sha256-HR7iaask9daLMRRskMI++QeJtjWDOjyPA6lGzYGzKW4='" in security_headers.policy("<script>one()</script>")
    assert "sha256" not in security_headers.policy("<script src='a.js'></script>")
