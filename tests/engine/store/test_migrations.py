"""Databases of older versions get the current tables and keep all data."""

import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.engine import make_url

from engine.errors import StoreError
from engine.records import FederatedRound, RunKind, RunState
from engine.store import migrations, schema
from engine.store.run_store import RunStore
from tests.engine.factories import SMALL, provenance, record

OLDER = Path(__file__).with_name("version_2.sql")
"""A database with tables of version 2: a finished run with a note, two reruns (one of a run in another database), and a
queued run."""
FIRST, AGAIN, RERUN_OF_PUBLISHED, WAITING = (
    "0123456789abcdef",
    "r123456789abcdef",
    "r999999999999999",
    "fedcba9876543210",
)


def statements(version: int) -> list[str]:
    """Return the statements that create a database of this version, in SQL for both kinds of databases."""
    lines = [line for line in OLDER.read_text(encoding="utf-8").splitlines() if not line.startswith("PRAGMA")]
    with sqlite3.connect(":memory:") as reader:
        reader.executescript("\n".join(lines))
        made = list(reader.iterdump())[1:-1]  # without BEGIN and COMMIT
    reader.close()
    # A table must be filled after the one it references.
    made.sort(
        key=lambda each: (each.startswith("INSERT") + 2 * each.startswith("CREATE INDEX"), "runs" not in each[:40])
    )
    older = ["DROP TABLE notes", "UPDATE epsilon_schema SET version = 1"]
    return [each.replace(" FLOAT", " DOUBLE PRECISION") for each in made] + (older if version == 1 else [])


def made(address: str, version: int) -> str:
    """Create a database of this version at this address, and return the address."""
    if address.startswith("sqlite"):
        return database(Path(str(make_url(address).database)), version)
    engine = create_engine(address)
    with engine.begin() as connection:
        for statement in statements(version):
            connection.exec_driver_sql(statement.replace("%", "%%"))
    engine.dispose()
    return address


def database(path: Path, version: int) -> str:
    script = OLDER.read_text(encoding="utf-8")
    with sqlite3.connect(path) as connection:
        connection.executescript(script)
        if version == 1:
            connection.executescript("DROP TABLE notes; UPDATE epsilon_schema SET version = 1;")
    connection.close()
    return f"sqlite:///{path}"


@pytest.mark.parametrize("version", [1, 2])
def test_upgrade_keeps_all_data(store_address, version):
    store = RunStore(made(store_address, version))
    first = store.get(FIRST)
    assert (first.kind, first.parent, first.owner) == (RunKind.RUN, None, None)
    assert first.config == SMALL
    assert first.provenance == replace(
        provenance(), command="python -m engine simulate --corpus synthetic --partition random"
    )
    assert first.records == tuple(record(number) for number in range(3))
    assert all(each.scores.many_to_many is None for each in first.records)
    assert [store.get(identity).kind for identity in (AGAIN, RERUN_OF_PUBLISHED)] == [RunKind.REPEAT] * 2
    assert [store.get(identity).parent for identity in (AGAIN, RERUN_OF_PUBLISHED)] == [FIRST, None]
    assert store.status(WAITING).state == RunState.QUEUED
    assert store.notes() == ({FIRST: "kept"} if version == 2 else {})
    store.write_note(WAITING, "new")
    claim = store.claim(WAITING, "here")
    store.append(claim, record(0))
    store.close()
    again = RunStore(store_address)
    assert again.notes()[WAITING] == "new"
    assert again.get(WAITING).records == (record(0),)
    again.close()


def test_migrations_give_the_current_schema(store_address, request):
    assert migrations.newest() == schema.SCHEMA
    engine = create_engine(store_address)
    with engine.begin() as connection:
        migrations.upgrade(connection, None)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
        assert connection.execute(text("SELECT version FROM epsilon_schema")).scalar() == int(schema.SCHEMA)
    other = f"{store_address}-fresh"
    if not store_address.startswith("sqlite"):
        other = request.getfixturevalue("postgresql_server").fresh()
    fresh, _ = schema.open_database(other)

    def described(of) -> dict[str, object]:
        return {
            table: (
                sorted(
                    (column["name"], str(column["type"]), column["nullable"])
                    for column in inspect(of).get_columns(table)
                ),
                sorted(index["name"] for index in inspect(of).get_indexes(table)),
            )
            for table in inspect(of).get_table_names()
        }

    assert described(engine) == described(fresh)
    for each in (engine, fresh):
        each.dispose()


def test_older_programs_refuse_an_upgraded_database(tmp_path):
    """They compare the number in ``epsilon_schema`` with their own."""
    store = RunStore(database(tmp_path / "runs.sqlite", 2))
    store.newest(1)
    store.close()
    with sqlite3.connect(tmp_path / "runs.sqlite") as connection:
        assert connection.execute("SELECT version FROM epsilon_schema").fetchone() == (int(schema.SCHEMA),)
    connection.close()


