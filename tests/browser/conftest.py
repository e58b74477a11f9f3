"""Fixtures: a running dashboard and a browser."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Request,
    Response,
    WebSocket,
    expect,
    sync_playwright,
)

from tests.browser.driving import FLAGS, ROOT, answers, free_port, wait_for
from tests.conftest import share
from tests.hosts import network

PATIENCE = 120_000
"""Time limit for an element to appear on a busy machine, in ms."""
expect.set_options(timeout=PATIENCE)
FRUGAL = ("--process-per-site", "--renderer-process-limit=1", "--js-flags=--no-turbofan --no-maglev")
"""Flags that halve the processor time of a page: pages of a profile share a process, with its compiled scripts, which
are not optimised, since a page is open for seconds."""


@contextmanager
def serving(home: Path, port: int, **environment: str) -> Iterator[str]:
    """Run a dashboard and yield its address; afterwards send SIGINT and check that all its processes end."""
    variables = os.environ | {"EPSILON_HOME": str(home), "PORT": str(port), "CI": "true"} | environment
    variables.pop("EPSILON_STORE_URL", None)
    server = subprocess.Popen([sys.executable, "-m", "engine.serve"], cwd=ROOT, env=variables)
    address = f"http://localhost:{port}/"
    wait_for(lambda: answers(address + "_stcore/health"))
    wait_for((home / "cluster" / "ready.json").exists)
    processes = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
    yield address
    processes += psutil.Process(server.pid).children(recursive=True)
    server.send_signal(signal.SIGINT)
    assert server.wait(30) == 0
    _, left = psutil.wait_procs(set(processes), 5)
    assert left == []


@pytest.fixture(scope="session")
def make_home(encoded, published_index, tmp_path_factory) -> Callable[[], Path]:
    """Return a function that makes a home with encoded corpora, vectors and an index of the published runs."""

    def make() -> Path:
        home = tmp_path_factory.mktemp("home")
        share(encoded, home, published_index)
        return home

    return make


@pytest.fixture(scope="session")
def home(make_home):
    """Return the home of the dashboard that tests share."""
    return make_home()


@pytest.fixture(scope="session")
def dashboard(home):
    """Yield the address of a dashboard without sign-in; all tests share it and its runs."""
    with serving(home, free_port(), EPSILON_POLL=f"127.0.0.1:{free_port()}") as address:
        yield address


@pytest.fixture(scope="session")
def user_data(tmp_path_factory) -> Path:
    """Return the folder of the browser's profile, which keeps files and compiled scripts from one page to the next."""
    return tmp_path_factory.mktemp("chromium")


@pytest.fixture(scope="module")
def default_profile(chromium, user_data) -> Iterator[BrowserContext]:
    """Run a browser and yield its profile.

    A new profile would compile all scripts again for each page, which was half of the tests' processor time.
    """
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            user_data, executable_path=chromium, args=[*FLAGS, *FRUGAL], viewport={"width": 1280, "height": 800}
        )
        yield context
        context.close()


@pytest.fixture(scope="module")
def browser(default_profile) -> Browser:
    """Return the browser, for tests that need further profiles."""
    return default_profile.browser


@pytest.fixture(autouse=True)
def unchanged_network():
    """Keep other tests from changing network links during this test."""
    with network(changes=False):
        yield


def is_root_probe(address: str) -> bool:
    """Return whether Streamlit requests a root path below a page's path, as it first does for a link to a page."""
    return re.search(r"//[^/]+/\w+/_stcore/", address) is not None


def is_external(address: str) -> bool:
    """Return whether an address is on another machine, which no page may contact."""
    parts = urlsplit(address)
    return parts.scheme not in ("data", "blob") and parts.hostname not in ("localhost", "127.0.0.1")


@contextmanager
def only_local(context: BrowserContext) -> Iterator[None]:
    """Fail if a page of the profile sends a request to another machine."""
    external: list[str] = []

    def note(request: Request | WebSocket) -> None:
        if is_external(request.url):
            external.append(request.url)

    def note_sockets(opened: Page) -> None:
        opened.on("websocket", note)

    context.set_default_timeout(PATIENCE)
    context.on("request", note)
    context.on("page", note_sockets)
    try:
        yield
    finally:
        context.remove_listener("request", note)
        context.remove_listener("page", note_sockets)
    assert external == []


def clear(context: BrowserContext) -> None:
    """Remove cookies and stored values of a profile, and close its pages but one, which keeps the process."""
    for page in context.pages:
        if page.url.startswith("http"):
            page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
    for page in context.pages[1:]:
        page.close()
    context.pages[0].goto("about:blank")
    context.clear_cookies()


@pytest.fixture(scope="module")
def spare_profiles() -> list[BrowserContext]:
    """Return the profiles that tests of the module have made and cleared: a new one compiles all scripts again."""
    return []


@pytest.fixture
def profile(browser, spare_profiles) -> Iterator[Callable[[], BrowserContext]]:
    """Return a function that gives a further profile without cookies; a request to another machine fails the test."""
    used: list[BrowserContext] = []
    with ExitStack() as checks:

        def give() -> BrowserContext:
            if spare_profiles:
                context = spare_profiles.pop()
            else:
                context = browser.new_context(viewport={"width": 1280, "height": 800})
                context.new_page()
            checks.enter_context(only_local(context))
            used.append(context)
            return context

        yield give
        for context in used:
            clear(context)
    spare_profiles += used


@pytest.fixture
def page(default_profile):
    """Yield a page of a profile without cookies; a console error or an error status of the server fails the test."""
    console_errors: list[str] = []
    failed_responses: list[Response] = []
    with only_local(default_profile):
        opened = default_profile.new_page()
        opened.on(
            "console",
            lambda message: (
                console_errors.append(message.text)
                if message.type == "error" and not is_root_probe(message.location["url"])
                else None
            ),
        )
        opened.on(
            "response",
            lambda response: (
                failed_responses.append(response)
                if response.status >= 400 and not is_root_probe(response.url)
                else None
            ),
        )
        yield opened
        clear(default_profile)
    assert console_errors + [f"{response.status} {response.url}" for response in failed_responses] == []
