"""The tables, the opening of a database, and its error messages.

SQLite in WAL mode is the default; the statements of this package also run on PostgreSQL.
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

SCHEMA, OLDER = "7", ("1", "2", "3", "4", "5", "6")
"""The last of :mod:`engine.store.migrations`, which yields the tables below, and versions that are upgraded on
opening."""
BUSY_SECONDS = 15
"""Seconds that a statement waits for another process's write: a virtual machine that holds the lock may pause."""
ANSWER_SECONDS = 5
"""Seconds that a server may take to answer."""
MAKING_SECONDS = 20
"""Seconds to wait while another process creates or upgrades the tables of an SQLite file.

On a busy disk this takes longer than any other write.
"""
_MIGRATION_LOCK = 0x65707369
"""PostgreSQL advisory lock held while tables are created or upgraded; an arbitrary number that all versions share."""

metadata = MetaData()
schema = Table("epsilon_schema", metadata, Column("version", Integer, primary_key=True, autoincrement=False))
"""Read by programs until version 2, so that they do not use a newer database."""
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
    Column("created", Float, nullable=False, index=True),  # last submission; all times in seconds since 1970 UTC
    Column("started", Float),
    Column("finished", Float),
    Column("heartbeat", Float),  # last write of the worker
    Column("error", Text),
    Column("token", String(32)),  # fencing token of the one worker that may write
    Column("holder", Text),  # the cluster whose worker has the token
    Column("attempts", Integer, nullable=False, default=0),  # claims since the last record
    Column("provenance", Text),  # Provenance as JSON, once done
    Column("kind", String(16), nullable=False, server_default="run", index=True),  # RunKind
    Column("parent", String(16)),  # the run that this one repeats or attacks
    Column("owner", String(64)),  # the user who submitted it, if users sign in
    Column("batch", Integer, nullable=False, server_default="0"),  # 1: no user waits for it, queued after the others
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
    Column("number", Integer, primary_key=True, autoincrement=False),  # from 1, without gaps
    Column("entry", Text, nullable=False),  # JSON; see engine.store.privacy_ledger
    Column("seal", String(64), nullable=False),  # chain hash: SHA-256 of the previous one, the number and the entry
)
grants = Table(
    "grants",
    metadata,
    Column("kind", String(16), primary_key=True),  # "run" or "corpus"
    Column("name", String(64), primary_key=True),
    Column("person", String(64), primary_key=True, index=True),  # a user who may use it; "*": all who can sign in
)
deeds = Table(
    "deeds",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("at", Float, nullable=False, index=True),  # seconds since 1970 UTC
    Column("person", String(64), nullable=False),
    Column("deed", String(32), nullable=False),
    Column("subject", Text, nullable=False),  # a run, a corpus, or a file name
    Column("refused", Integer, nullable=False),  # 1: the user lacked permission
)


def open_database(address: str) -> tuple[Engine, str]:
    """Return an SQLAlchemy engine for a database, and the database's name for messages (never with a password).

    Tables are created in an empty database; the content of an existing one is not changed.

    Args:
        address: SQLAlchemy URL of the database.

    Raises:
        StoreError: If the database cannot be reached, is damaged, or has tables of another version.
    """
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        url = None
    if url is None or "@" in (url.host or ""):  # the part after an @ in a password would be taken for the host
        raise StoreAddressError(
            "The database address (EPSILON_STORE_URL) is not a valid SQLAlchemy URL. In its password, write special "
            "characters percent-encoded: @ as %40."
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
        """Open the database if it is not open; see :func:`open_database`."""
        with self._lock:
            if self._opened is None:
                self._opened = open_database(self._address)
            return self._opened

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            if self._opened:
                self._opened[0].dispose()
            self._opened = None


def _is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"


def _name(url: URL) -> str:
    if _is_sqlite(url):
        return f"The database {url.database}"
    # Without the query after the question mark, which may contain a password too.
    return f"The database {url.set(query={}).render_as_string(hide_password=True)}"


def _options(url: URL) -> dict[str, Any]:
    """Return the connection options for the driver; options in the URL have priority.

    No process blocks the others for longer than a locked SQLite file would.
    """
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
    cursor.execute("PRAGMA synchronous=NORMAL")  # in WAL mode a crash of the machine loses at most the last write
    cursor.close()


def _prepare(engine: Engine, name: str) -> None:
    end = time.monotonic() + MAKING_SECONDS
    while True:
        try:
            if _version(engine) != SCHEMA:
                _create_or_upgrade(engine, name)
            return
        except DBAPIError as error:
            # Another process may be creating the same tables now: wait for it, then check whether they exist.
            if "is locked" in str(error.orig) and time.monotonic() < end:
                continue
            if _version(engine) != SCHEMA:
                raise
            return


def _version(engine: Engine) -> str | None:
    """Return the last migration: None in a database without our tables, "" if the version is unknown."""
    present = inspect(engine).get_table_names()
    with engine.connect() as connection:
        if steps.name in present:
            return str(connection.execute(select(steps.c.version_num)).scalar() or "")
        if schema.name in present:
            return str(connection.execute(select(schema.c.version)).scalar() or "")
    return "" if runs.name in present else None


def _create_or_upgrade(engine: Engine, name: str) -> None:
    """Create the tables in an empty database, or apply the missing migrations, in one transaction."""
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # one process at a time
        elif engine.dialect.name == "postgresql":
            connection.exec_driver_sql("SET LOCAL statement_timeout = 0")  # large tables take longer
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")  # one process at a time
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
                f"expected {SCHEMA}). Move it to another folder or choose another EPSILON_HOME; it was not changed."
            )


