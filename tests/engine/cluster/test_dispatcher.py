"""The dispatcher: queued runs, workers, heartbeats and failures."""

import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import psutil
import pytest

from engine import setup_status
from engine.cluster import dispatcher as dispatcher_process
from engine.cluster import remote_workers, worker
from engine.cluster.supervisor import ClusterFiles
from engine.errors import ClusterError, RunStopped, StoreUnavailable
from engine.records import RunState
from engine.settings import REPOSITORY
from engine.setup_status import Progress
from engine.store.run_store import RunStore
from tests.engine.factories import SMALL


class FakeFuture:
    """A Dask future that is pending until a test sets its status."""

    status = "pending"

    def __init__(self) -> None:
        self.callbacks: list[Any] = []

    def add_done_callback(self, call: Any) -> None:
        """Record the callback."""
        self.callbacks.append(call)

    def done(self) -> bool:
        """Return whether the future is no longer pending."""
        return self.status != "pending"


class FakeClient:
    """A Dask client with a number of worker threads. It records submitted calls and never runs them."""

    def __init__(self, threads: int) -> None:
        self.threads, self.asked = threads, 0
        self.given: list[tuple[Any, ...]] = []

    status = "running"

    def scheduler_info(self) -> dict[str, Any]:
        """Return Dask's description of the workers by address; two of them are not of this version."""
        self.asked += 1
        fitting = {f"worker {number}": {"resources": {remote_workers.RESOURCE: 1}} for number in range(self.threads)}
        return {"workers": {**fitting, "other": {"resources": {"epsilon-explorer-0.1.0": 1}}, "bare": {}}}

    def submit(self, call: Any, *arguments: Any, **_: Any) -> FakeFuture:
        """Record the arguments of a call."""
        self.given.append(arguments)
        return FakeFuture()


LONG = 600
"""Timeout in seconds that no test reaches, since each waiting process is woken before."""
NOTIFY = """
import sys
from dataclasses import replace
from pathlib import Path
from engine.cluster.supervisor import ClusterFiles
from engine.settings import Settings
ClusterFiles(replace(Settings.from_environment(), home=Path(sys.argv[1]))).notify()
"""


@pytest.fixture
def dispatcher(settings):
    made = object.__new__(dispatcher_process.Dispatcher)
    made.settings, made.store, made.holder = settings, RunStore(settings.store_url), "here/1"
    client: Any = FakeClient(2)
    made._client, made._given, made._number, made._warm = client, {}, 0, {"worker 0", "worker 1"}
    made._worker, made._membership, made._ring = worker, remote_workers, ClusterFiles(settings).notify
    made._heard, made._looked = {}, time.monotonic()
    yield made
    made.store.close()


def test_oldest_runs_are_submitted_one_per_worker(dispatcher):
    for number in range(5):
        dispatcher.store.submit(f"{number:016}", SMALL, "checksum")
    assert dispatcher.step()
    assert [run_id for run_id, *_ in dispatcher._client.given] == [f"{number:016}" for number in range(2)]
    ClusterFiles(dispatcher.settings).make()
    first = dispatcher._given[f"{0:016}"]
    with ClusterFiles(dispatcher.settings).wait_for_notify() as wait:
        first.callbacks[0](first)
        start = time.monotonic()
        wait(LONG)
        assert time.monotonic() - start < LONG
    dispatcher.store.claim(f"{0:016}", "here/1")
    dispatcher.store.cancel(f"{0:016}")
    first.status = "finished"
    dispatcher.step()
    assert [run_id for run_id, *_ in dispatcher._client.given][2:] == [f"{2:016}"]


def test_a_step_with_many_queued_runs_asks_dask_once(dispatcher):
    """Each query is a round trip to Dask's scheduler."""
    for number in range(60):
        dispatcher.store.submit(f"{number:016}", SMALL, "checksum")
    dispatcher.step()
    dispatcher._client.asked = 0
    dispatcher.step()
    assert dispatcher._client.asked == 1
    assert dispatcher.store.status(f"{59:016}").state == RunState.QUEUED


def test_workers_receive_the_addresses_of_store_and_shared_files(dispatcher):
    dispatcher.store.submit("a" * 16, SMALL, "checksum")
    dispatcher.step()
    ((_, addresses, holder),) = dispatcher._client.given
    assert addresses == {"store_url": dispatcher.settings.store_url, "shared": None, "backend": "compiled"}
    assert holder == "here/1"


