"""Pages of other sites cannot connect, and the server connects to no other machine."""

import asyncio
import os
import shutil
import subprocess
import time

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from benchmarks.session_client import Session
from engine.serve import server_command
from pages.startup.origins import is_named, is_own
from tests.browser.driving import answers, free_port
from tests.modules import ROOT

WATCH = """
import os, sys

open(os.environ["WATCHED"], "a").close()

def note(event, details):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.gethostbyname"):
        host = details[1][0] if event in ("socket.connect", "socket.sendto") else details[0]
        if isinstance(host, str) and details[1:2] != ("/dev/log",):
            with open(os.environ["WATCHED"], "a") as file:
                file.write(f"{host}\\n")

sys.addaudithook(note)
"""
"""Program that Python runs at its start: it notes each host with which the process begins to communicate."""
HERE = {"", "localhost", "127.0.0.1", "::1"}


@pytest.mark.parametrize(
    ("origin", "host", "own"),
    [
        (None, "localhost:8501", True),
        ("http://localhost:8501", "localhost:8501", True),
        ("https://ner.example.org", "ner.example.org", True),
        ("http://localhost:3000", "127.0.0.1:8501", True),  # browser.serverAddress, by default localhost
        ("https://evil.example", "localhost:8501", False),
        ("https://localhost.evil.example", "localhost:8501", False),
        ("https://evil.example", None, False),
        ("null", "localhost:8501", False),
        ("http://[", "localhost:8501", False),
    ],
)
def test_origins_of_other_sites_are_foreign(origin: str | None, host: str | None, own: bool) -> None:
    assert is_own(origin, host) == own


@pytest.fixture
def watched(tmp_path, published_index):
    """Yield the port of a server, and the file with the hosts that it connects to."""
    shutil.copy(published_index, tmp_path)
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / "sitecustomize.py").write_text(WATCH)
    port, hosts = free_port(), tmp_path / "hosts.txt"
    environment = {
        "EPSILON_HOME": str(tmp_path),
        "EPSILON_STORE_URL": "",
        "PYTHONPATH": str(tmp_path / "start"),
        "WATCHED": str(hosts),
    }
    process = subprocess.Popen(
        server_command({"PORT": str(port), "CI": "true"}), cwd=ROOT, env=os.environ | environment
    )
    while process.poll() is None and not answers(f"http://localhost:{port}/_stcore/health"):
        time.sleep(0.05)
    yield port, hosts
    process.terminate()
    process.wait(30)


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("localhost:8501", True),
        ("127.0.0.1", True),
        ("[::1]:8501", True),
        ("ner.example.org", True),
        ("evil.example:8501", False),
        ("localhost.evil.example", False),
        ("[", False),
        (None, False),
    ],
)
def test_only_own_names_are_served(host, named):
    assert is_named(host, {"localhost", "127.0.0.1", "::1", "ner.example.org"}) is named


def test_requests_under_other_names_are_refused(watched):
    port, _ = watched
    address, evil = f"http://localhost:{port}", {"Host": f"evil.example:{port}"}
    assert [httpx.get(f"{address}{path}", headers=evil).status_code for path in ("/", "/metrics")] == [421, 421]
    assert httpx.get(f"{address}/_stcore/health", headers=evil).status_code == 200
    with_token = evil | {"Authorization": "Bearer guessed"}
    assert httpx.get(f"{address}/metrics", headers=with_token).status_code == 403

    async def rebound():
        stream, origin = f"ws://evil.example:{port}/_stcore/stream", f"http://evil.example:{port}"
        with pytest.raises(InvalidStatus) as refused:
            await connect(stream, origin=origin, host="localhost", port=port)
        return refused.value.response.status_code

    assert asyncio.run(rebound()) == 403


def test_server_connects_to_no_other_machine(watched):
    """Streamlit would look up its external address, and serve no session meanwhile."""
    port, hosts = watched

    async def visit():
        async with Session(f"http://localhost:{port}/glossary") as session:
            with pytest.raises(InvalidStatus) as refused:
                await connect(f"ws://localhost:{port}/_stcore/stream", origin="https://evil.example")
            return refused.value.response.status_code, session.faults

    assert asyncio.run(visit()) == (403, [])
    assert set(hosts.read_text().split()) <= HERE
