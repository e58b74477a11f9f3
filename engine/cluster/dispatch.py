"""The cluster of workers on this machine: starting it, and letting it go.

The cluster is a process of its own (:mod:`engine.cluster.process`). It finds queued runs in the store by itself, so a
page or a shell only has to see that it is there: neither imports Dask. There is at most one for each home, and it lives
as long as one of its *owners* does (the dashboard, say), or, if it never had one, until it has been idle for a while.
"""

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from engine.artefacts import written_whole
from engine.errors import ClusterError
from engine.settings import REPOSITORY, Settings

START_SECONDS = 60
"""How long the cluster may take until it is ready."""
STOP_SECONDS = 8
"""How long it may take to end by itself before it is killed."""


class Place:
    """The files by which a cluster and those who need it find each other, in ``home/cluster``."""

    def __init__(self, settings: Settings) -> None:
        self.folder = settings.home / "cluster"
        self.owners = self.folder / "owners"
        self.ready = self.folder / "ready.json"
        self.lock = self.folder / "lock"
        self.bell = self.folder / "bell"
        self.log = self.folder / "log.txt"

    def make(self) -> None:
        """Create the folders. Raises ClusterError."""
        try:
            self.owners.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ClusterError(
                f"The workers cannot start: {self.folder} cannot be written ({error.strerror})."
            ) from error

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Hold the cluster's lock inside the block; False if a cluster holds it. It ends with the process."""
        self.make()
        with self.lock.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    def process(self) -> psutil.Process | None:
        """The cluster's process if it is ready for work."""
        try:
            identity = json.loads(self.ready.read_text())
            return _same(int(identity["pid"]), float(identity["started"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def say_ready(self) -> None:
        """Called by the cluster once its workers are there."""
        with written_whole(self.ready, "What tells that the workers are ready") as passing:
            passing.write_text(json.dumps({"pid": os.getpid(), "started": psutil.Process().create_time()}))

    def ring(self) -> None:
        """Have the cluster look for runs at once. Where none is there, or it was told already, nothing happens."""
        with suppress(OSError):
            bell = os.open(self.bell, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(bell, b".")
            finally:
                os.close(bell)

    @contextmanager
    def listening(self) -> Iterator[Callable[[float], None]]:
        """Called by the cluster: what waits until somebody rings, so many seconds at most."""
        self.bell.unlink(missing_ok=True)
        os.mkfifo(self.bell, 0o600)
        # Open for writing too: else it would seem to be rung for ever once the last who rang has hung up.
        bell = os.open(self.bell, os.O_RDWR | os.O_NONBLOCK)

        def wait(seconds: float) -> None:
            if select.select([bell], [], [], seconds)[0]:
                os.read(bell, 65536)

        try:
            yield wait
        finally:
            os.close(bell)
            self.bell.unlink(missing_ok=True)

    def add_owner(self, pid: int) -> None:
        """The cluster shall live as long as this process."""
        with suppress(psutil.NoSuchProcess):
            (self.owners / str(pid)).write_text(str(psutil.Process(pid).create_time()))

    def living_owners(self) -> list[int]:
        """Owners that have not ended; the others are forgotten."""
        living = []
        for path in self.owners.iterdir():
            try:
                process = _same(int(path.name), float(path.read_text() or "nan"))
            except (OSError, ValueError):
                process = None
            if process:
                living.append(process.pid)
            else:
                path.unlink(missing_ok=True)
        return living


def _same(pid: int, started: float) -> psutil.Process | None:
    """The process with this number, if it is still the one that started then."""
    try:
        process = psutil.Process(pid)
        alive = abs(process.create_time() - started) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return None
    return process if alive else None


def ensure_cluster(settings: Settings, owner_pid: int | None = None) -> None:
    """See that a cluster is there, or start one; returns when it is ready. Raises ClusterError.

    owner_pid: a process with which the cluster shall end.
    """
    place = Place(settings)
    place.make()
    if owner_pid:
        place.add_owner(owner_pid)
    if place.process():
        place.ring()
        return
    place.log.write_bytes(b"")
    process = _start(place, settings)
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if place.process():
            return
        code = process.poll()
        if code:
            raise ClusterError(f"The workers cannot start: {_last_line(place.log)}")
        if code == 0:  # another one has the lock: it will be ready soon, or it is about to end
            process = _start(place, settings)
        time.sleep(0.05)
    raise ClusterError(f"The workers were not ready after {START_SECONDS} s; {place.log} may tell why.")


def _start(place: Place, settings: Settings) -> subprocess.Popen[bytes]:
    with place.log.open("ab") as log:
        # A session of its own: Ctrl-C in a terminal must not reach the workers before the cluster can end in order.
        return subprocess.Popen(
            [sys.executable, "-m", "engine.cluster.process"],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=os.environ | _environment(settings),
        )


def _environment(settings: Settings) -> dict[str, str]:
    """The settings for the cluster's process, which reads them from its environment as this one did."""
    return {
        "EPSILON_HOME": str(settings.home),
        "EPSILON_DATA_DIR": str(settings.data_dir or ""),
        "EPSILON_STORE_URL": settings.store_url,
        "EPSILON_SCHEDULER": settings.scheduler or "",
        "EPSILON_CLUSTER_KEY": str(settings.cluster_key or ""),
        "EPSILON_BACKEND": settings.backend,
        "EPSILON_ARTEFACTS": settings.shared or "",
    }


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "it ended without a word"


def stop_cluster(settings: Settings, owner_pid: int) -> None:
    """Give up ownership; a cluster that has no other owner ends with its workers, and is gone on return.

    Runs that were under way are queued again and go on with the next cluster.
    """
    place = Place(settings)
    (place.owners / str(owner_pid)).unlink(missing_ok=True)
    process = place.process()
    if process is None or not place.owners.is_dir() or place.living_owners():
        return
    try:
        family = [process, *process.children(recursive=True)]
        process.send_signal(signal.SIGTERM)
    except psutil.NoSuchProcess:
        return
    _, left = psutil.wait_procs(family, STOP_SECONDS)
    for one in left:
        with suppress(psutil.NoSuchProcess):
            one.kill()
