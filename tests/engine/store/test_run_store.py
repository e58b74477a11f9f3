"""The run store: write permissions by state and claim, and errors of an unusable database."""

import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from engine.errors import RunNotFound, RunStopped, StoreError
from engine.records import EntityScores, RunState, SidedCounts
from engine.store import schema
from engine.store.run_store import ATTEMPTS, Claim, RunStore
from tests.engine.factories import SMALL, provenance, record


@pytest.fixture
def store(store_address: str):
    """Return a store over SQLite and over PostgreSQL."""
    opened = RunStore(store_address)
    yield opened
    opened.close()


@pytest.fixture
def file_store(tmp_path: Path):
    """Return a store in a file, for conditions of files only: locked by another program, read-only, on a full disk."""
    opened = RunStore(f"sqlite:///{tmp_path / 'runs.sqlite'}")
    yield opened
    opened.close()


def execute_sql(store: RunStore, statement: str) -> None:
    """Change the database without the store."""
    engine = create_engine(str(store._database._address))
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def append_many(store: RunStore, claim: Claim) -> None:
    for number in range(1, 4000):
        store.append(claim, record(number, of=5000))


def submitted(store: RunStore, run_id: str = "a") -> str:
    store.submit(run_id, SMALL, "checksum")
    return run_id


class TestLifecycle:
    def test_successful_run(self, store):
        submitted(store)
        assert store.status("a").state == RunState.QUEUED
        assert store.status("a").queue_place == 1
        claim = store.claim("a", "here")
        assert claim.config == SMALL
        store.heartbeat(claim, "training", 0.1)
        assert store.status("a").stage == "training"
        for number in range(3):
            store.append(claim, record(number))
        assert store.status("a").progress == 1.0
        store.finish(claim, provenance())
        run = store.get("a")
        assert run.status.state == RunState.DONE
        assert run.records == tuple(record(number) for number in range(3))
        assert run.provenance == provenance()
        assert run.config == SMALL

    def test_heartbeat_returns_number_of_running_runs_of_the_cluster(self, store):
        first = store.claim(submitted(store, "a"), "here")
        assert store.heartbeat(first, "training", 0.1) == 1
        second = store.claim(submitted(store, "b"), "here")
        store.claim(submitted(store, "c"), "elsewhere")
        submitted(store, "d")
        assert store.heartbeat(first, "training", 0.2) == 2
        store.give_up(second, "It failed.")
        assert store.heartbeat(first, "training", 0.3) == 1

    def test_records_after_a_round(self, store):
        claim = store.claim(submitted(store), "here")
        for number in range(3):
            store.append(claim, record(number))
        assert [each.round for each in store.records("a", after=1)] == [2]

    def test_progress_never_decreases(self, store):
        """A heartbeat may report an older state than the newest record."""
        claim = store.claim(submitted(store), "here")
        store.append(claim, record(1))
        reached = store.status("a").progress
        assert reached > 0.5
        store.heartbeat(claim, "training", 0.5)
        assert store.status("a").progress == reached
        store.heartbeat(claim, "training", 0.9)
        assert store.status("a").progress == 0.9

    def test_repeated_record_is_ignored(self, store):
        claim = store.claim(submitted(store), "here")
        store.append(claim, record(0))
        store.append(claim, record(0, epsilon=9.0))
        assert store.records("a") == (record(0),)

    def test_fields_ignored_in_comparisons_are_stored(self, store):
        """Many-to-many scores and the sums for an interval; older records have neither."""
        claim = store.claim(submitted(store), "here")
        kept = EntityScores.from_dict(
            record(0).scores.to_dict() | {"sentences": [4, 3, 2, 9], "many_to_many": {"PER": [4, 5, 3, 6]}}
        )
        store.append(claim, replace(record(0), scores=kept))
        store.append(claim, record(1))
        newer, older = (each.scores for each in store.records("a"))
        assert newer.sentences == kept.sentences
        assert newer.many_to_many == {"PER": SidedCounts(right=4, predicted=5, found=3, gold=6)}
        assert (older.sentences, older.many_to_many) == (None, None)

    def test_single_runs_precede_batch_runs(self, store):
        for name in "abc":
            store.submit(name, SMALL, "checksum", batch=True)
        store.submit("d", SMALL, "checksum")
        store.submit("c", SMALL, "checksum")  # of the batch, now also submitted on its own
        store.submit("d", SMALL, "checksum", batch=True)  # keeps its priority, although it is also in a batch
        assert [each.run_id for each in store.unfinished()] == ["c", "d", "a", "b"]
        assert [store.status(name).queue_place for name in "cdab"] == [1, 2, 3, 4]
        assert [run.status.queue_place for run in store.newest(9)[0]] == [2, 1, 4, 3]
        store.claim("c", "here")
        store.give_up(store.claim("a", "here"), "It failed.")
        store.submit("a", SMALL, "checksum")
        assert [each.run_id for each in store.unfinished()] == ["c", "d", "a", "b"]

    def test_queue_is_in_order_of_submission(self, store):
        for name in "abc":
            submitted(store, name)
        assert [store.status(name).queue_place for name in "abc"] == [1, 2, 3]
        assert [run.run_id for run in store.unfinished()] == ["a", "b", "c"]


