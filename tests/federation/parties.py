"""A federation on loopback: a server and three clients, each with its own files and process."""

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from federation.keys import make_client_keys
from tests.browser.driving import wait_for

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = (1, 2, 3)
"""Client numbers."""
SECONDS = 60
"""Time that the server waits for a client: on a machine with other load, 40 s were too few for three at once."""

START_SECONDS = 300
"""Time in which the server must register all clients on a busy machine, in seconds."""
REGISTERED = "registered successfully"
"""Flower's message for each registered client."""


def free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [int(listener.getsockname()[1]) for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


class Parties:
    """A server and its clients.

    Args:
        python: interpreter of `make federation`.
        folder: folder of all files.
        fields: shared settings of the server and all clients.
    """

    def __init__(self, python: str, folder: Path, fields: Mapping[str, Any]) -> None:
        self.python, self.folder, self.fields = python, folder, fields
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = os.environ | {"EPSILON_HOME": str(folder / "home"), "NUMBA_NUM_THREADS": "1"}
        self.environment["FLWR_SUPEREXEC_TASK_POLL_INTERVAL"] = "0.1"  # seconds; the default is 1

    def agree(self, without: Collection[int] = ()) -> None:
        """Write all configuration files and keys, and a file with sentences for each client.

        Args:
            without: clients without a file, which use sentences of the corpus.
        """
        ports = free_ports(1 + len(NUMBERS))
        self._write_file("server.toml", ports)
        self.verb("server-keys", "server.toml")
        self.verb("split", "server.toml")
        for number in NUMBERS:
            own = f'[client]\nnumber = {number}\nfolder = "hospital-{number}"\nport = {ports[number]}\n'
            data = "" if number in without else f'data = "client-{number}.conll"\n'
            self._write_file(f"{number}.toml", ports, own + data)
            home = self.folder / f"hospital-{number}"
            if number == 1:
                self.verb("client-keys", "1.toml")
            else:
                make_client_keys(home)
            (home / "certificate.pem").write_bytes((self.folder / "server" / "certificate.pem").read_bytes())
            (self.folder / "server" / "clients" / f"{number}.pub").write_bytes((home / "key.pub").read_bytes())

    def begin(self) -> None:
        """Start the server and all clients: the first before the server knows its key, so that it must try again.

        A client that is refused starts its processes again, which takes seconds of processor time.
        """
        self.start("server", "server", "server.toml")
        first, *others = NUMBERS
        self.start(str(first), "client", f"{first}.toml")
        wait_for(self._all_registered, START_SECONDS)
        for number in others:
            self.start(str(number), "client", f"{number}.toml")

    def _all_registered(self) -> bool:
        assert self.running["server"].poll() is None, self.logs()
        return (self.folder / "server.log").read_text().count(REGISTERED) == len(NUMBERS)

    def _write_file(self, name: str, ports: list[int], client: str = "") -> None:
        settings = "\n".join(f"{key} = {json.dumps(value)}" for key, value in self.fields.items())
        server = f'[server]\naddress = "127.0.0.1:{ports[0]}"\nfolder = "server"\nseconds = {SECONDS}'
        (self.folder / name).write_text(f'name = "a try"\n[settings]\n{settings}\n{server}\n{client}')

    def verb(self, verb: str, file: str) -> str:
        """Run a command to its end and return its output."""
        return subprocess.run(
            [self.python, "-m", "federation", verb, self.folder / file],
            cwd=ROOT,
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def start(self, name: str, verb: str, file: str) -> None:
        """Start a command in the background."""
        with open(self.folder / f"{name}.log", "w") as log:
            self.running[name] = subprocess.Popen(
                [self.python, "-m", "federation", verb, self.folder / file],
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that end() reaches its child processes
            )

    def end(self, name: str) -> None:
        """Kill a process and its children."""
        process = self.running.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def end_all(self) -> None:
        for name in list(self.running):
            self.end(name)

    def logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in sorted(self.folder.glob("*.log")))
