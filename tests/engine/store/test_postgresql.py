"""Conditions of a database server: ended connections, refused users, unreachable hosts, and concurrent writers."""

import multiprocessing
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from engine.errors import RunNotFound, RunStopped, StoreAddressError, StoreError
from engine.records import RunState
from engine.settings import Address, Settings
from engine.store import schema
from engine.store.run_store import RunStore
from tests.engine.factories import SMALL, record
from tests.postgresql import PASSWORD

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def store(store_address):
    opened = RunStore(store_address)
    yield opened
    opened.close()


def _claims(address: str, holder: str, identities: list[str], begin, won) -> None:
    """Claim each run from a separate process, and send the claimed runs to the queue."""
    store = RunStore(address)
    store.newest(1)
    begin.wait()
    for identity in identities:
        try:
            store.claim(identity, holder)
            won.put((identity, holder))
        except RunStopped:
            pass
    store.close()
    won.put(None)


def _call_concurrently(*calls) -> list[Exception]:
    """Call all functions at the same time; return the exceptions raised."""
    begin, raised = threading.Barrier(len(calls)), []

    def call(what) -> None:
        begin.wait()
        try:
            what()
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=call, args=(each,)) for each in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


class TestConcurrency:
    def test_concurrent_claims_have_one_winner_per_run(self, store, store_address):
        identities = [f"run{number}" for number in range(20)]
        for identity in identities:
            store.submit(identity, SMALL, "checksum")
        spawn = multiprocessing.get_context("spawn")
        begin, won = spawn.Barrier(2), spawn.Queue()
        programs = [
            spawn.Process(target=_claims, args=(store_address, holder, identities, begin, won)) for holder in "xy"
        ]
        for program in programs:
            program.start()
        told = []
        while told.count(None) < 2:
            told.append(won.get(timeout=120))
        for program in programs:
            program.join()
        assert sorted(each[0] for each in told if each) == sorted(identities)
        assert all(store.status(identity).state == RunState.RUNNING for identity in identities)

    def test_concurrent_notes_leave_one(self, store):
        store.submit("a", SMALL, "checksum")
        texts = [f"note {number}" for number in range(6)]
        assert not _call_concurrently(*(lambda text=text: store.write_note("a", text) for text in texts))
        assert store.notes()["a"] in texts

    def test_delete_during_writes_leaves_nothing(self, store):
        for _ in range(5):
            store.submit("a", SMALL, "checksum")
            claim = store.claim("a", "here")
            raised = _call_concurrently(
                lambda: store.delete("a"),
                lambda claim=claim: store.append(claim, record(0)),
                lambda: store.write_note("a", "kept?"),
            )
            assert all(isinstance(error, RunStopped | RunNotFound) for error in raised)
            assert (store.notes(), store.newest(1)[0]) == ({}, [])
            store.submit("a", SMALL, "checksum")
            assert store.records("a") == ()
            store.delete("a")

    def test_concurrent_opens_create_tables_once(self, store_address):
        stores = [RunStore(store_address) for _ in range(4)]
        assert not _call_concurrently(*(lambda each=each: each.newest(1) for each in stores))
        for each in stores:
            each.close()


class TestServer:
    def test_ended_connections_are_reopened(self, postgresql_server):
        store = RunStore(postgresql_server.fresh())
        store.submit("a", SMALL, "checksum")
        claim = store.claim("a", "here")
        store.append(claim, record(0))
        postgresql_server.say(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'epsilon-explorer'"
        )
        store.append(claim, record(1))
        assert store.records("a") == (record(0), record(1))
        postgresql_server.restart()
        store.append(claim, record(2))
        assert len(store.records("a")) == 3
        store.close()

    def test_connection_lost_in_transaction_rolls_back_and_raises(self, postgresql_server):
        store = RunStore(postgresql_server.fresh())
        store.submit("a", SMALL, "checksum")
        with pytest.raises(StoreError, match="closed the connection"), store.begin() as connection:  # noqa: PT012
            connection.execute(schema.runs.delete())
            number = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
            postgresql_server.say(f"SELECT pg_terminate_backend({number}, 5000)")
            connection.execute(schema.runs.delete())
        assert store.status("a").state == RunState.QUEUED
        store.close()

    def test_locked_run_raises_store_error(self, postgresql_server, monkeypatch):
        monkeypatch.setattr(schema, "BUSY_SECONDS", 1)
        address = postgresql_server.fresh()
        store, other = RunStore(address), RunStore(address)
        store.submit("a", SMALL, "checksum")
        other.newest(1)
        with other.begin() as connection:
            connection.execute(schema.runs.select().with_for_update())
            with pytest.raises(StoreError, match="locked"):
                store.cancel("a")
        store.cancel("a")
        for each in (store, other):
            each.close()


class TestInvalidAddress:
    @pytest.mark.parametrize(
        ("changes", "sentence"),
        [
            ({"password": "wrong:secret"}, "this password"),  # pragma: allowlist secret
            ({"password": ""}, "requires a password"),
            ({"database": "nowhere"}, "does not exist"),
            ({"port": 1}, "no server listens there"),
            ({"host": "no-such-host.invalid"}, "host name is unknown"),
            ({"drivername": "postgresql+nodriver"}, "driver that is not installed"),
        ],
    )
    def test_error_names_the_host_without_the_password(self, postgresql_server, changes, sentence):
        url = make_url(postgresql_server.fresh()).set(**changes)
        with pytest.raises(StoreAddressError, match=sentence) as error:
            RunStore(url.render_as_string(hide_password=False)).newest(1)
        assert str(url.host) in str(error.value)
        assert not any(secret in str(error.value) for secret in (PASSWORD, "secret", url.password or PASSWORD))

    @pytest.mark.parametrize(
        "address",
        [
            "postgresql://u:se@cret@127.0.0.1:1/d",  # pragma: allowlist secret
            "postgresql://u@127.0.0.1:1/d?password=cret",
            "postgresql://u:cret@h:x/d",  # pragma: allowlist secret
        ],
    )
    def test_misplaced_password_is_not_shown(self, address):
        with pytest.raises(StoreError) as error:
            RunStore(address).newest(1)
        assert "cret" not in str(error.value)

    def test_missing_driver_raises_with_install_command(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(StoreAddressError, match="make postgresql"):
            RunStore("postgresql://u:secret@127.0.0.1:1/d").newest(1)  # pragma: allowlist secret

    def test_command_reports_it_in_one_line(self, postgresql_server, published_index, tmp_path, monkeypatch):
        url = make_url(postgresql_server.fresh()).set(password="secret")
        shutil.copy(published_index, tmp_path)
        monkeypatch.setenv("EPSILON_HOME", str(tmp_path))
        monkeypatch.setenv("EPSILON_STORE_URL", url.render_as_string(hide_password=False))
        command = [sys.executable, "-m", "engine", "runs", "show", "0123456789abcdef"]
        called = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        assert (called.returncode, called.stdout) == (2, "")
        assert "this password" in called.stderr
        assert len(called.stderr.strip().splitlines()) == 1
        assert "secret" not in called.stderr


@pytest.mark.parametrize("address", ["postgresql://u:se/c@t0p@h/d", "postgresql://u@h/d?password=t0p"])
def test_repr_of_settings_has_no_password(address, tmp_path):
    """Dask logs the arguments of a failed task, which contain such a mapping."""
    settings = Settings(home=tmp_path, data_dir=None, store_url=address)
    assert "t0p" not in repr(settings) + repr(settings.addresses)
    assert settings.store_url == address
    assert repr(Address("sqlite:////a/b.sqlite")) == "'sqlite:////a/b.sqlite'"
