"""A started dashboard, and a browser in front of it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from playwright.sync_api import Browser, BrowserContext, Response, expect, sync_playwright

from tests.browser.driving import FLAGS, ROOT, answers, free_port, wait_for
from tests.conftest import share
from tests.hosts import network

PATIENCE = 120_000
"""Milliseconds in which something shows itself, on a machine that is busy with other things too."""
expect.set_options(timeout=PATIENCE)


@contextmanager
def serving(home: Path, port: int, **environment: str) -> Iterator[str]:
    """A started dashboard: its address; at the end Ctrl-C, after which nothing of it may be left."""
    given = os.environ | {"EPSILON_HOME": str(home), "PORT": str(port), "CI": "true"} | environment
    given.pop("EPSILON_STORE_URL", None)
    server = subprocess.Popen([sys.executable, "-m", "engine.serve"], cwd=ROOT, env=given)
    address = f"http://localhost:{port}/"
    wait_for(lambda: answers(address + "_stcore/health"))
    wait_for((home / "cluster" / "ready.json").exists)
    family = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
    yield address
    family += psutil.Process(server.pid).children(recursive=True)
    server.send_signal(signal.SIGINT)
    assert server.wait(30) == 0
    _, left = psutil.wait_procs(set(family), 5)
    assert left == []


@pytest.fixture(scope="session")
def make_home(encoded, published_index, tmp_path_factory) -> Callable[[], Path]:
    """Make a home in which corpora and vectors are encoded and the published runs are indexed already."""

    def make() -> Path:
        home = tmp_path_factory.mktemp("home")
        share(encoded, home)
        (home / published_index.name).symlink_to(published_index)
        return home

    return make


@pytest.fixture(scope="session")
def home(make_home):
    """The home of the dashboard that tests share."""
    return make_home()


@pytest.fixture(scope="session")
def dashboard(home):
    """The address of a started dashboard, where nobody signs in. All tests share it, and what they run stays there."""
    with serving(home, free_port(), EPSILON_POLL=f"127.0.0.1:{free_port()}") as address:
        yield address


@pytest.fixture(scope="session")
def browser(chromium):
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(autouse=True)
def still_network():
    """No test beside this one makes or removes links between machines."""
    with network(changes=False):
        yield


def a_guess(address: str) -> bool:
    """Whether Streamlit asked a page's address for what lies at the root, as it does first at a link to a page."""
    return re.search(r"//[^/]+/\w+/_stcore/", address) is not None


def of_others(address: str) -> bool:
    """Whether an address is on another machine: pages ask nobody else for anything."""
    parts = urlsplit(address)
    return parts.scheme not in ("data", "blob") and parts.hostname not in ("localhost", "127.0.0.1")


@contextmanager
def profile(browser: Browser, **chosen: Any) -> Iterator[BrowserContext]:
    """A fresh profile; each request of its pages that goes to another machine fails the test."""
    context = browser.new_context(**chosen)
    context.set_default_timeout(PATIENCE)
    elsewhere: list[str] = []

    def note(address: str) -> None:
        if of_others(address):
            elsewhere.append(address)

    context.on("request", lambda asked: note(asked.url))
    context.on("page", lambda opened: opened.on("websocket", lambda socket: note(socket.url)))
    yield context
    context.close()
    assert elsewhere == []


@pytest.fixture
def page(browser):
    """A page of a fresh profile; whatever the console or the server calls an error fails the test."""
    faults: list[str] = []
    refused: list[Response] = []
    with profile(browser, viewport={"width": 1280, "height": 800}) as context:
        opened = context.new_page()
        opened.on(
            "console",
            lambda said: (
                faults.append(said.text) if said.type == "error" and not a_guess(said.location["url"]) else None
            ),
        )
        opened.on("response", lambda got: refused.append(got) if got.status >= 400 and not a_guess(got.url) else None)
        yield opened
    assert faults + [f"{got.status} {got.url}" for got in refused] == []