class TestNotify:
    def test_notify_wakes_a_waiting_process(self, settings):
        files = ClusterFiles(settings)
        files.make()
        with files.wait_for_notify() as wait:
            files.notify()
            files.notify()
            start = time.monotonic()
            wait(LONG)  # returns at once after both notifications
            other = subprocess.Popen([sys.executable, "-c", NOTIFY, str(settings.home)], cwd=REPOSITORY)
            wait(LONG)
            assert other.wait(60) == 0
            assert time.monotonic() - start < LONG  # neither wait timed out
            start = time.monotonic()
            wait(0.2)
            assert time.monotonic() - start >= 0.2

    def test_notify_does_not_block_without_a_reader(self, settings):
        files = ClusterFiles(settings)
        files.notify()
        files.make()
        with files.wait_for_notify():
            for _ in range(70_000):  # more than the capacity of a pipe
                files.notify()
        files.notify()
        assert not files.fifo.exists()


def test_warm_up_waits_for_the_installation(dispatcher, tmp_path, monkeypatch):
    """Otherwise a run that is submitted meanwhile would wait behind the warm-up without a message."""
    monkeypatch.setattr(setup_status, "FOLDER", tmp_path)
    dispatcher._warm = set()
    with setup_status.alone(lambda: None):
        setup_status.tell(
            Progress(parts=(setup_status.VECTORS, setup_status.TRAINING, setup_status.LANGUAGE_MODEL), over=1)
        )
        dispatcher.step()
        assert dispatcher._client.given == []
        setup_status.tell(
            Progress(parts=(setup_status.VECTORS, setup_status.TRAINING, setup_status.LANGUAGE_MODEL), over=2)
        )
        dispatcher.step()
        dispatcher.step()
    assert len(dispatcher._client.given) == 2


def test_remote_workers_are_warmed_up_during_the_installation(dispatcher, tmp_path, monkeypatch):
    monkeypatch.setattr(setup_status, "FOLDER", tmp_path)
    remote = replace(dispatcher.settings, scheduler="tls://there:1", cluster_key=tmp_path / "key")
    dispatcher._warm, dispatcher.settings = {"worker 1"}, remote
    with setup_status.alone(lambda: None):
        setup_status.tell(Progress(parts=(setup_status.VECTORS, setup_status.TRAINING)))
        dispatcher.step()
    assert len(dispatcher._client.given) == 1
    assert dispatcher.workers == 2


async def seconds_between_heartbeats(dask_worker):
    """Return a worker's interval after a heartbeat, whose answer may change it."""
    await dask_worker.heartbeat()
    return dask_worker.periodic_callbacks["heartbeat"].callback_time / 1000


@pytest.mark.repeats(area="processes")
def test_local_workers_rarely_send_heartbeats_and_may_be_silent(settings, monkeypatch):
    from distributed import scheduler

    monkeypatch.setattr(dispatcher_process, "workers_here", lambda _settings: 1)
    monkeypatch.setattr(worker, "environment", lambda _cores: {})
    monkeypatch.setattr(scheduler, "heartbeat_interval", scheduler.heartbeat_interval)  # restored after the test
    with ExitStack() as stack:
        made = dispatcher_process.Dispatcher(settings, stack, lambda: None)
        assert made._client.cluster.scheduler.worker_ttl is None
        assert list(made._client.run(seconds_between_heartbeats).values()) == [
            dispatcher_process.DASK_HEARTBEAT_SECONDS
        ]


def test_reconnected_scheduler_gets_its_runs_again(dispatcher, monkeypatch):
    dispatcher.store.submit("a" * 16, SMALL, "checksum")
    dispatcher.step()
    dispatcher.store.claim("a" * 16, "here/1")
    dispatcher._client.status = "closed"
    dispatcher._given["a" * 16].status = "cancelled"

    def unavailable(_: Any) -> Any:
        raise ClusterError("EPSILON_SCHEDULER=tls://there:1 does not answer.")

    monkeypatch.setattr(remote_workers, "connect", unavailable)
    assert dispatcher.step()  # it keeps trying
    assert dispatcher._client.status == "closed"
    reconnected = FakeClient(1)
    monkeypatch.setattr(remote_workers, "connect", lambda _: reconnected)
    dispatcher.step()
    dispatcher.step()
    assert [run_id for run_id, *_ in reconnected.given] == ["a" * 16]


