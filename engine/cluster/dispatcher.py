"""The background process: a Dask cluster, and the loop that submits the store's queued runs to it.

:mod:`engine.cluster.supervisor` starts ``python -m engine.cluster.dispatcher`` when it is needed. With
EPSILON_SCHEDULER it uses the workers of that Dask scheduler, on other machines, instead of its own.
"""

import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import psutil

from engine import file_access, setup_status
from engine.cluster.supervisor import ClusterFiles
from engine.errors import EpsilonError, StoreError
from engine.hardware import lower_priority, memory, processor
from engine.records import RunState
from engine.settings import Settings
from engine.store import noise_keys
from engine.store.run_store import RunStore, Unfinished

LOOK_SECONDS, SHARED_SECONDS = 5.0, 1.0
"""Seconds between two checks of the store without a notification, locally and for a store that machines share.

They detect that an owner has ended, that a worker was lost, or that another machine has submitted a run.
"""
QUIET = {
    "distributed.admin.system-monitor.interval": "1h",
    "distributed.admin.tick.cycle": "1m",
    "distributed.admin.tick.interval": "1m",
    "distributed.admin.tick.limit": "1h",
    "distributed.client.scheduler-info-interval": "1m",
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.worker-ttl": None,
    "distributed.worker.profile.enabled": False,
}
"""Dask settings that disable periodic work for large graphs of small tasks.

Runs do not need it, and it took a tenth of a core. Dask also must not end workers after five minutes of silence: all
workers are silent when a laptop sleeps, and the connection shows that a worker has died.
"""
DASK_HEARTBEAT_SECONDS = 30
"""Seconds between two heartbeats of a worker on this machine to Dask; the connection shows that a worker has died."""
SHUT: dict[str, list[str]] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
"""Disables Dask's HTTP pages, which need no key and which this program does not use."""
NICENESS = 5
"""Niceness of workers on this machine, which share the cores with the pages that users wait for."""
IDLE_SECONDS = 60
"""Seconds without work after which a cluster without owners ends."""
MOST_WORKERS, WORKER_BYTES = 8, 1_200_000_000
"""Maximum number of workers on this machine, and the memory that each needs, in bytes."""
FOR_WARMTH = (setup_status.VECTORS, setup_status.TRAINING)
"""Parts of the installation that warm-up needs.

Warm-up starts only after them: a worker that waited for them in its warm-up could not show that its next run waits too.
"""
SILENT_SECONDS = 30
"""Seconds without a heartbeat in the store after which a run on another machine is given to another worker."""
ENDED_AGAIN = "The worker process crashed several times; it may need more memory."
MOST_BETWEEN_LOOKS = 2 * LOOK_SECONDS
"""Largest number of seconds between two checks that counts as a worker's silence.

After a longer time this process was suspended itself, for example when a laptop slept.
"""

log = logging.getLogger("epsilon.cluster")


