"""Runs and their records in a database, safe for many processes at once.

Every write of a worker carries the token it got from :meth:`RunStore.claim` and happens only while the run is running
under that token (fencing): a worker that was cancelled, or that came back after another one took its run over, can
change nothing. A record is written once; the same round again is ignored, since a resumed run repeats exactly what it
did before (its random streams depend on seed and step only).
"""

import copy
import dataclasses
import json
import time
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, case, delete, func, insert, or_, select, update
from sqlalchemy import text as sql

from engine.access.roles import User
from engine.config import SimulationConfig
from engine.errors import UNREADABLE, RunNotFound, RunStopped, StoreError
from engine.privacy.budget import ChargeRequest
from engine.records import Provenance, RoundRecord, Run, RunKind, RunState, RunStatus
from engine.store import permissions, privacy_ledger, row_mapping
from engine.store.schema import Database, notes, records, runs, sentences

ATTEMPTS = 3
"""How often a run may lose its worker without a new record in between before it counts as failed."""
_UNFINISHED = (RunState.QUEUED, RunState.RUNNING)
_AT_ONCE = 500
"""Identities in one question: databases limit how many values a question has."""


@dataclass(frozen=True)
class Claim:
    """The right to compute a run. token: allows writing, until someone else claims the run or stops it. holder: the
    cluster it was given by. parent: the run that it is about, if it is about another."""

    run_id: str
    token: str
    holder: str
    config: SimulationConfig
    corpus_checksum: str
    kind: RunKind = RunKind.RUN
    parent: str | None = None


@dataclass(frozen=True)
class Unfinished:
    """A run that is queued or running. holder: the cluster that had it last. heartbeat: seconds since 1970 UTC."""

    run_id: str
    state: RunState
    holder: str | None
    heartbeat: float | None


