"""Simulated machines: one network namespace each, joined by a bridge, so that each can be disconnected.

Where the system refuses namespaces, each machine has a loopback address of its own, and a disconnected machine is
stopped with SIGSTOP instead.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

BRIDGE = "eps-br"
NETWORK = "10.233.77.0/24"
_LOCK = Path(tempfile.gettempdir()) / "epsilon-tests-network"


@contextmanager
def network(*, changes: bool) -> Iterator[None]:
    """Lock this machine's network until the block ends: exclusively for changes, shared for tests that rely on it.

    Tests run in parallel, and a browser stops loading a page when a link appears or disappears (ERR_NETWORK_CHANGED).
    """
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if changes else fcntl.LOCK_SH)
        yield


@dataclass
class Host:
    """A simulated machine.

    Args:
        within: prefix of a command that runs on this machine; empty where the system refuses namespaces.
    """

    name: str
    address: str
    within: tuple[str, ...]
    home: Path
    log: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, command: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        """Start a process on this host that ends with it; append its output to the host's log."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [*self.within, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"EPSILON_HOME": str(self.home)} | environment,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def ask(self, command: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a command on this host to its end."""
        return subprocess.run(
            [*self.within, *command],
            capture_output=True,
            text=True,
            env=os.environ | {"EPSILON_HOME": str(self.home)} | environment,
            timeout=300,
            check=False,
        )

    def cut_off(self) -> None:
        """Disconnect this host from the others."""
        if self.within:
            _ip("link", "set", f"{BRIDGE}-{self.name}", "down")
        else:
            self._signal(signal.SIGSTOP)

    def bring_back(self) -> None:
        """Reconnect this host."""
        if self.within:
            _ip("link", "set", f"{BRIDGE}-{self.name}", "up")
        else:
            self._signal(signal.SIGCONT)

    def end(self) -> None:
        """End all processes of this host."""
        if not self.within:
            self._signal(signal.SIGCONT)
        for process in self._family():
            process.terminate()
        _, left = psutil.wait_procs(self._family(), 10)
        for process in left:
            process.kill()

    def _signal(self, number: signal.Signals) -> None:
        for process in self._family():
            process.send_signal(number)

    def _family(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("EPSILON_HOME") == str(self.home):
                    found.append(process)
            except psutil.Error:
                continue
        return found


@contextmanager
def hosts(names: Sequence[str], folder: Path) -> Iterator[dict[str, Host]]:
    """Start simulated machines with these names and end them after the block."""
    with network(changes=True):
        yield from _hosts(names, folder)


def _hosts(names: Sequence[str], folder: Path) -> Iterator[dict[str, Host]]:
    apart = _namespaces()
    made = {}
    for number, name in enumerate(names, 1):
        home = folder / name
        home.mkdir()
        address = f"10.233.77.{number}" if apart else f"127.0.77.{number}"
        within = ("ip", "netns", "exec", f"epsilon-{name}") if apart else ()
        made[name] = Host(name, address, within, home, folder / f"{name}.log")
    try:
        if apart:
            _ip("link", "add", BRIDGE, "type", "bridge")
            _ip("address", "add", "10.233.77.254/24", "dev", BRIDGE)
            _ip("link", "set", BRIDGE, "up")
            for host in made.values():
                _join(host)
        yield made
    finally:
        for host in made.values():
            host.end()
        if apart:
            _take_down(names)


def _join(host: Host) -> None:
    space, outside = f"epsilon-{host.name}", f"{BRIDGE}-{host.name}"
    _ip("netns", "add", space)
    _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space)
    _ip("link", "set", outside, "master", BRIDGE, "up")
    _ip("-n", space, "address", "add", f"{host.address}/24", "dev", "eth0")
    _ip("-n", space, "link", "set", "eth0", "up")
    _ip("-n", space, "link", "set", "lo", "up")


def _take_down(names: Sequence[str]) -> None:
    for name in names:
        subprocess.run(["ip", "netns", "delete", f"epsilon-{name}"], capture_output=True, check=False)
    subprocess.run(["ip", "link", "delete", BRIDGE], capture_output=True, check=False)


def _namespaces() -> bool:
    """Return whether this system allows network namespaces with links."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    tried = "epsilon-tried"
    made = subprocess.run(["ip", "netns", "add", tried], capture_output=True, check=False).returncode == 0
    pair = ["ip", "link", "add", f"{BRIDGE}-t", "type", "veth", "peer", "name", "eth0", "netns", tried]
    joined = made and subprocess.run(pair, capture_output=True, check=False).returncode == 0
    subprocess.run(["ip", "netns", "delete", tried], capture_output=True, check=False)
    return joined


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