class TestRemoteWorker:
    """A worker is alive while its heartbeats change; their time of day does not matter."""

    RUN = "a" * 16

    @pytest.fixture
    def clock(self, monkeypatch):
        """Replace the monotonic clock of the dispatcher; tests add seconds to its only item."""
        seconds = [1000.0]
        monkeypatch.setattr(dispatcher_process.time, "monotonic", lambda: seconds[0])
        return seconds

    @pytest.fixture
    def claim(self, dispatcher):
        dispatcher.store.submit(self.RUN, SMALL, "checksum")
        return dispatcher.store.claim(self.RUN, "elsewhere/1")

    def beat(self, dispatcher, claim, monkeypatch, hours):
        """Send a heartbeat from a machine with a clock offset in hours; raise RunStopped if the run was requeued."""
        real = time.time
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: real() + 3600 * hours)
            dispatcher.store.heartbeat(claim, "training", 0.5)

    @pytest.mark.parametrize("hours", [-1, 1])
    def test_clock_offset_does_not_change_the_heartbeat_timeout(self, dispatcher, claim, clock, monkeypatch, hours):
        for _ in range(20):
            self.beat(dispatcher, claim, monkeypatch, hours)
            clock[0] += dispatcher_process.LOOK_SECONDS
            dispatcher.step()
        self.beat(dispatcher, claim, monkeypatch, hours)
        for _ in range(int(dispatcher_process.SILENT_SECONDS / dispatcher_process.LOOK_SECONDS)):
            clock[0] += dispatcher_process.LOOK_SECONDS
            dispatcher.step()
        assert dispatcher.store.status(self.RUN).state == RunState.RUNNING
        for _ in range(3):  # the checks see the last heartbeat, pass the limit, and submit the run
            clock[0] += dispatcher_process.LOOK_SECONDS
            dispatcher.step()
        assert [run_id for run_id, *_ in dispatcher._client.given] == [self.RUN]
        with pytest.raises(RunStopped):
            dispatcher.store.heartbeat(claim, "training", 0.5)

    def test_an_hour_between_two_checks_requeues_no_run(self, dispatcher, claim, clock, monkeypatch):
        """All processes of a laptop are suspended and resumed together."""
        self.beat(dispatcher, claim, monkeypatch, 0)
        dispatcher.step()
        clock[0] += 3600.0
        dispatcher.step()
        assert dispatcher.store.status(self.RUN).state == RunState.RUNNING
        self.beat(dispatcher, claim, monkeypatch, 0)

    def test_requeueing_a_run_keeps_other_runs_of_its_machine(self, dispatcher, claim, clock, monkeypatch):
        dispatcher.store.submit("b" * 16, SMALL, "checksum")
        other = dispatcher.store.claim("b" * 16, "elsewhere/1")
        for _ in range(10):
            self.beat(dispatcher, other, monkeypatch, 0)
            clock[0] += dispatcher_process.LOOK_SECONDS
            dispatcher.step()
        assert [run_id for run_id, *_ in dispatcher._client.given] == [self.RUN]
        self.beat(dispatcher, other, monkeypatch, 0)


def test_dispatcher_survives_an_unavailable_database(dispatcher, monkeypatch):
    """The dispatcher writes the failure once the database is available again."""
    dispatcher.store.submit("a" * 16, SMALL, "checksum")
    dispatcher.step()
    dispatcher._given["a" * 16].status = "error"

    def unavailable(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("The database postgresql://there cannot be reached: nothing answers there.")

    with monkeypatch.context() as patch:
        patch.setattr(dispatcher_process.time, "sleep", lambda _: None)
        for name in ("fail", "unfinished", "release"):
            patch.setattr(dispatcher.store, name, unavailable)
        assert dispatcher.step()  # it keeps trying
        dispatcher.requeue_all()
    dispatcher.step()
    assert "crashed several times" in dispatcher.store.status("a" * 16).error


@pytest.mark.skipif(sys.platform != "linux", reason="on other systems the start time of a process does not move")
def test_owners_and_process_survive_a_changed_clock(settings, monkeypatch):
    """On Linux, psutil's start time of a process moves with the machine's clock."""
    files, real = ClusterFiles(settings), psutil.Process.create_time
    files.make()
    files.add_owner(os.getpid())
    files.write_ready(1)
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: real(self) + 3600)
    assert files.living_owners() == [os.getpid()]
    assert files.process().pid == os.getpid()


@pytest.mark.repeats(area="processes")
def test_add_owner_is_atomic(settings):
    """A partly written owner file must never look like an ended owner, which would end the cluster.

    Each request writes the file and notifies the cluster, which may read it during the next request.
    """
    files = ClusterFiles(settings)
    files.make()
    files.add_owner(os.getpid())
    stop = threading.Event()

    def add_owner() -> None:
        while not stop.is_set():
            files.add_owner(os.getpid())

    thread = threading.Thread(target=add_owner)
    thread.start()
    try:
        results = [files.living_owners() for _ in range(5_000)]
    finally:
        stop.set()
        thread.join()
    assert all(owners == [os.getpid()] for owners in results)
    assert [path.name for path in files.folder.glob("owner-*")] == []
