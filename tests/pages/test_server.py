"""The server's first session, and the parts of Streamlit that the dashboard uses."""

import ast
import asyncio
import os
import shutil
import subprocess
import sys
import time
from types import ModuleType

import pytest
import streamlit
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequests

from benchmarks.session_client import Session
from engine.serve import server_command
from tests.browser.driving import answers, free_port
from tests.modules import FILES, ROOT

PUBLIC_MODULES = ("streamlit.column_config", "streamlit.components", "streamlit.delta_generator", "streamlit.typing")
"""Modules of Streamlit that its documentation describes; the last three for annotations."""


@pytest.fixture
def server(tmp_path, published_index):
    """Yield the address of a server without sessions."""
    shutil.copy(published_index, tmp_path)
    port = str(free_port())
    process = subprocess.Popen(
        server_command({"PORT": port, "CI": "true"}),
        cwd=ROOT,
        env=os.environ | {"EPSILON_HOME": str(tmp_path), "EPSILON_STORE_URL": ""},
    )
    address = f"http://localhost:{port}"
    while process.poll() is None and not answers(f"{address}/_stcore/health"):
        time.sleep(0.05)
    yield address
    process.terminate()
    process.wait(30)


async def faults(address):
    """Open a session and return the faults of its first script."""
    async with Session(address) as session:
        return session.faults


def test_link_to_a_page_opens_it_in_the_first_session(server):
    assert asyncio.run(faults(f"{server}/glossary")) == []
    assert asyncio.run(faults(f"{server}/no-such-page")) == ["page not found: /no-such-page"]


def test_poll_does_not_replace_a_waiting_user_request():
    """Streamlit 1.60 did this: a slider that was moved before a poll changed nothing."""
    requests = ScriptRequests()
    assert requests.request_rerun(RerunData(query_string="moved"))
    assert requests.request_rerun(RerunData(query_string="moved", fragment_id="view", is_auto_rerun=True))
    rerun = requests.on_scriptrunner_ready().rerun_data
    assert (rerun.query_string, rerun.fragment_id_queue) == ("moved", [])


def streamlit_names(path):
    """Return the full names of all parts of Streamlit that a module uses, such as ``streamlit.button``."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute):
            first, _, rest = ast.unparse(node).partition(".")
            names.add(f"{'streamlit' if first == 'st' else first}.{rest}")
    return {name for name in names if name.startswith("streamlit.")}


def is_public(name):
    """Return whether a part belongs to Streamlit's documented interface: no private name, no undocumented module."""
    parts = name.split(".")[1:]
    if any(part.startswith("_") and not part.endswith("__") for part in parts):
        return False
    if any(name == public or name.startswith(f"{public}.") for public in PUBLIC_MODULES):
        return True
    return not isinstance(getattr(streamlit, parts[0], None), ModuleType)


@pytest.mark.parametrize(
    "name",
    [
        "streamlit.config.get_option",
        "streamlit.delta_generator.DeltaGenerator._enqueue",
        "streamlit.runtime.app_session.AppSession",
        "streamlit.session_state._state",
    ],
)
def test_private_parts_of_streamlit_are_detected(name):
    assert not is_public(name)


def test_dashboard_uses_public_parts_of_streamlit_only():
    private = {
        module: found
        for module, path in FILES.items()
        if (found := {name for name in streamlit_names(path) if not is_public(name)})
    }
    server = private.pop("pages.startup.server", set())
    assert server == {"streamlit.watcher.polling_path_watcher"}  # the period of test_watchers_check_files_once_a_second
    assert not private, f"Parts of Streamlit that may change without notice: {private}"


WATCHED = """
import time
from pathlib import Path
from streamlit.watcher import polling_path_watcher
from pages.startup.server import WATCH_SECONDS
pauses = []
polling_path_watcher.time = type("Clock", (), {"sleep": staticmethod(lambda s: (pauses.append(s), time.sleep(0.01)))})
watcher = polling_path_watcher.PollingPathWatcher(str(Path("app.py")), print)
while not pauses:
    time.sleep(0.01)
watcher.close()
assert pauses[0] == WATCH_SECONDS, f"Streamlit checks files every {pauses[0]} s, expected {WATCH_SECONDS}"
"""


def test_watchers_check_files_once_a_second():
    """The server sets a private constant of Streamlit. If this fails, Streamlit has changed: find its new place."""
    subprocess.run([sys.executable, "-c", WATCHED], cwd=ROOT, check=True, timeout=600)
