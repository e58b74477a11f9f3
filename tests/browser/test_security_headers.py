"""Security headers, the content security policy and the metrics endpoint."""

import re
import urllib.request

import pytest

from pages.startup import security_headers
from tests.browser.conftest import only_local

pytestmark = pytest.mark.browser

INJECT = """async () => {
  const found = new Set();
  document.addEventListener('securitypolicyviolation', event => found.add(event.effectiveDirective));
  document.body.insertAdjacentHTML('beforeend', '<img src="https://example.org/seen.png"><p onclick="">x</p>');
  const script = document.createElement('script');
  script.textContent = 'window.injected = true';
  document.body.append(script);
  const frame = document.createElement('iframe');
  frame.src = 'https://example.org/';
  document.body.append(frame);
  await fetch('https://example.org/?data').catch(() => {});
  try { new WebSocket('wss://example.org/'); } catch (error) {}
  await new Promise(done => setTimeout(done, 500));
  return {found: [...found].sort(), injected: window.injected === true};
}"""


def test_injected_content_runs_no_script_and_sends_no_request(browser, dashboard):
    """Use a profile of its own, since a blocked request is a console error, which fails other tests."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(dashboard + "glossary")
    page.locator("h1").first.wait_for()
    result = page.evaluate(INJECT)
    assert not result["injected"]
    assert result["found"] == ["connect-src", "frame-src", "img-src", "script-src-attr", "script-src-elem"]
    context.close()


def test_external_request_fails_a_test(browser):
    """Check that such a request fails a test; it is aborted before it leaves the browser."""
    context = browser.new_context()
    watched = only_local(context)
    watched.__enter__()
    context.route("https://elsewhere.invalid/**", lambda route: route.abort())
    page = context.new_page()
    with page.expect_event("requestfailed"):
        page.set_content('<img src="https://elsewhere.invalid/seen.png">')
    with pytest.raises(AssertionError, match=r"https://elsewhere\.invalid/seen\.png"):
        watched.__exit__(None, None, None)


def test_every_response_has_the_security_headers(dashboard):
    for path in ("", "glossary", "app/static/mark.svg", "_stcore/health", "metrics"):
        answer = urllib.request.urlopen(dashboard + path, timeout=30)
        assert answer.headers["Content-Security-Policy"].startswith(
            "default-src 'self'; script-src 'self' blob: 'unsafe-eval' 'sha2"
        )
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"


def test_metrics_are_in_prometheus_format(dashboard):
    metrics = urllib.request.urlopen(dashboard + "metrics", timeout=30).read().decode()
    assert "epsilon_cluster_up 1.0" in metrics
    assert re.search(r"^epsilon_workers [1-9]", metrics, re.MULTILINE)
    assert 'epsilon_runs{state="queued"}' in metrics


def test_policy_has_the_hash_of_an_inline_script():
    """Compare with ``printf 'one()' | openssl dgst -sha256 -binary | base64``."""
    assert "'sha256-HR7iaask9daLMRRskMI++QeJtjWDOjyPA6lGzYGzKW4='" in security_headers.policy("<script>one()</script>")
    assert "sha256" not in security_headers.policy("<script src='a.js'></script>")
