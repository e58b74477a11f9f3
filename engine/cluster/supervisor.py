"""The cluster of workers on this machine: starting it, and letting it go.

The cluster is a process of its own (:mod:`engine.cluster.dispatcher`). It finds queued runs in the store by itself, so
a page or a shell only has to see that it is there: neither imports Dask. There is at most one for each home, and it
lives as long as one of its *owners* does (the dashboard, say), or, if it never had one, until it has been idle for a
while.
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

from engine.artifact_store import atomic_write
from engine.errors import ClusterError, StoreError
from engine.settings import REPOSITORY, Settings

START_SECONDS = 60
"""How long the cluster may take until it is ready."""
STOP_SECONDS = 8
"""How long it may take to end by itself before it is killed."""


class ClusterFiles:
    """The files by which a cluster and those who need it find each other, in ``home/cluster``."""

    def __init__(self, settings: Settings) -> None:
        self.folder = settings.home / "cluster"
        self.owners = self.folder / "owners"
        self.ready = self.folder / "ready.json"
        self.lock = self.folder / "lock"
        self.fifo = self.folder / "bell"
        self.log = self.folder / "log.txt"

    def make(self) -> None:
        """Create the folders. Raises ClusterError."""
        with self._writing():
            self.owners.mkdir(parents=True, exist_ok=True)

    def empty_log(self) -> None:
        """Begin the log anew. Raises ClusterError."""
        with self._writing():
            self.log.write_bytes(b"")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            raise ClusterError(f"The workers cannot start. {error}") from error
        except OSError as error:
            raise ClusterError(
                f"The workers cannot start: {self.folder} cannot be written ({error.strerror})."
            ) from error

    @contextmanager
    def exclusive_lock(self) -> Iterator[bool]:
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
            return _same(int(identity["pid"]), str(identity["started"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def workers(self) -> int:
        """How many workers the cluster's process hands runs to; 0 where it is not there."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            return int(json.loads(self.ready.read_text())["workers"]) if self.process() else 0
        return 0

    def write_ready(self, workers: int) -> None:
        """Called by the cluster once its workers are there, and when there are more or fewer of them."""
        with atomic_write(self.ready, "What tells that the workers are ready") as passing:
            said = {"pid": os.getpid(), "started": _started(psutil.Process()), "workers": workers}
            passing.write_text(json.dumps(said))

    def notify(self) -> None:
        """Have the cluster look for runs at once. Where none is there, or it was told already, nothing happens."""
        with suppress(OSError):
            bell = os.open(self.fifo, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(bell, b".")
            finally:
                os.close(bell)

    @contextmanager
    def wait_for_notify(self) -> Iterator[Callable[[float], None]]:
        """Called by the cluster: what waits until somebody rings, so many seconds at most."""
        self.fifo.unlink(missing_ok=True)
        os.mkfifo(self.fifo, 0o600)
        # Open for writing too: else it would seem to be rung for ever once the last who rang has hung up.
        bell = os.open(self.fifo, os.O_RDWR | os.O_NONBLOCK)

        def wait(seconds: float) -> None:
            if select.select([bell], [], [], seconds)[0]:
                os.read(bell, 65536)

        try:
            yield wait
        finally:
            os.close(bell)
            self.fifo.unlink(missing_ok=True)

    def add_owner(self, pid: int) -> None:
        """The cluster shall live as long as this process. Raises ClusterError.

        Written whole: the cluster, woken by one request, looks at the owners during the next, and would take one whose
        file is empty at that moment for one that has ended.
        """
        with self._writing(), suppress(psutil.NoSuchProcess):
            started = _started(psutil.Process(pid))
            with atomic_write(self.owners / str(pid), "Whom the workers are for") as passing:
                passing.write_text(started)

    def living_owners(self) -> list[int]:
        """Owners that have not ended; the others are forgotten."""
        living = []
        for path in self.owners.glob("[!.]*"):  # what begins with a dot is being written
            try:
                process = _same(int(path.name), path.read_text())
            except (OSError, ValueError):
                process = None
            if process:
                living.append(process.pid)
            else:
                self.forget_owner(path.name)
        return living

    def forget_owner(self, pid: int | str) -> None:
        """The cluster shall live no longer for this process; one that has ended is no owner where it cannot be
        forgotten, because the disk has become read-only."""
        with suppress(OSError):
            (self.owners / str(pid)).unlink()


def _started(process: psutil.Process) -> str:
    """What tells a process from a later one with its number, however the clock of the machine is set meanwhile: on
    Linux which start of the machine it belongs to, and the ticks from there to its own; elsewhere seconds since 1970.

    The time of day at which a process started, as psutil has it, moves with the clock there.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]  # proc(5), field 22
    except OSError:
        return f"{process.create_time():.2f}"
    return f"{boot} {ticks}"


def _same(pid: int, started: str) -> psutil.Process | None:
    """The process with this number, if it is still the one that started then."""
    try:
        process = psutil.Process(pid)
        alive = _started(process) == started and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return None
    return process if alive else None


def ensure_cluster(settings: Settings, owner_pid: int | None = None) -> None:
    """See that a cluster is there, or start one; returns when it is ready. Raises ClusterError.

    owner_pid: a process with which the cluster shall end.
    """
    place = ClusterFiles(settings)
    place.make()
    if owner_pid:
        place.add_owner(owner_pid)
    if place.process():
        place.notify()
        return
    place.empty_log()
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


def _start(place: ClusterFiles, settings: Settings) -> subprocess.Popen[bytes]:
    with place.log.open("ab") as log:
        # A session of its own: Ctrl-C in a terminal must not reach the workers before the cluster can end in order.
        return subprocess.Popen(
            [sys.executable, "-m", "engine.cluster.dispatcher"],
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
        "EPSILON_ARTIFACT_URL": settings.shared or "",
    }


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "it ended without a word"


def stop_cluster(settings: Settings, owner_pid: int) -> None:
    """Give up ownership; a cluster that has no other owner ends with its workers, and is gone on return.

    Runs that were under way are queued again and go on with the next cluster.
    """
    place = ClusterFiles(settings)
    place.forget_owner(owner_pid)
    process = place.process()
    if process is None or not place.owners.is_dir() or set(place.living_owners()) - {owner_pid}:
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
