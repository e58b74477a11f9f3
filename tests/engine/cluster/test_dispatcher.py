"""How queued runs are handed to workers."""

import os
import subprocess
import sys
import threading
import time
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


class Asked:
    """Dask's future of a run."""

    status = "pending"

    def __init__(self) -> None:
        self.callbacks: list[Any] = []

    def add_done_callback(self, call: Any) -> None:
        """Keep who is to be told that it has ended."""
        self.callbacks.append(call)

    def done(self) -> bool:
        """Whether it has ended."""
        return self.status != "pending"


class Workers:
    """Dask's client, as far as it is asked: so many threads; calls are kept and never done."""

    def __init__(self, threads: int) -> None:
        self.threads, self.asked = threads, 0
        self.given: list[tuple[Any, ...]] = []

    status = "running"

    def scheduler_info(self) -> dict[str, Any]:
        """What Dask tells of workers, by their addresses: the last one is of another version."""
        self.asked += 1
        fitting = {f"worker {number}": {"resources": {remote_workers.RESOURCE: 1}} for number in range(self.threads)}
        return {"workers": {**fitting, "other": {"resources": {"epsilon-explorer-0.1.0": 1}}, "bare": {}}}

    def submit(self, call: Any, *arguments: Any, **_: Any) -> Asked:
        """Keep a call."""
        self.given.append(arguments)
        return Asked()


