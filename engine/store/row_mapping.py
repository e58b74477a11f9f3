"""Conversion of database rows to values of the engine, and the order of the queue."""

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Subquery, and_, case, func, select

from engine.config import SimulationConfig
from engine.errors import UNREADABLE, StoreError
from engine.records import RoundRecord, Run, RunKind, RunState, RunStatus
from engine.store import earlier_records
from engine.store.schema import records, runs

ORDER = (runs.c.batch, runs.c.created, runs.c.run_id)
"""Order in which the runs of one user are computed: batch runs last, then the longest waiting first."""
_BATCH = 500
"""Number of identities in one query: databases limit the number of bound values."""


def records_of(connection: Connection, row: Row[Any], after: int) -> tuple[RoundRecord, ...]:
    """Return the records of a run with a round greater than ``after``, in order. Raises StoreError."""
    own = runs.c.run_id == row.run_id
    columns = records.c.run_id, records.c.body, runs.c.config
    query = select(*columns).join(runs, runs.c.run_id == records.c.run_id).where(own, records.c.round > after)
    try:
        return tuple(map(record_of, connection.execute(query.order_by(records.c.round))))
    except UNREADABLE as error:
        raise StoreError(f"The records of the run {row.run_id} cannot be read: {error}.") from error


def record_of(row: Row[Any, Any, Any]) -> RoundRecord:
    """Return the record of a row with its identity, ``body`` and the run's ``config``.

    Raises:
        StoreError: If the configuration cannot be read.
        ValueError, TypeError or KeyError: If the record cannot be read.
    """
    return earlier_records.restated(config_of(row), RoundRecord.from_dict(json.loads(row.body)))


def _batches(identities: Collection[str]) -> Iterator[Sequence[str]]:
    every = sorted(identities)
    for first in range(0, len(every), _BATCH):
        yield every[first : first + _BATCH]


def existing(connection: Connection, run_ids: Collection[str], *visible: ColumnElement[bool]) -> set[str]:
    """Return those of these identities whose run is stored and fulfils the conditions."""
    found: set[str] = set()
    for identities in _batches(run_ids):
        selected = runs.c.run_id.in_(identities)
        found |= set(connection.execute(select(runs.c.run_id).where(selected, *visible)).scalars())
    return found


def last_records(
    connection: Connection, run_ids: Collection[str], *visible: ColumnElement[bool]
) -> dict[str, RoundRecord]:
    """Return the newest record of each of these runs that has a readable one and fulfils the conditions."""
    newest_records, last = {}, func.max(records.c.round).label("round")
    columns = records.c.run_id, records.c.body, runs.c.config
    for identities in _batches(run_ids):
        conditions = records.c.run_id.in_(identities), *visible
        newest = select(records.c.run_id, last).where(*conditions).group_by(records.c.run_id).subquery()
        same = and_(records.c.run_id == newest.c.run_id, records.c.round == newest.c.round)
        found = select(*columns).join(newest, same).join(runs, runs.c.run_id == records.c.run_id)
        for row in connection.execute(found):
            with suppress(*UNREADABLE, StoreError):
                newest_records[row.run_id] = record_of(row)
    return newest_records


def queue() -> Subquery:
    """Return the query for queued and running runs with their turns in a round-robin over users.

    The first runs of all users come first, then the second ones, and so on; running ones count. Without sign-in all
    runs belong to one user.
    """
    running_first = case((runs.c.state == RunState.RUNNING, 0), else_=1)
    owner = func.coalesce(runs.c.owner, "")
    turn = func.row_number().over(partition_by=owner, order_by=(running_first, *ORDER)).label("turn")
    unfinished = runs.c.state.in_((RunState.QUEUED, RunState.RUNNING))
    of = runs.c
    columns: list[ColumnElement[Any]] = [of.run_id, of.state, of.batch, of.created, of.holder, of.heartbeat, turn]
    return select(*columns).where(unfinished).subquery()


def in_turn(found: Subquery) -> tuple[ColumnElement[Any], ...]:
    """Return the columns by which the query of :func:`queue` is ordered."""
    return found.c.batch, found.c.turn, found.c.created, found.c.run_id


def _positions() -> Subquery:
    unfinished = queue()
    position = func.row_number().over(order_by=in_turn(unfinished)).label("position")
    return select(unfinished.c.run_id, position).where(unfinished.c.state == RunState.QUEUED).subquery()


def places(connection: Connection) -> dict[str, int]:
    """Return the position in the queue of each queued run, from 1."""
    return {row.run_id: int(row.position) for row in connection.execute(select(*_positions().c))}


def status_of(connection: Connection, row: Row[Any]) -> RunStatus:
    """Return the status of a run."""
    position = None
    if row.state == RunState.QUEUED:
        positions = _positions()
        position = connection.execute(select(positions.c.position).where(positions.c.run_id == row.run_id)).scalar()
    return status_at(row, position)


def status_at(row: Row[Any], place: int | None) -> RunStatus:
    """Return the status of a run with this position in the queue."""
    names = ("progress", "stage", "error", "created", "started", "finished", "heartbeat")
    values = {name: getattr(row, name) for name in names}
    return RunStatus(run_id=row.run_id, state=state_of(row), queue_place=place, **values)


def state_of(row: Row[Any]) -> RunState:
    """Return the state of a run. Raises StoreError if this version does not know it."""
    try:
        return RunState(row.state)
    except ValueError as error:
        raise StoreError(f"The state of the run {row.run_id} cannot be read: {error}.") from error


def config_of(row: Row[Any] | Row[Any, Any, Any]) -> SimulationConfig:
    """Return the configuration of a run. Raises StoreError."""
    try:
        return _read_config(row.config)
    except UNREADABLE as error:
        raise StoreError(f"The configuration of the run {row.run_id} cannot be read: {error}.") from error


@lru_cache(maxsize=16_384)
def _read_config(text: str) -> SimulationConfig:
    """Return the configuration from its JSON, cached: pages read thousands of runs often, and it never changes."""
    return SimulationConfig.from_dict(json.loads(text))


@lru_cache(maxsize=16_384)
def listed(row: Row[Any], place: int | None) -> Run:
    """Return the run without its records.

    The result is cached as long as the row does not change, since pages read the same thousands of runs often.

    Args:
        row: The row of the run.
        place: Position in the queue, or None.

    Raises:
        StoreError: If the row cannot be read.
    """
    return run_of(row, status_at(row, place), ())


def run_of(row: Row[Any], status: RunStatus, found: tuple[RoundRecord, ...]) -> Run:
    """Return the run with these records. Raises StoreError."""
    try:
        config, stored = config_of(row), json.loads(row.provenance) if row.provenance else None
        provenance = earlier_records.provenance_of(config, stored) if stored else None
        kind = RunKind(row.kind)
    except UNREADABLE as error:
        raise StoreError(f"The provenance of the run {row.run_id} cannot be read: {error}.") from error
    return Run(
        run_id=row.run_id,
        config=config,
        status=status,
        records=found,
        provenance=provenance,
        kind=kind,
        parent=row.parent,
        owner=row.owner,
    )


def begin_writing(connection: Connection) -> None:
    """Prevent other writers in SQLite until the transaction ends."""
    driver = connection.connection.dbapi_connection
    if driver is not None and not driver.in_transaction:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def storable(text: str) -> str:
    """Return a text without characters that databases reject: null characters (PostgreSQL) and lone surrogates."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