_ADDRESS_ERRORS = (
    ("can't load plugin", "needs a driver that is not installed; the URL must begin with sqlite:// or postgresql://"),
    ("password authentication failed", "rejects this user or this password (EPSILON_STORE_URL)"),
    ("no password supplied", "requires a password, which EPSILON_STORE_URL lacks"),
    ("could not translate host name", "cannot be reached: the host name is unknown"),
    ("failed to resolve host", "cannot be reached: the host name is unknown"),
    ("no such file or directory", "cannot be reached: no server listens there"),
    (r'database ".*" does not exist', "does not exist on that server; `createdb` creates an empty one"),
)
_UNAVAILABLE_ERRORS = (
    ("connection refused", "cannot be reached: no server listens there"),
    ("timeout expired", f"cannot be reached: no answer within {ANSWER_SECONDS} s"),
    ("connection timeout", f"cannot be reached: no answer within {ANSWER_SECONDS} s"),
    ("starting up|in recovery mode|not yet accepting", "is starting, or recovering from a crash"),
    ("shutting down", "is shutting down"),
    (
        "terminating connection|server closed the connection|connection reset|connection is lost|connection is closed"
        "|ssl syscall error|broken pipe|no connection to the server",
        "closed the connection; the next attempt opens a new one",
    ),
)
_OTHER_ERRORS = (
    ("lock timeout", f"is locked: another program has held it for more than {BUSY_SECONDS} s"),
    ("permission denied", "denies this user the permission"),
    (
        "not a database",
        "is damaged or not a database, and was not changed; move it elsewhere to start with an empty one",
    ),
    ("malformed", "is damaged, and was not changed; move it elsewhere to start with an empty one"),
    ("readonly", "cannot be written: the file or its folder is read-only"),
    ("unable to open", "cannot be opened: its folder is missing or not writable"),
    ("disk is full", "cannot be written: the disk is full"),
    ("disk i/o error", "cannot be read or written: the disk reports an error or is full"),
    ("locked", f"is locked: another program has held it for more than {BUSY_SECONDS} s"),
)


@contextmanager
def sentences(name: str) -> Iterator[None]:
    """Turn errors of the database or the disk inside the block into a StoreError of one sentence.

    Args:
        name: Name of the database in the message.
    """
    try:
        yield
    except (SQLAlchemyError, OSError, ImportError) as error:
        cause = getattr(error, "orig", None) or error
        if isinstance(cause, ImportError):
            raise StoreAddressError(
                f"{name} needs the driver {cause.name}, which is not installed: `make postgresql` installs "
                "psycopg, for addresses that begin with postgresql://."
            ) from error
        message = str(cause).strip()
        kinds = (
            (_ADDRESS_ERRORS, StoreAddressError),
            (_UNAVAILABLE_ERRORS, StoreUnavailable),
            (_OTHER_ERRORS, StoreError),
        )
        for explanations, kind in kinds:
            for pattern, explanation in explanations:
                if re.search(pattern, message, re.IGNORECASE):
                    raise kind(f"{name} {explanation}.") from error
        raise StoreError(f"{name} cannot be used: {(message.splitlines() or [type(cause).__name__])[0]}") from error
