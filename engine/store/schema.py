"""The tables, how a database is opened, and what is said when it cannot be.

SQLite in WAL mode is the default; the statements of this package run on PostgreSQL too.
"""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Engine,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    insert,
    inspect,
    select,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from engine.errors import StoreAddressError, StoreError, StoreUnavailable

SCHEMA, OLDER = "6", ("1", "2", "3", "4", "5")
"""The last step of :mod:`engine.store.migrations`, which ends with the tables below, and those from which a database is
brought up when it is opened."""
BUSY_SECONDS = 15
"""How long a statement waits for another process's write before it gives up: a virtual machine may stand still for some
seconds, whoever has the lock."""
ANSWER_SECONDS = 5
"""How long a server may take to answer."""
MAKING_SECONDS = 20
"""How long whoever opens an SQLite file waits for another program that makes or brings up its tables: a busy disk may
take longer for that than for any write."""
_BRINGING_UP = 0x65707369
"""The lock of PostgreSQL that is held while tables are made or brought up; any number, the same for all programs."""

metadata = MetaData()
schema = Table("epsilon_schema", metadata, Column("version", Integer, primary_key=True, autoincrement=False))
"""What programs until version 2 looked at, so that they leave a newer database alone."""
steps = Table("alembic_version", metadata, Column("version_num", String(32), primary_key=True))
runs = Table(
    "runs",
    metadata,
    Column("run_id", String(16), primary_key=True),
    Column("config", Text, nullable=False),  # SimulationConfig as canonical JSON
    Column("corpus_checksum", String(64), nullable=False),
    Column("state", String(16), nullable=False, index=True),  # RunState
    Column("stage", Text, nullable=False, default=""),
    Column("progress", Float, nullable=False, default=0.0),  # 0 to 1
    Column("created", Float, nullable=False, index=True),  # when it was last submitted; times: seconds since 1970 UTC
    Column("started", Float),
    Column("finished", Float),
    Column("heartbeat", Float),  # when the worker last wrote
    Column("error", Text),
    Column("token", String(32)),  # of the one worker that may write
    Column("holder", Text),  # the cluster whose worker has the token
    Column("attempts", Integer, nullable=False, default=0),  # claims since the last record
    Column("provenance", Text),  # Provenance as JSON, once done
    Column("kind", String(16), nullable=False, server_default="run", index=True),  # RunKind
    Column("parent", String(16)),  # the run that this one came from
    Column("owner", String(64)),  # whose it is, where several people share the database
    Column("batch", Integer, nullable=False, server_default="0"),  # 1: nobody waits for it, it comes after the others
)
records = Table(
    "records",
    metadata,
    Column("run_id", String(16), ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),  # RoundRecord as JSON
)


notes = Table(
    "notes",
    metadata,
    Column("run_id", String(16), ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True),
    Column("text", Text, nullable=False),
)
bookings = Table(
    "bookings",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),  # from 1, none left out
    Column("entry", Text, nullable=False),  # JSON; see engine.store.privacy_ledger
    Column("seal", String(64), nullable=False),  # SHA-256 of the seal before it, the number and the entry
)
grants = Table(
    "grants",
    metadata,
    Column("kind", String(16), primary_key=True),  # "run" or "corpus"
    Column("name", String(64), primary_key=True),
    Column("person", String(64), primary_key=True, index=True),  # who may use it; "*": everybody who may sign in
)
deeds = Table(
    "deeds",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("at", Float, nullable=False, index=True),  # seconds since 1970 UTC
    Column("person", String(64), nullable=False),
    Column("deed", String(32), nullable=False),
    Column("subject", Text, nullable=False),  # a run, a corpus, the name of a file
    Column("refused", Integer, nullable=False),  # 1: it was not allowed
)


def open_database(address: str) -> tuple[Engine, str]:
    """An engine on the database at ``address`` and the words to name it by (never with a password).

    Tables are made in an empty database; nothing that an existing one holds is changed. Raises StoreError when it
    cannot be reached, is damaged, or has tables of another version.
    """
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        url = None
    if url is None or "@" in (url.host or ""):  # what is behind the first @ of a password would be taken for the host
        raise StoreAddressError(
            "The database address (EPSILON_STORE_URL) is not a valid SQLAlchemy address; signs such as @ in its "
            "password are written as %40."
        )
    name = _name(url)
    with sentences(name):
        if _is_sqlite(url) and url.database and not url.database.startswith("file:"):
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(url, connect_args=_options(url), pool_pre_ping=not _is_sqlite(url))
        if _is_sqlite(url):
            event.listen(engine, "connect", _set_pragmas)
        try:
            _prepare(engine, name)
        except BaseException:
            engine.dispose()
            raise
    return engine, name


