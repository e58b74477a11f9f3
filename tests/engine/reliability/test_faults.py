"""Machines that fail: a disk that is full, a home that is read-only, a database that is held, a clock that is set back,
no memory, a program of another version."""

import errno
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from engine.cluster.worker import compute
from engine.errors import StoreError
from engine.records import RunState
from engine.service import Application
from engine.simulation import run
from engine.store import schema
from engine.store.paths import checkpoint_name
from engine.store.run_store import RunStore
from tests.engine.factories import SMALL, record
from tests.engine.reliability.disturbed import comparable

HOLDS = (
    "import sqlite3, sys, time\n"
    "held = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    "held.execute('BEGIN EXCLUSIVE')\n"
    "print('held', flush=True)\n"
    "time.sleep(float(sys.argv[2]))\n"
)


@pytest.fixture
def waiting(trained_settings):
    """The identity of a run that waits in the store."""
    app, store = Application(trained_settings), RunStore(trained_settings.store_url)
    identity = app.queries.identity(SMALL)
    store.submit(identity, SMALL, app.queries.corpus(SMALL).checksum)
    store.close()
    return identity


def test_a_disk_that_is_full_fails_the_run_and_keeps_its_records(trained_settings, waiting, monkeypatch):
    """The disk fills up between a record and its checkpoint."""
    from engine.training.checkpoint import Checkpoint

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", full)
        compute(waiting, trained_settings, "here")
    store = RunStore(trained_settings.store_url)
    kept = store.get(waiting)
    assert kept.status.state == RunState.FAILED
    assert "No space left on device" in kept.status.error
    assert len(kept.records) == 1
    store.submit(waiting, SMALL, Application(trained_settings).queries.corpus(SMALL).checksum)
    compute(waiting, trained_settings, "here")
    assert store.get(waiting).status.state == RunState.DONE
    assert store.get(waiting).records[:1] == kept.records
    store.close()


def test_a_database_of_an_older_copy_than_its_checkpoints_gets_all_records(trained_settings, waiting):
    """The copies were made while the run went on, the database's first."""
    checkpoints, store = [], RunStore(trained_settings.store_url)
    records = list(run.simulate(SMALL, trained_settings, on_checkpoint=checkpoints.append))
    claim = store.claim(waiting, "there")
    for each in records[:2]:
        store.append(claim, each)
    store.release("there", in_order=True)
    with trained_settings.artefacts.write(checkpoint_name(waiting), "The checkpoint") as path:
        checkpoints[4].save(path)
    compute(waiting, trained_settings, "here")
    assert store.get(waiting).status.state == RunState.DONE
    assert comparable(store.get(waiting).records) == comparable(records)
    store.close()


def test_no_memory_is_said(trained_settings, waiting, monkeypatch):
    def no_memory(*_, **__):
        raise MemoryError
        yield

    monkeypatch.setattr(run, "simulate", no_memory)
    compute(waiting, trained_settings, "here")
    status = Application(trained_settings).queries.status(waiting)
    assert status.state == RunState.FAILED
    assert "too little memory" in status.error


def test_training_that_goes_astray_fails_the_run_with_the_step(trained_settings, waiting, monkeypatch):
    """A step of the optimiser gives NaN."""
    from engine.training.optimisers import Optimiser

    monkeypatch.setattr(Optimiser, "move", lambda _, weights, *__: weights.fill(float("nan")))
    compute(waiting, trained_settings, "here")
    status = Application(trained_settings).queries.status(waiting)
    assert status.state == RunState.FAILED
    assert "finite" in status.error


@pytest.mark.parametrize("seconds", [2.0, pytest.param(30.0, marks=pytest.mark.nightly)])
def test_a_database_that_somebody_holds_is_said_and_then_goes_on(tmp_path, monkeypatch, seconds):
    path = tmp_path / "runs.sqlite"
    monkeypatch.setattr(schema, "BUSY_SECONDS", min(schema.BUSY_SECONDS, seconds / 4))
    store = RunStore(f"sqlite:///{path}")
    store.submit("a", SMALL, "checksum")
    claim = store.claim("a", "here")
    holder = subprocess.Popen([sys.executable, "-c", HOLDS, str(path), str(seconds)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(StoreError, match="locked: another program"):
        store.append(claim, record(0))
    holder.wait()
    store.append(claim, record(0))
    assert store.get("a").records == (record(0),)
    store.close()


def test_a_clock_that_is_set_back_changes_no_record_and_no_order(tmp_path, monkeypatch):
    store = RunStore(f"sqlite:///{tmp_path / 'runs.sqlite'}")
    store.submit("a", SMALL, "checksum")
    claim = store.claim("a", "here")
    store.append(claim, record(0))
    honest = time.time
    monkeypatch.setattr(time, "time", lambda: honest() - 86_400)
    store.heartbeat(claim, "training", 0.5)
    store.append(claim, record(1))
    store.append(claim, record(2))
    assert store.records("a") == tuple(record(number) for number in range(3))
    store.cancel("a")
    assert store.status("a").state == RunState.CANCELLED
    store.close()


def test_two_apps_on_one_home_join_the_same_run(tmp_path):
    address = f"sqlite:///{tmp_path / 'runs.sqlite'}"
    apps = [RunStore(address), RunStore(address)]
    threads = [threading.Thread(target=app.submit, args=("a", SMALL, "checksum")) for app in apps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [app.status("a").state for app in apps] == [RunState.QUEUED] * 2
    assert len(apps[0].newest(10)[0]) == 1
    for app in apps:
        app.close()


def test_an_empty_database_that_somebody_holds_while_tables_are_made(tmp_path):
    """Tables are waited for longer than a write: another program may be making them on a slow disk."""
    path = tmp_path / "runs.sqlite"
    holder = subprocess.Popen([sys.executable, "-c", HOLDS, str(path), "7"], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    store = RunStore(f"sqlite:///{path}")
    assert store.newest(1) == ([], [])
    holder.wait()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    store.close()