LONG = 600
"""Seconds that nothing here waits for: who is woken at all is woken long before."""
RINGS = """
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
    client: Any = Workers(2)
    made._client, made._given, made._number, made._warm = client, {}, 0, {"worker 0", "worker 1"}
    made._worker, made._membership, made._ring = worker, remote_workers, ClusterFiles(settings).notify
    made._heard, made._looked = {}, time.monotonic()
    yield made
    made.store.close()


def test_as_many_runs_are_given_as_there_are_workers_the_longest_waiting_first(dispatcher):
    for number in range(5):
        dispatcher.store.submit(f"{number:016}", SMALL, "checksum")
    assert dispatcher.step()
    assert [run_id for run_id, *_ in dispatcher._client.given] == [f"{number:016}" for number in range(2)]
    ClusterFiles(dispatcher.settings).make()
    first = dispatcher._given[f"{0:016}"]
    with ClusterFiles(dispatcher.settings).wait_for_notify() as wait:
        first.callbacks[0](first)
        begun = time.monotonic()
        wait(LONG)
        assert time.monotonic() - begun < LONG
    dispatcher.store.claim(f"{0:016}", "here/1")
    dispatcher.store.cancel(f"{0:016}")
    first.status = "finished"
    dispatcher.step()
    assert [run_id for run_id, *_ in dispatcher._client.given][2:] == [f"{2:016}"]


def test_many_runs_that_wait_cost_one_question(dispatcher):
    """Each question to Dask is a message to its scheduler and back."""
    for number in range(60):
        dispatcher.store.submit(f"{number:016}", SMALL, "checksum")
    dispatcher.step()
    dispatcher._client.asked = 0
    dispatcher.step()
    assert dispatcher._client.asked == 1
    assert dispatcher.store.status(f"{59:016}").state == RunState.QUEUED


def test_workers_get_addresses_and_no_folders(dispatcher):
    dispatcher.store.submit("a" * 16, SMALL, "checksum")
    dispatcher.step()
    ((_, addresses, holder),) = dispatcher._client.given
    assert addresses == {"store_url": dispatcher.settings.store_url, "shared": None, "backend": "compiled"}
    assert holder == "here/1"


class TestTheBell:
    def test_who_waits_goes_on_when_somebody_rings_and_not_before(self, settings):
        place = ClusterFiles(settings)
        place.make()
        with place.wait_for_notify() as wait:
            place.notify()
            place.notify()
            begun = time.monotonic()
            wait(LONG)  # both at once
            other = subprocess.Popen([sys.executable, "-c", RINGS, str(settings.home)], cwd=REPOSITORY)
            wait(LONG)
            assert other.wait(60) == 0
            assert time.monotonic() - begun < LONG  # neither was waited for in vain
            begun = time.monotonic()
            wait(0.2)
            assert time.monotonic() - begun >= 0.2

    def test_nobody_is_kept_waiting_where_nobody_listens(self, settings):
        place = ClusterFiles(settings)
        place.notify()
        place.make()
        with place.wait_for_notify():
            for _ in range(70_000):  # more than a pipe holds
                place.notify()
        place.notify()
        assert not place.fifo.exists()


def test_workers_are_not_warmed_up_while_what_they_need_is_set_up(dispatcher, tmp_path, monkeypatch):
    """Else a run that is asked for meanwhile would wait behind them without a word."""
    monkeypatch.setattr(setup_status, "FOLDER", tmp_path)
    dispatcher._warm = set()
    with setup_status.alone(lambda: None):
        setup_status.tell(Progress(parts=(setup_status.VECTORS, setup_status.TRAINING, setup_status.BYTE_CODE), over=1))
        dispatcher.step()
        assert dispatcher._client.given == []
        setup_status.tell(Progress(parts=(setup_status.VECTORS, setup_status.TRAINING, setup_status.BYTE_CODE), over=2))
        dispatcher.step()
        dispatcher.step()
    assert len(dispatcher._client.given) == 2


def test_workers_on_other_machines_are_warmed_up_at_once(dispatcher, tmp_path, monkeypatch):
    monkeypatch.setattr(setup_status, "FOLDER", tmp_path)
    there = replace(dispatcher.settings, scheduler="tls://there:1", cluster_key=tmp_path / "key")
    dispatcher._warm, dispatcher.settings = {"worker 1"}, there
    with setup_status.alone(lambda: None):
        setup_status.tell(Progress(parts=(setup_status.VECTORS, setup_status.TRAINING)))
        dispatcher.step()
    assert len(dispatcher._client.given) == 1
    assert dispatcher.workers == 2


def test_a_scheduler_that_was_away_for_long_is_connected_to_again_and_runs_are_given_again(dispatcher, monkeypatch):
    dispatcher.store.submit("a" * 16, SMALL, "checksum")
    dispatcher.step()
    dispatcher.store.claim("a" * 16, "here/1")
    dispatcher._client.status = "closed"
    dispatcher._given["a" * 16].status = "cancelled"

    def away(_: Any) -> Any:
        raise ClusterError("EPSILON_SCHEDULER=tls://there:1 does not answer.")

    monkeypatch.setattr(remote_workers, "connect", away)
    assert dispatcher.step()  # it goes on trying
    assert dispatcher._client.status == "closed"
    again = Workers(1)
    monkeypatch.setattr(remote_workers, "connect", lambda _: again)
    dispatcher.step()
    dispatcher.step()
    assert [run_id for run_id, *_ in again.given] == ["a" * 16]


class TestAWorkerOfAnotherMachine:
    """Whether it is alive is told by its heartbeats' going on, never by their time of day."""

    RUN = "a" * 16

    @pytest.fixture
    def clock(self, monkeypatch):
        """This machine's own clock: what passes between two looks of the dispatcher."""
        hand = [1000.0]
        monkeypatch.setattr(dispatcher_process.time, "monotonic", lambda: hand[0])
        return hand

    @pytest.fixture
    def claim(self, dispatcher):
        dispatcher.store.submit(self.RUN, SMALL, "checksum")
        return dispatcher.store.claim(self.RUN, "elsewhere/1")

    def beat(self, dispatcher, claim, monkeypatch, hours):
        """A heartbeat by a machine whose clock is off by so many hours. Raises RunStopped where the run was taken."""
        honest = time.time
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: honest() + 3600 * hours)
            dispatcher.store.heartbeat(claim, "training", 0.5)

    @pytest.mark.parametrize("hours", [-1, 1])
    def test_its_clock_may_be_an_hour_off(self, dispatcher, claim, clock, monkeypatch, hours):
        for _ in range(20):
            self.beat(dispatcher, claim, monkeypatch, hours)
            clock[0] += dispatcher_process.LOOK_SECONDS
            dispatcher.step()
        self.beat(dispatcher, claim, monkeypatch, hours)
        for _ in range(int(dispatcher_process.SILENT_SECONDS / dispatcher_process.LOOK_SECONDS)):
            clock[0] += dispatcher_process.LOOK_SECONDS
            dispatcher.step()
        assert dispatcher.store.status(self.RUN).state == RunState.RUNNING
        for _ in range(3):  # one look notes the last heartbeat, one passes the limit, one gives the run out
            clock[0] += dispatcher_process.LOOK_SECONDS
            dispatcher.step()
        assert [run_id for run_id, *_ in dispatcher._client.given] == [self.RUN]
        with pytest.raises(RunStopped):
            dispatcher.store.heartbeat(claim, "training", 0.5)

    def test_an_hour_between_two_looks_releases_no_run(self, dispatcher, claim, clock, monkeypatch):
        """All processes of a laptop are suspended and resumed together."""
        self.beat(dispatcher, claim, monkeypatch, 0)
        dispatcher.step()
        clock[0] += 3600.0
        dispatcher.step()
        assert dispatcher.store.status(self.RUN).state == RunState.RUNNING
        self.beat(dispatcher, claim, monkeypatch, 0)

    def test_a_run_that_is_taken_costs_the_others_of_its_machine_nothing(self, dispatcher, claim, clock, monkeypatch):
        dispatcher.store.submit("b" * 16, SMALL, "checksum")
        other = dispatcher.store.claim("b" * 16, "elsewhere/1")
        for _ in range(10):
            self.beat(dispatcher, other, monkeypatch, 0)
            clock[0] += dispatcher_process.LOOK_SECONDS
            dispatcher.step()
        assert [run_id for run_id, *_ in dispatcher._client.given] == [self.RUN]
        self.beat(dispatcher, other, monkeypatch, 0)