class TestResubmission:
    def test_running_run_is_joined(self, store):
        claim = store.claim(submitted(store), "here")
        submitted(store)
        assert store.status("a").state == RunState.RUNNING
        store.heartbeat(claim, "training", 0.5)

    def test_finished_run_stays_done(self, store):
        claim = store.claim(submitted(store), "here")
        store.append(claim, record(0, of=1))
        store.finish(claim, provenance())
        submitted(store)
        assert store.status("a").state == RunState.DONE

    @pytest.mark.parametrize("how", ["cancel", "give up"])
    def test_stopped_run_is_queued_with_its_records(self, store, how):
        claim = store.claim(submitted(store), "here")
        store.append(claim, record(0))
        store.cancel("a") if how == "cancel" else store.give_up(claim, "Something broke.")
        assert store.status("a").state.final
        submitted(store)
        assert store.status("a").state == RunState.QUEUED
        assert store.status("a").error is None
        assert len(store.records("a")) == 1

    def test_concurrent_submits_create_one_run(self, store):
        store.newest(1)
        threads = [threading.Thread(target=submitted, args=(store,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(store.newest(100)[0]) == 1


class TestFencing:
    def test_worker_of_cancelled_run_cannot_write(self, store):
        claim = store.claim(submitted(store), "here")
        store.cancel("a")
        for write in (
            lambda: store.append(claim, record(0)),
            lambda: store.heartbeat(claim, "", 0.0),
            lambda: store.finish(claim, provenance()),
            lambda: store.give_up(claim, "no"),
        ):
            with pytest.raises(RunStopped):
                write()
        assert store.status("a").state == RunState.CANCELLED
        assert store.records("a") == ()

    def test_superseded_worker_cannot_write(self, store):
        first = store.claim(submitted(store), "here")
        second = store.claim("a", "here")  # the same cluster: its worker died
        with pytest.raises(RunStopped):
            store.append(first, record(0))
        store.append(second, record(0))

    def test_other_cluster_cannot_claim_a_running_run(self, store):
        store.claim(submitted(store), "here")
        with pytest.raises(RunStopped):
            store.claim("a", "elsewhere")
        assert store.status("a").state == RunState.RUNNING

    def test_released_runs_are_queued_again(self, store):
        store.claim(submitted(store), "here")
        store.release("elsewhere", in_order=True)
        assert store.status("a").state == RunState.RUNNING
        store.release("here", in_order=True)
        assert store.status("a").state == RunState.QUEUED
        store.claim("a", "elsewhere")

    def test_run_fails_after_repeated_worker_deaths(self, store):
        submitted(store)
        for _ in range(ATTEMPTS):
            store.claim("a", "here")
            store.release("here", in_order=False)
        with pytest.raises(RunStopped):
            store.claim("a", "here")
        assert store.status("a").state == RunState.FAILED
        assert "crashed 3 times" in store.status("a").error

    def test_progressing_run_survives_any_number_of_worker_deaths(self, store):
        submitted(store)
        for number in range(ATTEMPTS + 2):
            claim = store.claim("a", "here")
            store.append(claim, record(number, of=9))
        assert store.status("a").state == RunState.RUNNING


class TestErrors:
    @pytest.mark.parametrize("identity", ["nowhere", "nowhere" * 40, "nowhere\0"])
    def test_unknown_run_raises(self, store, identity):
        for ask in (store.status, store.get, store.cancel, store.delete):
            with pytest.raises(RunNotFound, match="nowhere"):
                ask(identity)

    def test_damaged_file_is_left_unchanged(self, tmp_path):
        file = tmp_path / "runs.sqlite"
        file.write_bytes(b"this is no database, though long enough to look at" * 40)
        before = file.read_bytes()
        with pytest.raises(StoreError, match=r"damaged or .*database") as error:
            RunStore(f"sqlite:///{file}").newest(1)
        assert str(file) in str(error.value)
        assert file.read_bytes() == before

    def test_tables_of_another_version_are_refused(self, store):
        submitted(store)
        store.close()
        execute_sql(store, "UPDATE alembic_version SET version_num = '99'")
        with pytest.raises(StoreError, match="another version"):
            store.newest(1)

    def test_read_only_file_can_be_read(self, file_store, tmp_path):
        submitted(file_store)
        read_only = RunStore(f"sqlite:///file:{tmp_path / 'runs.sqlite'}?mode=ro&uri=true")
        with pytest.raises(StoreError, match="cannot be written"):
            submitted(read_only, "b")
        assert read_only.status("a").state == RunState.QUEUED  # reading still works

    def test_folder_that_cannot_be_created_raises(self, tmp_path):
        (tmp_path / "home").write_text("in the way")
        with pytest.raises(StoreError, match=r"runs\.sqlite"):
            RunStore(f"sqlite:///{tmp_path / 'home' / 'runs.sqlite'}").newest(1)

    def test_locked_database_raises(self, file_store, tmp_path, monkeypatch):
        submitted(file_store)
        monkeypatch.setattr(schema, "BUSY_SECONDS", 0.1)
        hasty = RunStore(f"sqlite:///{tmp_path / 'runs.sqlite'}")
        hasty.newest(1)
        blocker = sqlite3.connect(tmp_path / "runs.sqlite", isolation_level=None)
        blocker.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="locked"):
            submitted(hasty, "b")
        blocker.execute("ROLLBACK")
        submitted(hasty, "b")

    def test_full_disk_loses_no_data(self, file_store):
        claim = file_store.claim(submitted(file_store), "here")
        file_store.append(claim, record(0, of=5000))
        engine, _ = file_store._database.open()
        with engine.begin() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="full"):
            append_many(file_store, claim)
        assert file_store.records("a")[0] == record(0, of=5000)
        assert file_store.status("a").state == RunState.RUNNING

    def test_unreadable_row_does_not_hide_others(self, store):
        submitted(store, "a")
        submitted(store, "b")
        execute_sql(store, "UPDATE runs SET config = '{\"surprise\"\\: 1}' WHERE run_id = 'a'")
        found, problems = store.newest(10)
        assert [run.run_id for run in found] == ["b"]
        assert len(problems) == 1
        assert "surprise" in problems[0]

    def test_password_is_never_shown(self):
        with pytest.raises(StoreError) as error:
            RunStore("postgresql+nodriver://user:secret@host/db").newest(1)  # pragma: allowlist secret
        assert "secret" not in str(error.value)

    def test_error_with_unstorable_characters_is_stored(self, store):
        """An error may quote a line of a broken corpus; if it could not be stored, its run would seem to run
        forever."""
        claim = store.claim(submitted(store), "here")
        store.give_up(claim, "This line is broken: \0 and \ud800.")
        assert store.status("a").state == RunState.FAILED
        assert store.status("a").error == "This line is broken: \N{REPLACEMENT CHARACTER} and ?."
        store.write_note("a", "nothing\0here")
        assert store.notes() == {"a": "nothing\N{REPLACEMENT CHARACTER}here"}