PRIVATE = 0.123456789
"""A value that is found again in the file of the database."""


def with_private_values(address: str, source: str, **changed: object) -> str:
    """Store a run with a record as versions up to 0.6.0 did, in tables of version 6; return its identity."""
    store = RunStore(address)
    clients = replace(SMALL.federation, clients=2 if changed else 1)
    privacy = replace(SMALL.privacy, noise_source=source, **changed)
    config = replace(SMALL, seed=len(source), privacy=privacy, federation=clients)
    identity = f"{source:0<16}"
    store.submit(identity, config, "checksum")
    federation = FederatedRound(
        round=1, rounds=1, clients=(3,), failed=(4,), drift=0.5, update_norms=(0.5,), bytes_down=8, bytes_up=8
    )
    made = replace(record(0), loss=PRIVATE, gradient_norm_max=PRIVATE, examples_seen=17, federation=federation)
    store.append(store.claim(identity, "here"), made)
    store.close()
    engine = create_engine(address)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '6'"))
        connection.execute(text("UPDATE epsilon_schema SET version = 6"))
    engine.dispose()
    return identity


@pytest.mark.parametrize("mechanism", ["dp-sgd", "dp-fedavg"])
def test_private_values_of_system_noise_are_removed_once(store_address, mechanism, caplog):
    with_private_values(store_address, "seeded")
    system = with_private_values(store_address, "system", mechanism=mechanism)
    with caplog.at_level("WARNING"):
        store = RunStore(store_address)
        (found,) = store.get(system).records
        (seeded,) = store.get("seeded".ljust(16, "0")).records
    assert "removed from 1 records" in caplog.text
    assert found == found.without_private_values(clients=mechanism != "dp-sgd")
    assert found.loss is found.gradient_norm_max is found.examples_seen is found.noise_check.batch_mean is None
    assert (found.federation.clients is None) == (mechanism != "dp-sgd")
    assert found.scores == record(0).scores
    assert seeded.loss == PRIVATE
    store.close()
    caplog.clear()
    engine = create_engine(store_address)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '6'"))
    engine.dispose()
    again = RunStore(store_address)
    assert again.get(system).records == (found,)
    again.close()
    assert "removed" not in caplog.text


def test_removed_values_are_gone_from_the_file(tmp_path):
    path = tmp_path / "runs.sqlite"
    with_private_values(f"sqlite:///{path}", "system")
    assert str(PRIVATE).encode() in path.read_bytes()
    store = RunStore(f"sqlite:///{path}")
    store.newest(1)
    store.close()
    assert all(str(PRIVATE).encode() not in each.read_bytes() for each in tmp_path.iterdir())


def test_unreadable_record_is_kept_and_counted(store_address, caplog):
    system = with_private_values(store_address, "system")
    engine = create_engine(store_address)
    with engine.begin() as connection:
        connection.execute(text("UPDATE records SET body = '{}'"))
    engine.dispose()
    store = RunStore(store_address)
    assert store.status(system).state == RunState.RUNNING
    store.close()
    assert "1 records cannot be read" in caplog.text


def test_failed_upgrade_is_rolled_back(tmp_path, monkeypatch):
    path = tmp_path / "runs.sqlite"
    address = database(path, 2)
    with sqlite3.connect(path) as connection:
        before = list(connection.iterdump())
    connection.close()
    upgrade = migrations.upgrade

    def fails(connection, known):
        upgrade(connection, known)
        raise OSError("the disk is gone")

    monkeypatch.setattr(migrations, "upgrade", fails)
    with pytest.raises(StoreError, match="the disk is gone"):
        RunStore(address).newest(1)
    with sqlite3.connect(path) as connection:
        assert list(connection.iterdump()) == before
    connection.close()
    monkeypatch.undo()
    store = RunStore(address)
    assert store.get(FIRST).kind == RunKind.RUN
    store.close()


def test_concurrent_upgrades_are_safe(store_address):
    address, problems = made(store_address, 2), []

    def opened() -> None:
        store = RunStore(address)
        try:
            assert store.get(AGAIN).kind == RunKind.REPEAT
        except Exception as error:
            problems.append(error)
        finally:
            store.close()

    threads = [threading.Thread(target=opened) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


@pytest.mark.parametrize("version", ["99", "x"])
def test_database_of_later_version_is_refused(store_address, version):
    store = RunStore(store_address)
    store.submit(FIRST, SMALL, "checksum")
    store.close()
    engine = create_engine(store_address)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :version"), {"version": version})
    engine.dispose()
    with pytest.raises(StoreError, match=rf"another version .*tables {version}, expected {schema.SCHEMA}\b"):
        RunStore(store_address).newest(1)