def test_a_database_that_is_away_ends_nothing(dispatcher, monkeypatch):
    """What could not be written is written once it is back."""
    dispatcher.store.submit("a" * 16, SMALL, "checksum")
    dispatcher.step()
    dispatcher._given["a" * 16].status = "error"

    def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("The database postgresql://there cannot be reached: nothing answers there.")

    with monkeypatch.context() as patch:
        patch.setattr(dispatcher_process.time, "sleep", lambda _: None)
        for name in ("fail", "unfinished", "release"):
            patch.setattr(dispatcher.store, name, away)
        assert dispatcher.step()  # it goes on trying
        dispatcher.requeue_all()
    dispatcher.step()
    assert "crashed several times" in dispatcher.store.status("a" * 16).error


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the time at which a process started does not move")
def test_a_clock_that_is_set_ends_no_cluster(settings, monkeypatch):
    """psutil's time at which a process started moves with the machine's clock, by the hour that it is set."""
    place, honest = ClusterFiles(settings), psutil.Process.create_time
    place.make()
    place.add_owner(os.getpid())
    place.write_ready(1)
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: honest(self) + 3600)
    assert place.living_owners() == [os.getpid()]
    assert place.process().pid == os.getpid()


def test_an_owner_is_there_whole_while_it_says_again_that_it_is(settings):
    """Each request says so, and wakes the cluster, which looks during the next: an owner that was half written was
    taken for one that has ended, and the cluster ended with it."""
    place = ClusterFiles(settings)
    place.make()
    place.add_owner(os.getpid())
    over = threading.Event()

    def say() -> None:
        while not over.is_set():
            place.add_owner(os.getpid())

    saying = threading.Thread(target=say)
    saying.start()
    try:
        seen = [place.living_owners() for _ in range(5_000)]
    finally:
        over.set()
        saying.join()
    assert all(found == [os.getpid()] for found in seen)
    assert [path.name for path in place.folder.glob("owner-*")] == []
