"""Starting the dashboard: the port, and what set-up leaves alone."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import InvalidConfig
from engine.launch import install, serve
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


def test_what_is_installed_is_left_alone(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(install.subprocess, "run", lambda command, **_: calls.append(command) or Done())
    assert install.install_requirements(install.PRODUCT, tmp_path)
    assert install.install_requirements(install.PRODUCT, tmp_path)
    assert len(calls) == 1
    (tmp_path / "installed-requirements.txt").write_text("other")
    assert install.install_requirements(install.PRODUCT, tmp_path)
    assert len(calls) == 2


class Done:
    returncode = 0


def test_vectors_are_tried_from_each_place_in_turn():
    places = install.vector_commands("en_core_web_md")
    assert "spacy" in places[0]
    assert "pip" in places[1]
    assert len(install.vector_commands("en_core_web_lg")) == 1
