"""Starting the dashboard and keeping it running: the port, the address, invalid settings, processes that end."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine import serve
from engine.cluster import supervisor
from engine.errors import ClusterError, InvalidConfig
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
    assert command[command.index("--browser.serverAddress") + 1] == "localhost"  # else Streamlit looks it up outside
    for here in ("localhost", "127.0.0.1", "::1"):
        assert "--browser.serverAddress" not in serve.server_command({"STREAMLIT_SERVER_ADDRESS": here})
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


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_port_of_another_program_exits_with_code_2(tmp_path, address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as other:
        port = other.getsockname()[1]
        called = subprocess.run(
            [sys.executable, "-m", "engine.serve"],
            env={"PORT": str(port), "STREAMLIT_SERVER_ADDRESS": address, "EPSILON_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
    assert called.returncode == 2
    assert called.stderr == f"PORT={port} is in use: stop the program that uses it, or choose another port\n"
    assert not (tmp_path / "home").exists()
    serve.check_port({"PORT": str(port), "STREAMLIT_SERVER_ADDRESS": address})


@pytest.mark.parametrize(("argument", "code"), [("--help", 0), ("--port", 2), ("9000", 2)])
def test_arguments_start_no_server(argument, code):
    called = subprocess.run(
        [sys.executable, "-m", "engine.serve", argument],
        env={"PORT": "x"},  # a start would name it
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert called.returncode == code
    assert "usage: python -m engine.serve" in (called.stderr if code else called.stdout)
    assert "PORT=x" not in called.stderr


def test_invalid_backend_is_named(monkeypatch):
    monkeypatch.setenv("EPSILON_BACKEND", "abacus")
    with pytest.raises(InvalidConfig, match=r"EPSILON_BACKEND=abacus,.* compiled, tensorflow"):
        Settings.from_environment()


UNTIL_CLOSED = "import time; from engine import launcher_pipe; launcher_pipe.end_with_launcher(); time.sleep(600)"


@pytest.fixture
def server():
    server = serve.Server([sys.executable, "-c", UNTIL_CLOSED])
    yield server
    serve.stop(server.process)


def test_server_that_ends_unexpectedly_is_started_again(server, monkeypatch):
    monkeypatch.setattr(serve, "SHORT_LIFE", 0.0)
    first = server.process
    assert server.keep() is None
    assert server.process is first
    first.kill()
    first.wait()
    assert server.keep() is None
    assert server.process is not first
    assert server.process.poll() is None


def test_server_that_is_killed_at_once_is_started_again_after_a_pause(server, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(serve.time, "monotonic", lambda: now[0])
    server._began = now[0]
    pauses = []
    for _ in range(8):
        killed = server.process
        killed.kill()
        killed.wait()
        ended = now[0]
        while server.process is killed:
            assert server.keep() is None
            now[0] += 0.25
        pauses.append(now[0] - ended)
    assert pauses[0] <= 2 * serve.CHECK
    assert all(one < other for one, other in pairwise(pauses[:6]))
    assert pauses[-1] == pytest.approx(serve.LONGEST_PAUSE, abs=0.5)
    now[0] += serve.SHORT_LIFE
    server.process.kill()
    server.process.wait()
    assert server.keep() is None
    assert server.process.poll() is None


def test_server_that_ends_at_once_is_not_started_again():
    """As with an invalid configuration file of Streamlit."""
    server = serve.Server([sys.executable, "-c", "raise SystemExit(3)"])
    assert server.process.wait() == 3
    assert server.keep() == 3


def test_server_notices_the_end_of_its_launcher(server):
    os.close(server._writer)
    assert server.process.wait(60) == -signal.SIGTERM


ENDED_CHILD = """
import subprocess, sys, threading
from engine import serve
wakeups = serve.Wakeups()
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
threading.Timer(1.0, child.stdin.close).start()
while child.poll() is None:
    wakeups.wait(3600)