class RunStore:
    """The runs of a database, or (``of``) those that one person may use. All methods raise StoreError when it fails."""

    def __init__(self, address: str) -> None:
        self._database = Database(address)
        self.user: User | None = None

    def for_user(self, person: User) -> "RunStore":
        """The same database for one person, for whom the runs of others are not there unless they are shared."""
        theirs = copy.copy(self)
        theirs.user = person
        return theirs

    # What anyone may do

    def submit(
        self,
        run_id: str,
        config: SimulationConfig,
        corpus_checksum: str,
        *,
        kind: RunKind = RunKind.RUN,
        parent: str | None = None,
        wishes: Sequence[ChargeRequest] = (),
        batch: bool = False,
    ) -> None:
        """Store a run as queued; join it if it is queued, running or done; queue it again if it was stopped.

        A failed or cancelled run keeps its records and goes on from its checkpoint. Its ε stays right: it is computed
        from plan and steps, and steps that are repeated draw the same samples and the same noise as before. wishes:
        what it is booked as where its corpora have budgets, in the same transaction. batch: whether nobody waits for
        it: it comes after those that somebody does, until somebody asks for it too. Raises BudgetExceeded, NotAllowed.
        """
        now = time.time()
        new = {"config": config.canonical_json(), "corpus_checksum": corpus_checksum, "kind": kind, "parent": parent}
        queued: dict[str, Any] = {"state": RunState.QUEUED, "stage": "", "created": now, "attempts": 0}
        queued["batch"] = int(batch)
        again = {"error": None, "started": None, "finished": None, "heartbeat": None, "token": None}
        with self.exclusive() as connection:
            state = connection.execute(select(runs.c.state).where(runs.c.run_id == run_id)).scalar()
            under_way = state is not None and state not in (RunState.FAILED, RunState.CANCELLED)
            if not under_way:
                permissions.refuse_more(connection, self.user)
            if self.user:
                permissions.grant(connection, permissions.RUN, run_id, self.user.name)
                queued["owner"] = self.user.name
            if under_way:
                if not batch:
                    connection.execute(update(runs).where(runs.c.run_id == run_id).values(batch=0))
                return
            privacy_ledger.charge(connection, wishes)
            if state is None:
                connection.execute(insert(runs).values(run_id=run_id, **new, **queued))
            else:
                connection.execute(update(runs).where(runs.c.run_id == run_id).values(**queued, **again))

    def cancel(self, run_id: str) -> None:
        """Stop a run that is queued or running, at once; its worker finds out by its next write. Records stay. Raises
        RunNotFound, NotAllowed."""
        with self.begin() as connection:
            self._existing(connection, run_id, alone=True)
            permissions.refuse_others(connection, permissions.RUN, run_id, self.user, alone=True)
            connection.execute(
                update(runs)
                .where(runs.c.run_id == run_id, runs.c.state.in_(_UNFINISHED))
                .values(state=RunState.CANCELLED, finished=time.time(), token=None, stage="")
            )

    def status(self, run_id: str) -> RunStatus:
        """How the run is doing. Raises RunNotFound."""
        with self.begin() as connection:
            return row_mapping.status_of(connection, self._existing(connection, run_id))

    def get(self, run_id: str) -> Run:
        """The run with its records so far. Raises RunNotFound, or StoreError if it cannot be read."""
        with self.begin() as connection:
            row = self._existing(connection, run_id)
            return row_mapping.run_of(
                row, row_mapping.status_of(connection, row), row_mapping.records_of(connection, run_id, -1)
            )

    def records(self, run_id: str, after: int = -1) -> tuple[RoundRecord, ...]:
        """The records with a round greater than ``after``, in order. Raises RunNotFound for one of somebody else."""
        with self.begin() as connection:
            if self._sight:
                self._existing(connection, run_id)
            return row_mapping.records_of(connection, run_id, after)

    def newest(
        self, limit: int, *states: RunState, before: tuple[float, str] | None = None
    ) -> tuple[list[Run], list[str]]:
        """Runs without records, newest first, in ``states`` (default: all); and a sentence for each unreadable one.
        before: when the last one that is known already was asked for, and its identity; only what comes after it."""
        query = select(runs).where(*self._sight).order_by(runs.c.created.desc(), runs.c.run_id).limit(limit)
        if states:
            query = query.where(runs.c.state.in_(states))
        if before:
            created, run_id = before
            at_once = and_(runs.c.created == created, runs.c.run_id > run_id)
            query = query.where(or_(runs.c.created < created, at_once))
        found, problems = [], []
        with self.begin() as connection:
            places = row_mapping.places(connection)
            for row in connection.execute(query).all():
                try:
                    found.append(row_mapping.listed(row, places.get(row.run_id)))
                except StoreError as error:
                    problems.append(str(error))
        return found, problems

    def number(self) -> int:
        """How many runs there are."""
        with self.begin() as connection:
            return int(connection.execute(select(func.count()).select_from(runs).where(*self._sight)).scalar_one())

    def checksums(self) -> dict[str, str]:
        """The checksum of the corpus that each run was asked for on, which may have changed since."""
        with self.begin() as connection:
            rows = connection.execute(select(runs.c.run_id, runs.c.corpus_checksum).where(*self._sight))
            return {row.run_id: row.corpus_checksum for row in rows}

    def last_records(self, run_ids: Collection[str]) -> dict[str, RoundRecord]:
        """The newest record of each of these runs that has one and can be read."""
        found, wanted = {}, sorted(run_ids)
        last = func.max(records.c.round).label("round")
        for first in range(0, len(wanted), _AT_ONCE):
            asked = records.c.run_id.in_(wanted[first : first + _AT_ONCE])
            seen = permissions.in_sight(self.user, records.c.run_id)
            newest = select(records.c.run_id, last).where(asked, *seen).group_by(records.c.run_id).subquery()
            same = and_(records.c.run_id == newest.c.run_id, records.c.round == newest.c.round)
            with self.begin() as connection:
                for row in connection.execute(select(records.c.run_id, records.c.body).join(newest, same)):
                    with suppress(*UNREADABLE):
                        found[row.run_id] = RoundRecord.from_dict(json.loads(row.body))
        return found

    def notes(self) -> dict[str, str]:
        """What users wrote beside their runs."""
        with self.begin() as connection:
            seen = select(notes).join(runs, runs.c.run_id == notes.c.run_id).where(*self._sight)
            return {row.run_id: row.text for row in connection.execute(seen)}

    def write_note(self, run_id: str, text: str) -> None:
        """Put a note beside a run in place of the one that was there; an empty one removes it. Raises RunNotFound,
        NotAllowed."""
        with self.begin() as connection:
            self._existing(connection, run_id, alone=True)
            permissions.refuse_others(connection, permissions.RUN, run_id, self.user)
            connection.execute(delete(notes).where(notes.c.run_id == run_id))
            if text:
                connection.execute(insert(notes).values(run_id=run_id, text=_storable(text)))

    def delete(self, run_id: str) -> bool:
        """Forget a run with its records and its note; one under way is stopped by it. What it took of a budget stays
        booked. One that is somebody else's too is forgotten for this person alone: then the answer is false. Raises
        RunNotFound, NotAllowed."""
        with self.exclusive() as connection:
            self._existing(connection, run_id, alone=True)
            permissions.refuse_others(connection, permissions.RUN, run_id, self.user)
            if permissions.is_others_too(connection, permissions.RUN, run_id, self.user):
                return False
            permissions.withdraw(connection, permissions.RUN, run_id)
            unfinished = (runs.c.run_id == run_id, runs.c.state.in_(_UNFINISHED))
            connection.execute(update(runs).where(*unfinished).values(state=RunState.CANCELLED))
            privacy_ledger.finalize(connection, run_id)
            for table in (notes, records, runs):
                connection.execute(delete(table).where(table.c.run_id == run_id))
        return True

    # What the cluster process does

    def unfinished(self) -> list[Unfinished]:
        """Queued and running runs, in the order in which they are to be computed, everybody in turn."""
        queue = row_mapping.queue()
        query = select(*queue.c).order_by(*row_mapping.in_turn(queue))
        with self.begin() as connection:
            return [
                Unfinished(row.run_id, RunState(row.state), row.holder, row.heartbeat)
                for row in connection.execute(query)
            ]

    def release(self, holder: str, *, in_order: bool, run_id: str | None = None) -> None:
        """Queue again what the workers of ``holder`` were computing when they ended, in good order or by a crash: all
        of it, or one run.

        Only a crash counts as an attempt: a run that takes its workers down must not do so for ever.
        """
        one = () if run_id is None else (runs.c.run_id == run_id,)
        again = {"state": RunState.QUEUED, "stage": "", "token": None, "heartbeat": None}
        with self.begin() as connection:
            connection.execute(
                update(runs)
                .where(runs.c.holder == holder, runs.c.state == RunState.RUNNING, *one)
                .values(**again, **({"attempts": 0} if in_order else {}))
            )

    def fail(self, run_id: str, error: str) -> None:
        """Mark an unfinished run as failed from outside, when no worker can do it. ``error``: one sentence."""
        with self.begin() as connection:
            connection.execute(
                update(runs)
                .where(runs.c.run_id == run_id, runs.c.state.in_(_UNFINISHED))
                .values(state=RunState.FAILED, error=_storable(error), finished=time.time(), token=None, stage="")
            )

    # What a worker does

    def claim(self, run_id: str, holder: str) -> Claim:
        """Take a queued run, or one whose worker under the same ``holder`` has died, which can then no longer write.

        Raises RunStopped if the run is final or somebody else's. A run that has lost its worker ``ATTEMPTS`` times
        without a new record is marked as failed instead.
        """
        now, token = time.time(), uuid.uuid4().hex
        running_here = and_(runs.c.state == RunState.RUNNING, runs.c.holder == holder)
        mine = or_(runs.c.state == RunState.QUEUED, running_here)
        change = {"state": RunState.RUNNING, "token": token, "holder": holder, "heartbeat": now, "error": None}
        with self.begin() as connection:
            claimed = connection.execute(
                update(runs)
                .where(runs.c.run_id == run_id, mine, runs.c.attempts < ATTEMPTS)
                .values(**change, started=func.coalesce(runs.c.started, now), attempts=runs.c.attempts + 1)
            ).rowcount
            row = self._existing(connection, run_id)
        if claimed:
            config = row_mapping.config_of(row)
            return Claim(run_id, token, holder, config, row.corpus_checksum, RunKind(row.kind), row.parent)
        if not row_mapping.state_of(row).final and row.attempts >= ATTEMPTS:
            where = f" while {row.stage}" if row.stage else ""
            self.fail(run_id, f"The worker process ended {ATTEMPTS} times{where}; the memory may be too small.")
        raise RunStopped(f"The run {run_id} is {row.state}.")

    def heartbeat(self, claim: Claim, stage: str, progress: float) -> int:
        """Say that the worker lives, what it does and how far it is (0 to 1). Raises RunStopped if it may not go on.

        Returns how many runs of the same cluster are under way, this one included.
        """
        under_way = select(func.count()).where(runs.c.holder == claim.holder, runs.c.state == RunState.RUNNING)
        with self.begin() as connection:
            # Told before the newest record: what is shown never goes back.
            further = case((runs.c.progress > progress, runs.c.progress), else_=progress)
            _change(connection, claim, heartbeat=time.time(), stage=stage, progress=further)
            return int(connection.execute(under_way).scalar_one())

    def append(self, claim: Claim, record: RoundRecord) -> None:
        """Write a record; one that is there already stays as it is. Raises RunStopped."""
        body = json.dumps(record.to_dict(), separators=(",", ":"), allow_nan=False)
        key = {"run_id": claim.run_id, "round": record.round}
        with self.begin() as connection:
            # The update comes first: it locks the run, so that nobody writes between the question and the insertion.
            _change(connection, claim, heartbeat=time.time(), progress=record.progress, attempts=0)
            there = select(records.c.round).filter_by(**key)
            if connection.execute(there).first() is None:
                connection.execute(insert(records).values(**key, body=body))

    def finish(self, claim: Claim, provenance: Provenance) -> None:
        """Mark the run as done. Raises RunStopped."""
        text = json.dumps(dataclasses.asdict(provenance), sort_keys=True)
        done = {"state": RunState.DONE, "progress": 1.0, "provenance": text}
        with self.begin() as connection:
            _change(connection, claim, **done, finished=time.time(), token=None, stage="")

    def give_up(self, claim: Claim, error: str) -> None:
        """Mark the run as failed. ``error``: one sentence for the user. Raises RunStopped."""
        with self.begin() as connection:
            _change(
                connection,
                claim,
                state=RunState.FAILED,
                error=_storable(error),
                finished=time.time(),
                token=None,
                stage="",
            )

    # Below

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """One transaction; what goes wrong in it is said in a sentence."""
        engine, name = self._database.open()
        with sentences(name), engine.begin() as connection:
            yield connection

    @contextmanager
    def exclusive(self) -> Iterator[Connection]:
        """One transaction, between whose question and answer nobody else books or, in SQLite, writes at all. Raises
        StoreError."""
        with self.begin() as connection:
            if connection.dialect.name == "sqlite":
                _begin_writing(connection)
            else:
                connection.execute(sql("LOCK TABLE bookings IN EXCLUSIVE MODE"))
            yield connection

    def close(self) -> None:
        """Let go of all connections."""
        self._database.close()

    @property
    def _sight(self) -> tuple[ColumnElement[bool], ...]:
        return permissions.in_sight(self.user, runs.c.run_id)

    def _existing(self, connection: Connection, run_id: str, *, alone: bool = False) -> Row[Any]:
        """The run. alone: nobody else changes it until the transaction ends."""
        query = select(runs).where(runs.c.run_id == run_id, *self._sight)
        if alone and connection.dialect.name == "sqlite":
            _begin_writing(connection)  # it has no locks of rows
        elif alone:
            query = query.with_for_update()
        # PostgreSQL refuses a question with a zero in a text, where SQLite finds nothing.
        row = None if "\0" in run_id else connection.execute(query).first()
        if row is None:
            raise RunNotFound(f"No run has the identity {run_id!r}.")
        return row


def _begin_writing(connection: Connection) -> None:
    """SQLite: from here on nobody else writes, until the transaction ends."""
    driver = connection.connection.dbapi_connection
    if driver is not None and not driver.in_transaction:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _storable(text: str) -> str:
    """A text from outside without what a database refuses: zeros (PostgreSQL) and halves of characters."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def _change(connection: Connection, claim: Claim, **values: Any) -> None:
    """Change a run under its claim, or raise RunStopped and change nothing."""
    mine = (runs.c.run_id == claim.run_id, runs.c.token == claim.token, runs.c.state == RunState.RUNNING)
    if connection.execute(update(runs).where(*mine).values(**values)).rowcount != 1:
        raise RunStopped(f"The run {claim.run_id} was stopped or taken over by another worker.")
