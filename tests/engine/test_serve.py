"""Starting the dashboard: the port, the address, and invalid settings."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine import serve
from engine.errors import InvalidConfig
from engine.settings import Settings
from tests.engine.access.test_roles import text as access_text

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("port", ["0", "70000", "-1", "http", "80 80", "٣"])
def test_invalid_port_is_named(port):
    with pytest.raises(InvalidConfig, match=rf"PORT={port},.* 1 to 65535\b"):
        serve.server_command({"PORT": port})


def test_port_is_passed_to_the_server():
    command = serve.server_command({"PORT": "9000"})
    assert command[command.index("--server.port") + 1] == "9000"
    assert "--server.port" not in serve.server_command({})


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "", "192.168.1.5", "example.org", "localhost.example.org"])
def test_public_address_requires_sign_in(address):
    with pytest.raises(InvalidConfig, match=f"STREAMLIT_SERVER_ADDRESS={address} without EPSILON_ACCESS_FILE"):
        serve.server_command({"STREAMLIT_SERVER_ADDRESS": address})


def test_public_address_with_sign_in(tmp_path):
    file = tmp_path / "access.toml"
    file.write_text(access_text())
    file.chmod(0o600)
    command = serve.server_command({"STREAMLIT_SERVER_ADDRESS": "0.0.0.0"}, file)
    assert command[command.index("--secrets.files") + 1] == str(file)
    for here in ("localhost", "127.0.0.1", "::1"):
        assert "--secrets.files" not in serve.server_command({"STREAMLIT_SERVER_ADDRESS": here})
    file.chmod(0o640)
    with pytest.raises(InvalidConfig, match="read by other users"):
        serve.server_command({}, file)


def test_invalid_port_exits_with_code_2():
    called = subprocess.run(
        [sys.executable, "-m", "engine.serve"],
        env={"PORT": "x"},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert called.returncode == 2
    (said,) = called.stderr.splitlines()
    assert all(part in said for part in ("PORT=x, ", "1 to 65535"))


def test_invalid_backend_is_named(monkeypatch):
    monkeypatch.setenv("EPSILON_BACKEND", "abacus")
    with pytest.raises(InvalidConfig, match=r"EPSILON_BACKEND=abacus,.* compiled, tensorflow"):
        Settings.from_environment()
