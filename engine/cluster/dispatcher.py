"""The background process: a Dask cluster, and the loop that gives it the queued runs of the store.

``python -m engine.cluster.dispatcher`` is started by :mod:`engine.cluster.supervisor` when it is needed. With
EPSILON_SCHEDULER it uses the workers of that Dask scheduler, on other machines, in place of its own.
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

from engine import setup_status
from engine.cluster.supervisor import ClusterFiles
from engine.errors import EpsilonError, StoreError
from engine.hardware import lower_priority, processor
from engine.records import RunState
from engine.settings import Settings
from engine.store.run_store import RunStore, Unfinished

LOOK_SECONDS, SHARED_SECONDS = 5.0, 1.0
"""Between two looks at the store where nobody rings: an owner is gone, a worker was lost; or, in a store that several
machines share, a run was asked for on another one."""
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
"""What Dask does all the time for large graphs of small tasks, which runs are not: it took a tenth of a core. Nor does
it end workers that were silent for five minutes: so is everybody on a laptop that slept, and a worker that died is told
by its connection."""
SHUT: dict[str, list[str]] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
"""Dask's pages for whoever asks: they need no key, and nothing here looks at them."""
NICENESS = 5
"""Of workers on this machine: on the same cores pages are drawn that somebody looks at."""
IDLE_SECONDS = 60
"""After so long without work a cluster that never had an owner ends."""
MOST_WORKERS, WORKER_BYTES = 8, 1_200_000_000
"""Workers on this machine at most, and the memory that each is taken to need."""
FOR_WARMTH = (setup_status.VECTORS, setup_status.TRAINING)
"""Parts of set-up that a worker of this machine needs to be warm: if it waited for them, a run that is asked for
meanwhile could not say that it does so too."""
SILENT_SECONDS = 30
"""A running run whose worker, on another machine, has not been heard of for so long is given to another."""
ENDED_AGAIN = "The worker process ended again and again; its memory may be too small."
MOST_BETWEEN_LOOKS = 2 * LOOK_SECONDS
"""A longer time between two looks is none in which a worker was silent: this process stood still itself, with all
others where a laptop slept."""

log = logging.getLogger("epsilon.cluster")


