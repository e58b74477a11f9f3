"""Starting the dashboard: the port, and settings that are none."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import InvalidConfig
from engine.launch import serve
from engine.settings import Settings

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("port", ["0", "70000", "-1", "http", "80 80", "٣"])
def test_a_port_that_is_none_is_named(port):
    with pytest.raises(InvalidConfig, match=f"PORT={port}, expected a number from 1 to 65535"):
        serve.server_command({"PORT": port})


def test_the_port_reaches_the_server():
    command = serve.server_command({"PORT": "9000"})
    assert command[command.index("--server.port") + 1] == "9000"
    assert "--server.port" not in serve.server_command({})


def test_a_bad_port_ends_with_2_and_one_sentence():
    called = subprocess.run(
        [sys.executable, "-m", "engine.launch.serve"],
        env={"PORT": "x"},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert called.returncode == 2
    assert called.stderr == "PORT=x, expected a number from 1 to 65535\n"


def test_a_back_end_that_is_none_is_named(monkeypatch):
    monkeypatch.setenv("EPSILON_BACKEND", "abacus")
    with pytest.raises(InvalidConfig, match="EPSILON_BACKEND=abacus, expected one of compiled, tensorflow"):
        Settings.from_environment()