class Database:
    """The database at an address, opened on first use and then kept open."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._opened: tuple[Engine, str] | None = None
        self._lock = threading.Lock()

    def open(self) -> tuple[Engine, str]:
        """See :func:`open_database`."""
        with self._lock:
            if self._opened is None:
                self._opened = open_database(self._address)
            return self._opened

    def close(self) -> None:
        """Let go of all connections."""
        with self._lock:
            if self._opened:
                self._opened[0].dispose()
            self._opened = None


def _is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"


def _name(url: URL) -> str:
    if _is_sqlite(url):
        return f"The database {url.database}"
    # Without what is behind the question mark: a password may stand there too.
    return f"The database {url.set(query={}).render_as_string(hide_password=True)}"


def _options(url: URL) -> dict[str, Any]:
    """For the driver. No program keeps the others waiting for longer than a locked SQLite file would. What the address
    itself says holds."""
    if _is_sqlite(url):
        return {"timeout": BUSY_SECONDS}
    if url.get_backend_name() != "postgresql":
        return {}
    limits = {"lock_timeout": BUSY_SECONDS, "idle_in_transaction_session_timeout": 60, "statement_timeout": 60}
    chosen: dict[str, Any] = {
        "connect_timeout": ANSWER_SECONDS,
        "application_name": "epsilon-explorer",
        "options": " ".join(f"-c {name}={seconds}s" for name, seconds in limits.items()),
    }
    return {name: value for name, value in chosen.items() if name not in url.query}


def _set_pragmas(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys=ON")
    if cursor.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")  # in WAL mode a crash of the machine may lose the last write, no more
    cursor.close()


def _prepare(engine: Engine, name: str) -> None:
    end = time.monotonic() + MAKING_SECONDS
    while True:
        try:
            if _version(engine) != SCHEMA:
                _bring_up(engine, name)
            return
        except DBAPIError as error:
            # Another process may be making the same tables at this moment, and is waited for; in the end it counts
            # whether they are there.
            if "is locked" in str(error.orig) and time.monotonic() < end:
                continue
            if _version(engine) != SCHEMA:
                raise
            return


def _version(engine: Engine) -> str | None:
    """The last step that was taken, None in a database without ours, "" where none that is known was."""
    present = inspect(engine).get_table_names()
    with engine.connect() as connection:
        if steps.name in present:
            return str(connection.execute(select(steps.c.version_num)).scalar() or "")
        if schema.name in present:
            return str(connection.execute(select(schema.c.version)).scalar() or "")
    return "" if runs.name in present else None


def _bring_up(engine: Engine, name: str) -> None:
    """Make the tables in an empty database, or take the steps that an older one lacks: all of it or nothing."""
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # one process at a time
        elif engine.dialect.name == "postgresql":
            connection.exec_driver_sql("SET LOCAL statement_timeout = 0")  # a large table may take its time
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_BRINGING_UP})")  # here too
        version, present = _version(engine), inspect(connection).get_table_names()
        if version is None:
            metadata.create_all(connection)
            connection.execute(insert(schema).values(version=int(SCHEMA)))
            connection.execute(insert(steps).values(version_num=SCHEMA))
        elif version in OLDER:
            from engine.store import migrations

            migrations.upgrade(connection, None if steps.name in present else version)
        elif version != SCHEMA:
            raise StoreAddressError(
                f"{name} was written by another version of this program (tables {version or 'of an unknown version'}, "
                f"expected {SCHEMA}); move it away or choose another EPSILON_HOME, nothing in it was changed."
            )


_OF_THE_ADDRESS = (
    ("can't load plugin", "needs a driver that is not installed; an address begins with sqlite:// or postgresql://"),
    ("password authentication failed", "refuses this user or this password (EPSILON_STORE_URL)"),
    ("no password supplied", "asks for a password, which EPSILON_STORE_URL does not have"),
    ("could not translate host name", "cannot be reached: there is no host of this name"),
    ("failed to resolve host", "cannot be reached: there is no host of this name"),
    ("no such file or directory", "cannot be reached: nothing answers there"),
    (r'database ".*" does not exist', "does not exist on that server; `createdb` makes an empty one"),
)
_AWAY = (
    ("connection refused", "cannot be reached: nothing answers there"),
    ("timeout expired", f"cannot be reached: nothing has answered for {ANSWER_SECONDS} s"),
    ("connection timeout", f"cannot be reached: nothing has answered for {ANSWER_SECONDS} s"),
    ("starting up|in recovery mode|not yet accepting", "is only just starting, or mends itself after a crash"),
    ("shutting down", "is being stopped"),
    (
        "terminating connection|server closed the connection|connection reset|connection is lost|connection is closed"
        "|ssl syscall error|broken pipe|no connection to the server",
        "ended the connection; the next attempt opens a new one",
    ),
)
_EXPLANATIONS = (
    ("lock timeout", f"is locked: another program has held it for more than {BUSY_SECONDS} s"),
    ("permission denied", "may not be used in this way by this user"),
    ("not a database", "is damaged or is not a database; move it away to start with an empty one, it was not changed"),
    ("malformed", "is damaged; move it away to start with an empty one, it was not changed"),
    ("readonly", "cannot be written: the file or its folder is read-only"),
    ("unable to open", "cannot be opened: its folder is missing or may not be written"),
    ("disk is full", "cannot be written: the disk is full"),
    ("disk i/o error", "cannot be read or written: the disk reports an error or is full"),
    ("locked", f"is locked: another program has held it for more than {BUSY_SECONDS} s"),
)


@contextmanager
def sentences(name: str) -> Iterator[None]:
    """Turn whatever the database or the disk reports inside the block into a StoreError of one sentence."""
    try:
        yield
    except (SQLAlchemyError, OSError, ImportError) as error:
        cause = getattr(error, "orig", None) or error
        if isinstance(cause, ImportError):
            raise StoreAddressError(
                f"{name} needs the driver {cause.name}, which is not installed: `make postgresql` installs "
                "psycopg, for addresses that begin with postgresql://."
            ) from error
        whole = str(cause).strip()
        kinds = ((_OF_THE_ADDRESS, StoreAddressError), (_AWAY, StoreUnavailable), (_EXPLANATIONS, StoreError))
        for explanations, kind in kinds:
            for part, explanation in explanations:
                if re.search(part, whole, re.IGNORECASE):
                    raise kind(f"{name} {explanation}.") from error
        raise StoreError(f"{name} cannot be used: {(whole.splitlines() or [type(cause).__name__])[0]}") from error
