"""What rows of the database are, as values of the engine."""

import json
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Subquery, case, func, select

from engine.config import SimulationConfig
from engine.errors import UNREADABLE, StoreError
from engine.records import Provenance, RoundRecord, Run, RunKind, RunState, RunStatus
from engine.store.schema import records, runs

ORDER = (runs.c.batch, runs.c.created, runs.c.run_id)
"""In which the runs of one person are computed: those that somebody waits for before batches, then the longest waiting
first."""


def records_of(connection: Connection, run_id: str, after: int) -> tuple[RoundRecord, ...]:
    """Records of a run whose rounds come after this one. Raises StoreError."""
    query = select(records.c.body).where(records.c.run_id == run_id, records.c.round > after).order_by(records.c.round)
    try:
        return tuple(RoundRecord.from_dict(json.loads(body)) for body in connection.execute(query).scalars())
    except UNREADABLE as error:
        raise StoreError(f"The records of the run {run_id} cannot be read: {error}.") from error


def queue() -> Subquery:
    """What waits or runs, each with its turn: the first of everybody, then the second of everybody, …; what somebody
    has running counts among theirs. Where nobody signed in all are one person's."""
    running_first = case((runs.c.state == RunState.RUNNING, 0), else_=1)
    theirs = func.coalesce(runs.c.owner, "")
    turn = func.row_number().over(partition_by=theirs, order_by=(running_first, *ORDER)).label("turn")
    unfinished = runs.c.state.in_((RunState.QUEUED, RunState.RUNNING))
    of = runs.c
    asked: list[ColumnElement[Any]] = [of.run_id, of.state, of.batch, of.created, of.holder, of.heartbeat, turn]
    return select(*asked).where(unfinished).subquery()


def in_turn(found: Subquery) -> tuple[ColumnElement[Any], ...]:
    """The order in which a queue is computed."""
    return found.c.batch, found.c.turn, found.c.created, found.c.run_id


def _places() -> Subquery:
    found = queue()
    place = func.row_number().over(order_by=in_turn(found)).label("place")
    return select(found.c.run_id, place).where(found.c.state == RunState.QUEUED).subquery()


def places(connection: Connection) -> dict[str, int]:
    """Place in the queue of each run that waits, from 1."""
    return {row.run_id: int(row.place) for row in connection.execute(select(*_places().c))}


def status_of(connection: Connection, row: Row[Any]) -> RunStatus:
    """Where a run stands."""
    place = None
    if row.state == RunState.QUEUED:
        waiting = _places()
        place = connection.execute(select(waiting.c.place).where(waiting.c.run_id == row.run_id)).scalar()
    return status_at(row, place)


def status_at(row: Row[Any], place: int | None) -> RunStatus:
    """The same, its place in the queue known."""
    names = ("progress", "stage", "error", "created", "started", "finished", "heartbeat")
    known = {name: getattr(row, name) for name in names}
    return RunStatus(run_id=row.run_id, state=state_of(row), queue_place=place, **known)


def state_of(row: Row[Any]) -> RunState:
    """Its state. Raises StoreError where it is none that this version knows."""
    try:
        return RunState(row.state)
    except ValueError as error:
        raise StoreError(f"The state of the run {row.run_id} cannot be read: {error}.") from error


def config_of(row: Row[Any]) -> SimulationConfig:
    """What a run was asked to do. Raises StoreError."""
    try:
        return _read_config(row.config)
    except UNREADABLE as error:
        raise StoreError(f"The configuration of the run {row.run_id} cannot be read: {error}.") from error


@lru_cache(maxsize=16_384)
def _read_config(text: str) -> SimulationConfig:
    """Pages ask for the same thousands of runs again and again, and a configuration never changes."""
    return SimulationConfig.from_dict(json.loads(text))


@lru_cache(maxsize=16_384)
def listed(row: Row[Any], place: int | None) -> Run:
    """The run without its records; place: in the queue. Pages ask for the same thousands again and again: as long as
    nothing in its row changes it is the same run. Raises StoreError."""
    return run_of(row, status_at(row, place), ())


def run_of(row: Row[Any], status: RunStatus, found: tuple[RoundRecord, ...]) -> Run:
    """The run with these records. Raises StoreError."""
    try:
        provenance = Provenance(**json.loads(row.provenance)) if row.provenance else None
        kind = RunKind(row.kind)
    except UNREADABLE as error:
        raise StoreError(f"How the run {row.run_id} came about cannot be read: {error}.") from error
    return Run(
        run_id=row.run_id,
        config=config_of(row),
        status=status,
        records=found,
        provenance=provenance,
        kind=kind,
        parent=row.parent,
        owner=row.owner,
    )