def main() -> int:
    """Dispatch runs until the owners have ended, the cluster is idle, or SIGTERM arrives; return the exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    file_access.protect_process()
    settings = Settings.from_environment()
    if problem := file_access.correct(settings.home):
        log.warning("%s", problem)
    files = ClusterFiles(settings)
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: _stopped(received, signals, files))
    with files.exclusive_lock() as locked:
        if not locked:
            return 0
        files.ready.unlink(missing_ok=True)
        if not settings.scheduler:
            lower_priority(NICENESS)
        with ExitStack() as stack:
            wait = stack.enter_context(files.wait_for_notify())
            try:
                dispatcher = Dispatcher(settings, stack, files.notify)
            except EpsilonError as error:
                sys.stderr.write(f"{error}\n")  # the supervisor reports the last line to the user
                return 1
            workers = dispatcher.workers
            files.write_ready(workers)
            stack.callback(files.ready.unlink, missing_ok=True)
            owned, busy = False, time.monotonic()
            while not signals:
                owners = files.living_owners()
                if owned and not owners:
                    break
                owned = owned or bool(owners)
                if dispatcher.step():
                    busy = time.monotonic()
                elif not owned and time.monotonic() - busy > IDLE_SECONDS:
                    break
                if dispatcher.workers != workers:
                    workers = dispatcher.workers
                    files.write_ready(workers)
                wait(LOOK_SECONDS if settings.store_url.startswith("sqlite") else SHARED_SECONDS)
            dispatcher.requeue_all()
    return 0


def _stopped(number: int, signals: list[int], files: ClusterFiles) -> None:
    signals.append(number)
    files.notify()  # select() continues to wait after a signal


def workers_here(settings: Settings) -> int:
    """Return the number of workers for this machine: one for each hyper-thread, within the limits of memory.

    Parallel runs waste less time than one run on all cores. A single run uses all cores
    (:func:`engine.cluster.worker.share_cores`). TensorFlow's thread pools cannot be resized while it runs, so it gets
    half as many workers. Two hyper-threads of a core can compute two runs, of which one multiplies while the other
    waits for memory; one run with two threads there would only wait for itself.
    """
    threads = processor().threads
    if settings.backend == "tensorflow":
        return max(1, threads // 2)
    by_memory = memory() // 2 // WORKER_BYTES
    return max(1, min(threads, MOST_WORKERS, by_memory))


async def _stop(callback: Any) -> None:
    callback.stop()


class Dispatcher:
    """Submits queued runs to Dask in the order of the queue, at most one for each worker.

    Args:
        settings: The settings.
        stack: Context in which the cluster and its connections stay open.
        ring: Callback from another thread when a run has ended.
    """

    def __init__(self, settings: Settings, stack: ExitStack, ring: Callable[[], None]) -> None:
        import dask

        dask.config.set(QUIET | SHUT)  # before the next line, which reads some of these settings
        from distributed import Client, LocalCluster
        from distributed import scheduler as dask_scheduler

        from engine.cluster import remote_workers, worker

        self.settings, self._ring = settings, ring
        self.store = RunStore(settings.store_url)
        stack.callback(self.store.close)
        noise_keys.sweep(settings, self.store.status)
        self.holder = f"{socket.gethostname()}/{os.getpid()}"
        if settings.scheduler:
            self._client = remote_workers.connect(settings)
            stack.callback(lambda: self._client.close())
        else:
            slots = workers_here(settings)
            shared = slots if settings.backend == "tensorflow" else 1
            limits = worker.environment(max(1, processor().cores // shared))
            os.environ.update(limits)  # the workers inherit them; TensorFlow would ignore later changes
            # The answer to a heartbeat replaces the interval below: half a second for up to ten workers. The client of
            # this process sends its heartbeats ten times as rarely.
            dask_scheduler.heartbeat_interval = lambda n: DASK_HEARTBEAT_SECONDS
            cluster = LocalCluster(
                n_workers=slots,
                threads_per_worker=1,
                resources={remote_workers.RESOURCE: 1},
                memory_limit=0,  # a paused worker would look like a dead one; the store counts crashes
                host="127.0.0.1",
                security=True,  # other users of this machine could execute code through an open port
                dashboard_address=None,
                scheduler_sync_interval=60,
                heartbeat_interval=f"{DASK_HEARTBEAT_SECONDS}s",
                silence_logs=logging.WARNING,
                local_directory=str(settings.home / "cluster"),
            )
            stack.enter_context(cluster)
            for name in ("idle-timeout", "no-workers-timeout"):  # neither is set, but Dask polls both
                cluster.sync(_stop, cluster.scheduler.periodic_callbacks[name])  # type: ignore[union-attr]
            self._client = stack.enter_context(Client(cluster))
        self._worker, self._membership = worker, remote_workers
        self.workers = 0 if settings.scheduler else slots
        """Number of workers; on other machines, as of the last check."""
        self._number = 0
        self._given: dict[str, object] = {}
        self._warm: set[str] = set()
        """Addresses of workers that have received a warm-up task."""
        self._heard: dict[str, tuple[float | None, float]] = {}
        """The last heartbeat of each unfinished run, and the seconds since it changed."""
        self._looked = time.monotonic()

    def step(self) -> bool:
        """Check the store once and submit runs; return whether any run is queued or running."""
        if self._client.status in ("closing", "closed") and not self._reconnect():
            return True
        if self.settings.scheduler or not (self._warm or setup_status.being_made(FOR_WARMTH)):
            self._warm_up()
        try:
            for run_id, future in list(self._given.items()):
                if future.done():  # type: ignore[attr-defined]
                    if future.status == "error":  # type: ignore[attr-defined]
                        self.store.fail(run_id, ENDED_AGAIN)
                        noise_keys.sweep(self.settings, self.store.status)
                    del self._given[run_id]
            waiting = self.store.unfinished()
            self._update_heartbeats(waiting)
            slots = self._slots() if waiting else 0  # one request to Dask, however many runs are queued
            for run in waiting:
                if run.run_id in self._given:
                    continue
                if run.state == RunState.RUNNING:
                    if self._abandoned(run):
                        self.store.release(str(run.holder), in_order=False, run_id=run.run_id)
                elif len(self._given) < slots:
                    self._number += 1
                    future = self._client.submit(
                        self._worker.execute,
                        run.run_id,
                        self.settings.addresses,
                        self.holder,
                        key=f"{run.run_id}-{self.holder}-{self._number}",
                        pure=False,
                        resources={self._membership.RESOURCE: 1},
                    )
                    future.add_done_callback(lambda _: self._ring())
                    self._given[run.run_id] = future
        except StoreError as error:
            log.warning("%s", error)
            time.sleep(1)
            return True
        return bool(waiting or self._given)

    def requeue_all(self) -> None:
        """Requeue the running runs of this cluster, whose workers are ending."""
        try:
            self.store.release(self.holder, in_order=True)
        except StoreError as error:  # the next cluster detects that this one has ended
            log.warning("%s", error)

    def _reconnect(self) -> bool:
        """Reconnect after a long absence of the remote scheduler, and return whether that succeeded.

        The submitted runs are cancelled then and submitted again.
        """
        try:
            self._client = self._membership.connect(self.settings)
        except EpsilonError as error:
            log.warning("%s", error)
            return False
        return True

    def _warm_up(self) -> None:
        members = set(self._membership.members(self._client))
        for address in members - self._warm:
            key = f"{self._membership.WARM}{address}"
            self._client.submit(self._worker.warm_up, self.settings.addresses, workers=[address], key=key, priority=1)
        self._warm = members
        self.workers = len(members)

    def _slots(self) -> int:
        return len(self._membership.members(self._client))

    def _update_heartbeats(self, unfinished: Sequence[Unfinished]) -> None:
        """Record how long each heartbeat has been unchanged by this machine's monotonic clock.

        Clocks of two machines may differ by hours, and any clock may be set.
        """
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, MOST_BETWEEN_LOOKS), now
        heard = {}
        for run in unfinished:
            before, silent = self._heard.get(run.run_id, (None, 0.0))
            heard[run.run_id] = (run.heartbeat, silent + passed if before == run.heartbeat else 0.0)
        self._heard = heard

    def _abandoned(self, run: Unfinished) -> bool:
        """Return whether a run that is marked as running has lost its worker."""
        if run.holder == self.holder or run.holder is None:
            return True  # a run of this cluster that is not among those submitted to Dask
        host, _, pid = run.holder.rpartition("/")
        if host == socket.gethostname() and not psutil.pid_exists(int(pid)):
            return True
        return run.heartbeat is None or self._heard[run.run_id][1] > SILENT_SECONDS


if __name__ == "__main__":
    sys.exit(main())
