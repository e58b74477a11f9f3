"""Starting and stopping the cluster of workers on this machine.

The cluster is a separate process (:mod:`engine.cluster.dispatcher`) that finds queued runs in the store by itself.
Pages and shell commands only make sure that it runs, without importing Dask. Each home folder has at most one cluster.
It lives as long as one of its *owners* (processes such as the dashboard). Without any owner it ends once it has been
idle for a while.
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
"""Seconds that the cluster may take until it is ready."""
LOGS = 5
"""Number of earlier logs of the cluster that are kept."""
STOP_SECONDS = 8
"""Seconds that it may take to end before it is killed."""


class ClusterFiles:
    """The files in ``home/cluster`` through which the cluster and other processes find each other."""

    def __init__(self, settings: Settings) -> None:
        self.folder = settings.home / "cluster"
        self.owners = self.folder / "owners"
        self.ready = self.folder / "ready.json"
        self.lock = self.folder / "lock"
        self.fifo = self.folder / "bell"
        self.log = self.folder / "log.txt"
        self.older_log = self.folder / "log-1.txt"

    def make(self) -> None:
        """Create the folders. Raises ClusterError."""
        with self._writing():
            self.owners.mkdir(parents=True, exist_ok=True)

    def rotate_log(self) -> None:
        """Begin a new log, and keep the last ``LOGS`` logs with text: log-1.txt is the newest. Raises ClusterError."""
        with self._writing():
            if self.log.exists() and self.log.stat().st_size:
                for number in range(LOGS - 1, 0, -1):
                    with suppress(FileNotFoundError):
                        (self.folder / f"log-{number}.txt").replace(self.folder / f"log-{number + 1}.txt")
                self.log.replace(self.older_log)
            self.log.write_bytes(b"")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            raise ClusterError(f"The workers cannot start. {error}") from error
        except OSError as error:
            raise ClusterError(
                f"The workers cannot start: {self.folder} is not writable ({error.strerror})."
            ) from error

    @contextmanager
    def exclusive_lock(self) -> Iterator[bool]:
        """Hold the cluster's lock inside the block; yield False if a cluster holds it. It ends with the process."""
        self.make()
        with self.lock.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    def process(self) -> psutil.Process | None:
        """Return the cluster's process if it is ready for work."""
        try:
            identity = json.loads(self.ready.read_text())
            return _same(int(identity["pid"]), str(identity["started"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def workers(self) -> int:
        """Return the number of the cluster's workers; 0 if no cluster is ready."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            return int(json.loads(self.ready.read_text())["workers"]) if self.process() else 0
        return 0

    def write_ready(self, workers: int) -> None:
        """Record that this process is a ready cluster with so many workers."""
        with atomic_write(self.ready, "The status of the workers") as path:
            status = {"pid": os.getpid(), "started": _started(psutil.Process()), "workers": workers}
            path.write_text(json.dumps(status))

    def notify(self) -> None:
        """Make the cluster check the store immediately; do nothing if there is no cluster."""
        with suppress(OSError):
            fifo = os.open(self.fifo, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(fifo, b".")
            finally:
                os.close(fifo)

    @contextmanager
    def wait_for_notify(self) -> Iterator[Callable[[float], None]]:
        """Yield the cluster's function that waits for a notification, at most so many seconds."""
        self.fifo.unlink(missing_ok=True)
        os.mkfifo(self.fifo, 0o600)
        # Open for writing too: otherwise the FIFO would stay readable (end of file) after the last writer closed it.
        fifo = os.open(self.fifo, os.O_RDWR | os.O_NONBLOCK)

        def wait(seconds: float) -> None:
            if select.select([fifo], [], [], seconds)[0]:
                os.read(fifo, 65536)

        try:
            yield wait
        finally:
            os.close(fifo)
            self.fifo.unlink(missing_ok=True)

    def add_owner(self, pid: int) -> None:
        """Make a process an owner, which keeps the cluster alive. Raises ClusterError.

        The write is atomic: the cluster may read the owners at the same time, and would take an owner with an empty
        file for one that has ended.
        """
        with self._writing(), suppress(psutil.NoSuchProcess):
            started = _started(psutil.Process(pid))
            with atomic_write(self.owners / str(pid), "The cluster's list of owners") as path:
                path.write_text(started)

    def living_owners(self) -> list[int]:
        """Return the owners that are still running; remove the others."""
        living = []
        for path in self.owners.glob("[!.]*"):  # names with a dot are temporary
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
        """End a process's ownership. Errors are ignored: on a read-only disk, an ended process still does not count."""
        with suppress(OSError):
            (self.owners / str(pid)).unlink()


def _started(process: psutil.Process) -> str:
    """Return a text that distinguishes a process from a later one with the same number.

    On Linux it does not depend on the clock: the boot's identifier, and the ticks from boot to the start of the
    process. psutil's start time moves with the clock there. On other systems it is that time in seconds since 1970.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]  # proc(5), field 22
    except OSError:
        return f"{process.create_time():.2f}"
    return f"{boot} {ticks}"


def _same(pid: int, started: str) -> psutil.Process | None:
    """Return the process with this number if it is still the one that ``started`` identifies."""
    try:
        process = psutil.Process(pid)
        alive = _started(process) == started and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return None
    return process if alive else None


def ensure_cluster(settings: Settings, owner_pid: int | None = None) -> None:
    """Start a cluster unless there is one; return when it is ready.

    Args:
        settings: The settings.
        owner_pid: Process that becomes an owner of the cluster, or None.

    Raises:
        ClusterError: If the cluster cannot start.
    """
    files = ClusterFiles(settings)
    files.make()
    if owner_pid:
        files.add_owner(owner_pid)
    if files.process():
        files.notify()
        return
    files.rotate_log()
    process = _start(files, settings)
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if files.process():
            return
        code = process.poll()
        if code:
            raise ClusterError(f"The workers cannot start: {_last_line(files.log)}")
        if code == 0:  # another cluster holds the lock: it will be ready soon, or is about to end
            process = _start(files, settings)
        time.sleep(0.05)
    raise ClusterError(f"The workers were not ready after {START_SECONDS} s. See {files.log}.")


def _start(files: ClusterFiles, settings: Settings) -> subprocess.Popen[bytes]:
    with files.log.open("ab") as log:
        # A new session: Ctrl-C in a terminal must not reach the workers before the cluster can end in order.
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
    """Return the environment variables from which the cluster's process reads the same settings."""
    return {
        "EPSILON_HOME": str(settings.home),
        "EPSILON_DATA_DIR": str(settings.data_dir or ""),
        "EPSILON_SCHEDULER": settings.scheduler or "",
        "EPSILON_CLUSTER_KEY": str(settings.cluster_key or ""),
        "EPSILON_BACKEND": settings.backend,
        **settings.address_variables,
    }


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "the process ended without a message"


def stop_cluster(settings: Settings, owner_pid: int) -> None:
    """End a process's ownership, and stop the cluster with its workers if it has no other owner.

    Running runs are requeued and continue in the next cluster.
    """
    files = ClusterFiles(settings)
    files.forget_owner(owner_pid)
    process = files.process()
    if process is None or not files.owners.is_dir() or set(files.living_owners()) - {owner_pid}:
        return
    try:
        processes = [process, *process.children(recursive=True)]
        process.send_signal(signal.SIGTERM)
    except psutil.NoSuchProcess:
        return
    _, alive = psutil.wait_procs(processes, STOP_SECONDS)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()