"""


def test_end_of_a_child_process_ends_a_wait():
    subprocess.run([sys.executable, "-c", ENDED_CHILD], cwd=ROOT, check=True, timeout=600)


class Cluster:
    """A cluster that is started by ``ensure_cluster`` and ends when a test says so."""

    def __init__(self, monkeypatch, *, alive=False, problem=None) -> None:
        self.starts, self.alive, self.problem, self.stopping = 0, alive, problem, threading.Event()
        self.older_log = "log-1.txt"
        monkeypatch.setattr(supervisor, "ClusterFiles", lambda _: self)
        monkeypatch.setattr(supervisor, "ensure_cluster", self.start)
        monkeypatch.setattr(serve, "CHECK", 0.01)
        monkeypatch.setattr(serve, "LONGEST_PAUSE", 0.02)
        self.thread = threading.Thread(target=serve.keep_cluster, args=(SimpleNamespace(), self.stopping))
        self.thread.start()

    def process(self):
        return self if self.alive else None

    def start(self, settings, owner):
        self.starts += 1
        if self.problem:
            raise ClusterError(self.problem)
        self.alive = True

    def until_started(self, times):
        while self.starts < times:
            time.sleep(0.005)

    def end(self):
        self.stopping.set()
        self.thread.join()


def test_cluster_that_ends_is_started_again(monkeypatch, capsys):
    cluster = Cluster(monkeypatch)
    cluster.until_started(1)
    time.sleep(0.1)
    assert cluster.starts == 1
    cluster.alive = False
    cluster.until_started(2)
    cluster.end()
    said = capsys.readouterr()
    assert "log-1.txt" in said.out + said.err


def test_running_cluster_gets_one_more_owner(monkeypatch, capsys):
    cluster = Cluster(monkeypatch, alive=True)
    cluster.until_started(1)
    cluster.end()
    said = capsys.readouterr()
    assert said.out + said.err == ""


def test_problem_of_the_cluster_is_reported_once(monkeypatch, capsys):
    cluster = Cluster(monkeypatch, problem="The workers cannot start: no memory.")
    cluster.until_started(3)
    cluster.end()
    said = capsys.readouterr()
    assert (said.out + said.err).count("no memory") == 1


def test_logs_of_earlier_clusters_are_kept(tmp_path):
    files = supervisor.ClusterFiles(Settings(home=tmp_path, data_dir=None, store_url="sqlite://"))
    files.make()
    for number in range(supervisor.LOGS + 3):
        files.rotate_log()
        files.log.write_text(f"crash {number}")
    files.rotate_log()
    files.rotate_log()  # an empty log is not worth a file
    logs = sorted(path.name for path in files.folder.glob("log-*.txt"))
    assert logs == [f"log-{number}.txt" for number in range(1, supervisor.LOGS + 1)]
    assert files.older_log.read_text() == f"crash {supervisor.LOGS + 2}"
    assert files.log.read_text() == ""


@pytest.mark.parametrize("ends", [True, False])
def test_retention_runs_daily_until_the_dashboard_stops(monkeypatch, tmp_path, ends):
    """A running deletion is ended with the dashboard."""
    stopping, started = threading.Event(), tmp_path / "started"
    code = f"open({str(started)!r}, 'a').write('.')" + ("" if ends else "; import time; time.sleep(600)")
    monkeypatch.setattr(serve, "RETENTION", [sys.executable, "-c", code])
    monkeypatch.setattr(serve, "FIRST_RETENTION", 0.0)
    monkeypatch.setattr(serve, "RETENTION_PAUSE", 0.0)
    thread = threading.Thread(target=serve.keep_retention, args=(stopping,))
    thread.start()
    while not started.exists() or started.stat().st_size < (2 if ends else 1):
        time.sleep(0.01)
    stopping.set()
    thread.join(30)
    assert not thread.is_alive()


def test_metrics_token_that_other_users_can_read_is_refused(tmp_path):
    token = tmp_path / "token"
    token.write_text("a token of many characters")
    token.chmod(0o644)
    called = subprocess.run(
        [sys.executable, "-m", "engine.serve"],
        env={"EPSILON_METRICS_TOKEN_FILE": str(token), "EPSILON_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=60,
    )
    assert called.returncode == 2
    assert f"EPSILON_METRICS_TOKEN_FILE={token} may be read by other users: chmod 600" in called.stderr + called.stdout
