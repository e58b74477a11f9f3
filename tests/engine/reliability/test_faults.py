"""Failures of a machine: full disk, older database copy, locked database, clock set back, and no memory."""

import contextlib
import errno
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from engine.cluster.worker import compute
from engine.errors import StoreError
from engine.federated.plan import seeded_secrets
from engine.records import RunState
from engine.service import Application
from engine.simulation import run
from engine.store import schema
from engine.store.paths import checkpoint_name
from engine.store.run_store import RunStore
from tests.engine.factories import SMALL, record
from tests.engine.reliability.disturbed import comparable

HOLD_LOCK = (
    "import sqlite3, sys\n"
    "held = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    "held.execute('BEGIN EXCLUSIVE')\n"
    "print('held', flush=True)\n"
    "sys.stdin.read()\n"
)
"""A program that locks a database until its standard input is closed."""


@contextlib.contextmanager
def locked(path):
    """Lock a database from another process; yield a function that releases the lock."""
    command = [sys.executable, "-c", HOLD_LOCK, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        yield holder.communicate


@pytest.fixture
def queued(trained_settings):
    """Return the identity of a queued run."""
    app, store = Application(trained_settings), RunStore(trained_settings.store_url)
    identity = app.queries.identity(SMALL)
    store.submit(identity, SMALL, app.queries.corpus(SMALL).checksum)
    store.close()
    return identity


@pytest.mark.repeats(area="processes")
def test_full_disk_fails_the_run_and_keeps_its_records(trained_settings, queued, monkeypatch):
    """Simulate a disk that fills up between a record and its checkpoint."""
    from engine.training.checkpoint import Checkpoint

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", full)
        compute(queued, trained_settings, "here")
    store = RunStore(trained_settings.store_url)
    failed = store.get(queued)
    assert failed.status.state == RunState.FAILED
    assert "No space left on device" in failed.status.error
    assert len(failed.records) == 1
    store.submit(queued, SMALL, Application(trained_settings).queries.corpus(SMALL).checksum)
    compute(queued, trained_settings, "here")
    assert store.get(queued).status.state == RunState.DONE
    assert store.get(queued).records[:1] == failed.records
    store.close()


@pytest.mark.repeats(area="processes")
def test_database_older_than_its_checkpoint_gets_all_records(trained_settings, queued):
    """Simulate copies that were made during the run, the database's before the checkpoint's."""
    checkpoints, store = [], RunStore(trained_settings.store_url)
    records = list(run.simulate(SMALL, trained_settings, on_checkpoint=checkpoints.append))
    claim = store.claim(queued, "there")
    for stored in records[:2]:
        store.append(claim, stored)
    store.release("there", in_order=True)
    with trained_settings.artefacts.write(checkpoint_name(queued), "The checkpoint") as path:
        secrets = seeded_secrets(SMALL, Application(trained_settings).queries.corpus(SMALL).checksum)
        checkpoints[4].save(path, queued, secrets)
    compute(queued, trained_settings, "here")
    assert store.get(queued).status.state == RunState.DONE
    assert comparable(store.get(queued).records) == comparable(records)
    store.close()


@pytest.mark.repeats(area="processes")
def test_memory_error_fails_the_run_with_a_reason(trained_settings, queued, monkeypatch):
    def no_memory(*_, **__):
        raise MemoryError
        yield

    monkeypatch.setattr(run, "simulate", no_memory)
    compute(queued, trained_settings, "here")
    status = Application(trained_settings).queries.status(queued)
    assert status.state == RunState.FAILED
    assert "too little memory" in status.error


def test_non_finite_weights_fail_the_run(trained_settings, queued, monkeypatch):
    """The optimiser returns NaN."""
    from engine.training.optimisers import Optimiser

    monkeypatch.setattr(Optimiser, "move", lambda _, weights, *__: weights.fill(float("nan")))
    compute(queued, trained_settings, "here")
    status = Application(trained_settings).queries.status(queued)
    assert status.state == RunState.FAILED
    assert "finite" in status.error


@pytest.mark.parametrize("seconds", [0.2, pytest.param(schema.BUSY_SECONDS, marks=pytest.mark.nightly)])
def test_locked_database_raises_and_recovers(tmp_path, monkeypatch, seconds):
    path = tmp_path / "runs.sqlite"
    monkeypatch.setattr(schema, "BUSY_SECONDS", seconds)
    store = RunStore(f"sqlite:///{path}")
    store.submit("a", SMALL, "checksum")
    claim = store.claim("a", "here")
    with locked(path) as release:
        with pytest.raises(StoreError, match="locked: another program"):
            store.append(claim, record(0))
        release()
        store.append(claim, record(0))
    assert store.get("a").records == (record(0),)
    store.close()


def test_clock_set_back_keeps_records_and_order(tmp_path, monkeypatch):
    store = RunStore(f"sqlite:///{tmp_path / 'runs.sqlite'}")
    store.submit("a", SMALL, "checksum")
    claim = store.claim("a", "here")
    store.append(claim, record(0))
    real_time = time.time
    monkeypatch.setattr(time, "time", lambda: real_time() - 86_400)
    store.heartbeat(claim, "training", 0.5)
    store.append(claim, record(1))
    store.append(claim, record(2))
    assert store.records("a") == tuple(record(number) for number in range(3))
    store.cancel("a")
    assert store.status("a").state == RunState.CANCELLED
    store.close()


def test_concurrent_submit_is_idempotent(tmp_path):
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


def test_locked_empty_database_is_waited_for(tmp_path, monkeypatch):
    """Creating tables waits longer for a lock than a write: another process may be creating them on a slow disk."""
    path, attempts, version = tmp_path / "runs.sqlite", [], schema._version
    monkeypatch.setattr(schema, "BUSY_SECONDS", 0.1)
    with locked(path) as release:

        def counted(engine):
            attempts.append(engine)
            if len(attempts) == 3:  # two have failed
                release()
            return version(engine)

        monkeypatch.setattr(schema, "_version", counted)
        store = RunStore(f"sqlite:///{path}")
        assert store.newest(1) == ([], [])
    assert len(attempts) >= 3
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    store.close()