def main() -> int:
    """Serve until the owners are gone, there is nothing to do, or SIGTERM; returns the exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    settings = Settings.from_environment()
    place = ClusterFiles(settings)
    stop: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: _stopped(received, stop, place))
    with place.exclusive_lock() as alone:
        if not alone:
            return 0
        place.ready.unlink(missing_ok=True)
        if not settings.scheduler:
            lower_priority(NICENESS)
        with ExitStack() as stack:
            wait = stack.enter_context(place.wait_for_notify())
            try:
                dispatcher = Dispatcher(settings, stack, place.notify)
            except EpsilonError as error:
                sys.stderr.write(f"{error}\n")  # its last line is what whoever started it is told
                return 1
            told = dispatcher.workers
            place.write_ready(told)
            stack.callback(place.ready.unlink, missing_ok=True)
            owned, busy = False, time.monotonic()
            while not stop:
                owners = place.living_owners()
                if owned and not owners:
                    break
                owned = owned or bool(owners)
                if dispatcher.step():
                    busy = time.monotonic()
                elif not owned and time.monotonic() - busy > IDLE_SECONDS:
                    break
                if dispatcher.workers != told:
                    told = dispatcher.workers
                    place.write_ready(told)
                wait(LOOK_SECONDS if settings.store_url.startswith("sqlite") else SHARED_SECONDS)
            dispatcher.requeue_all()
    return 0


def _stopped(number: int, stop: list[int], place: ClusterFiles) -> None:
    stop.append(number)
    place.notify()  # who waits for the bell goes on waiting after a signal


def workers_here(settings: Settings) -> int:
    """One for each thread that the processor runs at once, since runs side by side waste less than one run on all
    cores; a run that is alone takes them all (:func:`engine.cluster.worker.share_cores`). TensorFlow's threads cannot
    be shared out while it runs: half as many. Two hyper-threads of a core may compute two runs, each of which waits
    where the other multiplies; one run with two threads there would only wait for itself.
    """
    threads = processor().threads
    if settings.backend == "tensorflow":
        return max(1, threads // 2)
    by_memory: int = psutil.virtual_memory().total // 2 // WORKER_BYTES
    return max(1, min(threads, MOST_WORKERS, by_memory))


async def _stop(callback: Any) -> None:
    callback.stop()


class Dispatcher:
    """Hands queued runs to Dask, no more at a time than there are workers, the longest waiting first. ring: called when
    a run has ended, from another thread."""

    def __init__(self, settings: Settings, stack: ExitStack, ring: Callable[[], None]) -> None:
        import dask

        dask.config.set(QUIET | SHUT)  # before the next line, which reads some of it
        from distributed import Client, LocalCluster

        from engine.cluster import remote_workers, worker

        self.settings, self._ring = settings, ring
        self.store = RunStore(settings.store_url)
        stack.callback(self.store.close)
        self.holder = f"{socket.gethostname()}/{os.getpid()}"
        if settings.scheduler:
            self._client = remote_workers.connect(settings)
            stack.callback(lambda: self._client.close())
        else:
            slots = workers_here(settings)
            shared = slots if settings.backend == "tensorflow" else 1
            limits = worker.environment(max(1, processor().cores // shared))
            os.environ.update(limits)  # the workers inherit them; set later, TensorFlow would not look
            cluster = LocalCluster(
                n_workers=slots,
                threads_per_worker=1,
                resources={remote_workers.RESOURCE: 1},
                memory_limit=0,  # a paused worker would look like a dead one; the store counts those that die
                host="127.0.0.1",
                security=True,  # others on this machine could have code run by an open port
                dashboard_address=None,
                scheduler_sync_interval=60,
                heartbeat_interval="30s",  # that a worker died is told by its connection
                silence_logs=logging.WARNING,
                local_directory=str(settings.home / "cluster"),
            )
            stack.enter_context(cluster)
            for name in ("idle-timeout", "no-workers-timeout"):  # neither is set, yet both are looked at all the time
                cluster.sync(_stop, cluster.scheduler.periodic_callbacks[name])  # type: ignore[union-attr]
            self._client = stack.enter_context(Client(cluster))
        self._worker, self._membership = worker, remote_workers
        self.workers = 0 if settings.scheduler else slots
        """How many there are; of those on other machines, as of the last look."""
        self._number = 0
        self._given: dict[str, object] = {}
        self._warm: set[str] = set()
        """Addresses of workers that have been told to warm up."""
        self._heard: dict[str, tuple[float | None, float]] = {}
        """Of runs of other machines: the heartbeat that was seen last, and for how many seconds it has stayed so."""
        self._looked = time.monotonic()

    def step(self) -> bool:
        """Look once; returns whether anything is queued or running here."""
        if self._client.status in ("closing", "closed") and not self._connected_anew():
            return True
        if self.settings.scheduler or not (self._warm or setup_status.being_made(FOR_WARMTH)):
            self._warm_up()
        try:
            for run_id, future in list(self._given.items()):
                if future.done():  # type: ignore[attr-defined]
                    if future.status == "error":  # type: ignore[attr-defined]
                        self.store.fail(run_id, ENDED_AGAIN)
                    del self._given[run_id]
            waiting = self.store.unfinished()
            self._listen(waiting)
            slots = self._slots() if waiting else 0  # one question to Dask, however many runs wait
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
        """Queue again what is under way here: the workers end."""
        try:
            self.store.release(self.holder, in_order=True)
        except StoreError as error:  # the next cluster finds that this one is gone
            log.warning("%s", error)

    def _connected_anew(self) -> bool:
        """The scheduler on another machine was away for long; what was given out is cancelled, and given again."""
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

    def _listen(self, unfinished: Sequence[Unfinished]) -> None:
        """Note for how long each heartbeat has stayed as it was, by this machine's own clock: those of two machines
        may differ by hours, and any may be set."""
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, MOST_BETWEEN_LOOKS), now
        heard = {}
        for run in unfinished:
            before, silent = self._heard.get(run.run_id, (None, 0.0))
            heard[run.run_id] = (run.heartbeat, silent + passed if before == run.heartbeat else 0.0)
        self._heard = heard

    def _abandoned(self, run: Unfinished) -> bool:
        """Whether nobody computes a run that is marked as running."""
        if run.holder == self.holder or run.holder is None:
            return True  # ours, yet not among those that were given out
        host, _, pid = run.holder.rpartition("/")
        if host == socket.gethostname() and not psutil.pid_exists(int(pid)):
            return True
        return run.heartbeat is None or self._heard[run.run_id][1] > SILENT_SECONDS


if __name__ == "__main__":
    sys.exit(main())
