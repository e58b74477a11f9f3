"""Runs and their records in a database, safe for many concurrent processes.

Every write of a worker carries the fencing token from :meth:`RunStore.claim` and succeeds only while the run is running
under that token. A worker whose run was cancelled or taken over by another worker can change nothing. A record is
written once. The same round again is ignored, since a resumed run repeats exactly the same steps: its random streams
depend on seed and step only.
"""

import copy
import dataclasses
import json
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, case, delete, func, insert, or_, select, update
from sqlalchemy import text as sql

from engine.access.roles import User
from engine.config import SimulationConfig
from engine.errors import RunNotFound, RunStopped, StoreError
from engine.privacy.budget import ChargeRequest
from engine.records import Provenance, RoundRecord, Run, RunKind, RunState, RunStatus
from engine.store import claims, permissions, privacy_ledger, row_mapping
from engine.store.claims import Claim, Unfinished
from engine.store.schema import Database, notes, records, runs, sentences

ATTEMPTS = 3
"""Number of times a run may lose its worker without a new record in between before it is marked as failed."""
_UNFINISHED = (RunState.QUEUED, RunState.RUNNING)


class RunStore:
    """The runs of a database, or those that one user may see (:meth:`for_user`).

    All methods raise StoreError if the database fails.
    """

    def __init__(self, address: str) -> None:
        self._database = Database(address)
        self.user: User | None = None

    def for_user(self, person: User) -> "RunStore":
        """Return the same store for one user, who sees only their own and shared runs."""
        store = copy.copy(self)
        store.user = person
        return store

    # Methods for all processes

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
        """Queue a run, unless it is queued, running or done; the user becomes one of its owners.

        A failed or cancelled run keeps its records and resumes from its checkpoint. Its ε remains correct: it is
        computed from plan and steps, and repeated steps draw the same samples and the same noise as before.

        Args:
            run_id: Identity of the run.
            config: The configuration.
            corpus_checksum: Checksum of the corpus.
            kind: Kind of the run.
            parent: The run that this one repeats or attacks, if any.
            wishes: Charges to the budgets of its corpora, in the same transaction.
            batch: Whether no user waits for it: it is queued after the runs that users wait for, until it is submitted
                without ``batch``.

        Raises:
            BudgetExceeded: If a budget does not admit the run. Nothing is stored.
            NotAllowed: If the user has the maximum number of queued and running runs. Nothing is stored.
        """
        now = time.time()
        new = {"config": config.canonical_json(), "corpus_checksum": corpus_checksum, "kind": kind, "parent": parent}
        queued: dict[str, Any] = {"state": RunState.QUEUED, "stage": "", "created": now, "attempts": 0}
        queued["batch"] = int(batch)
        again = {"error": None, "started": None, "finished": None, "heartbeat": None, "token": None}
        with self.exclusive() as connection:
            state = connection.execute(select(runs.c.state).where(runs.c.run_id == run_id)).scalar()
            active_or_done = state is not None and state not in (RunState.FAILED, RunState.CANCELLED)
            if not active_or_done:
                permissions.refuse_more(connection, self.user)
            if self.user:
                permissions.grant(connection, permissions.RUN, run_id, self.user.name)
                queued["owner"] = self.user.name
            if active_or_done:
                if not batch:
                    connection.execute(update(runs).where(runs.c.run_id == run_id).values(batch=0))
                return
            privacy_ledger.charge(connection, wishes, queued=True)
            if state is None:
                connection.execute(insert(runs).values(run_id=run_id, **new, **queued))
            else:
                connection.execute(update(runs).where(runs.c.run_id == run_id).values(**queued, **again))

    def cancel(self, run_id: str) -> None:
        """Cancel a queued or running run; its worker stops at its next write. Records remain.

        Raises:
            RunNotFound: If the user sees no such run.
            NotAllowed: If another user owns it.
        """
        with self.begin() as connection:
            self._existing(connection, run_id, lock=True)
            permissions.refuse_others(connection, permissions.RUN, run_id, self.user, alone=True)
            connection.execute(
                update(runs)
                .where(runs.c.run_id == run_id, runs.c.state.in_(_UNFINISHED))
                .values(state=RunState.CANCELLED, finished=time.time(), token=None, stage="")
            )

    def status(self, run_id: str) -> RunStatus:
        """Return the status of a run. Raises RunNotFound."""
        with self.begin() as connection:
            return row_mapping.status_of(connection, self._existing(connection, run_id))

    def get(self, run_id: str) -> Run:
        """Return a run with its records so far. Raises RunNotFound, or StoreError if it cannot be read."""
        with self.begin() as connection:
            row = self._existing(connection, run_id)
            return row_mapping.run_of(
                row, row_mapping.status_of(connection, row), row_mapping.records_of(connection, row, -1)
            )

    def records(self, run_id: str, after: int = -1) -> tuple[RoundRecord, ...]:
        """Return the records with a round greater than ``after``, in order. Raises RunNotFound."""
        with self.begin() as connection:
            return row_mapping.records_of(connection, self._existing(connection, run_id), after)

    def newest(
        self, limit: int, *states: RunState, before: tuple[float, str] | None = None
    ) -> tuple[list[Run], list[str]]:
        """Return runs without their records, newest first.

        Args:
            limit: Largest number of runs.
            *states: Only runs in these states; all if there are none.
            before: Submission time (seconds since 1970 UTC) and identity of the last run of the previous page.

        Returns:
            The runs, and an error message for each unreadable one.
        """
        query = select(runs).where(*self._visible).order_by(runs.c.created.desc(), runs.c.run_id).limit(limit)
        if states:
            query = query.where(runs.c.state.in_(states))
        if before:
            created, run_id = before
            same_time = and_(runs.c.created == created, runs.c.run_id > run_id)
            query = query.where(or_(runs.c.created < created, same_time))
        listed, problems = [], []
        with self.begin() as connection:
            rows = connection.execute(query).all()
            queued = any(row.state == RunState.QUEUED for row in rows)
            positions = row_mapping.places(connection) if queued else {}
            for row in rows:
                try:
                    listed.append(row_mapping.listed(row, positions.get(row.run_id)))
                except StoreError as error:
                    problems.append(str(error))
        return listed, problems

    def number(self) -> int:
        """Return the number of runs."""
        with self.begin() as connection:
            return int(connection.execute(select(func.count()).select_from(runs).where(*self._visible)).scalar_one())

    def checksums(self) -> dict[str, str]:
        """Return the checksum of each run's corpus at its submission; the corpus may have changed since."""
        with self.begin() as connection:
            rows = connection.execute(select(runs.c.run_id, runs.c.corpus_checksum).where(*self._visible))
            return {row.run_id: row.corpus_checksum for row in rows}

    def last_records(self, run_ids: Collection[str]) -> dict[str, RoundRecord]:
        """Return the newest record of each of these runs that has a readable one."""
        with self.begin() as connection:
            visible = permissions.in_sight(self.user, records.c.run_id)
            return row_mapping.last_records(connection, run_ids, *visible)

    def existing(self, run_ids: Collection[str]) -> set[str]:
        """Return those of these identities whose run is stored, and visible to the user."""
        if not run_ids:
            return set()
        with self.begin() as connection:
            return row_mapping.existing(connection, run_ids, *self._visible)

    def notes(self) -> dict[str, str]:
        """Return the notes of runs by run identity."""
        with self.begin() as connection:
            query = select(notes).join(runs, runs.c.run_id == notes.c.run_id).where(*self._visible)
            return {row.run_id: row.text for row in connection.execute(query)}

    def write_note(self, run_id: str, text: str) -> None:
        """Set the note of a run; an empty text deletes it. Raises RunNotFound, NotAllowed."""
        with self.begin() as connection:
            self._existing(connection, run_id, lock=True)
            permissions.refuse_others(connection, permissions.RUN, run_id, self.user)
            connection.execute(delete(notes).where(notes.c.run_id == run_id))
            if text:
                connection.execute(insert(notes).values(run_id=run_id, text=row_mapping.storable(text)))

    def delete(self, run_id: str, destroy_keys: Callable[[], None] = lambda: None) -> bool:
        """Delete a run with its records and its note, and stop it if it is queued or running.

        Its charges to budgets remain. If other users own the run too, only this user's ownership ends.

        Args:
            run_id: The run.
            destroy_keys: Destroys its noise keys before the run is gone: later, they could be of another database.

        Returns:
            Whether the run was deleted.

        Raises RunNotFound, or NotAllowed if the user does not own it.
        """
        with self.exclusive() as connection:
            self._existing(connection, run_id, lock=True)
            permissions.refuse_others(connection, permissions.RUN, run_id, self.user)
            if permissions.is_others_too(connection, permissions.RUN, run_id, self.user):
                return False
            destroy_keys()
            permissions.withdraw(connection, permissions.RUN, run_id)
            unfinished = (runs.c.run_id == run_id, runs.c.state.in_(_UNFINISHED))
            connection.execute(update(runs).where(*unfinished).values(state=RunState.CANCELLED))
            privacy_ledger.finalize(connection, run_id)
            for table in (notes, records, runs):
                connection.execute(delete(table).where(table.c.run_id == run_id))
        return True

    # Methods for the dispatcher

    def unfinished(self) -> list[Unfinished]:
        """Return the queued and running runs in the order of computation, round-robin over users."""
        queue = row_mapping.queue()
        query = select(*queue.c).order_by(*row_mapping.in_turn(queue))
        with self.begin() as connection:
            return [
                Unfinished(row.run_id, RunState(row.state), row.holder, row.heartbeat)
                for row in connection.execute(query)
            ]

    def release(self, holder: str, *, in_order: bool, run_id: str | None = None) -> None:
        """Requeue the running runs of a cluster, or one of them, whose workers have ended.

        Unless they ended ``in_order``, it counts as an attempt: a run that crashes its workers fails in the end.
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
        """Mark an unfinished run as failed when no worker can do so. ``error`` is one sentence."""
        failed = {"state": RunState.FAILED, "error": row_mapping.storable(error), "token": None, "stage": ""}
        with self.begin() as connection:
            connection.execute(
                update(runs)
                .where(runs.c.run_id == run_id, runs.c.state.in_(_UNFINISHED))
                .values(**failed, finished=time.time())
            )

    # Methods for workers

    def claim(self, run_id: str, holder: str) -> Claim:
        """Claim a queued run, or one whose worker in the same cluster has died; that worker can then no longer write.

        A run that has lost its worker ``ATTEMPTS`` times without a new record is marked as failed instead. ``holder``
        is the cluster of the worker. Raises RunStopped if the run has ended or belongs to another cluster.
        """
        now, token = time.time(), uuid.uuid4().hex
        running_here = and_(runs.c.state == RunState.RUNNING, runs.c.holder == holder)
        claimable = or_(runs.c.state == RunState.QUEUED, running_here)
        change = {"state": RunState.RUNNING, "token": token, "holder": holder, "heartbeat": now, "error": None}
        with self.begin() as connection:
            claimed = connection.execute(
                update(runs)
                .where(runs.c.run_id == run_id, claimable, runs.c.attempts < ATTEMPTS)
                .values(**change, started=func.coalesce(runs.c.started, now), attempts=runs.c.attempts + 1)
            ).rowcount
            row = self._existing(connection, run_id)
        if claimed:
            config = row_mapping.config_of(row)
            return Claim(run_id, token, holder, config, row.corpus_checksum, RunKind(row.kind), row.parent)
        if not row_mapping.state_of(row).final and row.attempts >= ATTEMPTS:
            where = f" while {row.stage}" if row.stage else ""
            self.fail(run_id, f"The worker process crashed {ATTEMPTS} times{where}; it may need more memory.")
        raise RunStopped(f"The run {run_id} is {row.state}.")

    def heartbeat(self, claim: Claim, stage: str, progress: float) -> int:
        """Record that the worker is alive, its stage and its progress.

        Args:
            claim: The worker's claim.
            stage: The stage, in words.
            progress: Share of the steps done, 0 to 1.

        Returns:
            Number of running runs of the same cluster, including this one.

        Raises:
            RunStopped: If the run was cancelled or taken over.
        """
        running = select(func.count()).where(runs.c.holder == claim.holder, runs.c.state == RunState.RUNNING)
        with self.begin() as connection:
            # A late heartbeat may be older than the newest record: the displayed progress never decreases.
            further = case((runs.c.progress > progress, runs.c.progress), else_=progress)
            claims.change(connection, claim, heartbeat=time.time(), stage=stage, progress=further)
            return int(connection.execute(running).scalar_one())

    def append(self, claim: Claim, record: RoundRecord) -> None:
        """Write a record unless its round exists. Raises RunStopped."""
        body = json.dumps(record.to_dict(), separators=(",", ":"), allow_nan=False)
        key = {"run_id": claim.run_id, "round": record.round}
        with self.begin() as connection:
            # The update comes first: it locks the run, so that no process writes between the query and the insertion.
            claims.change(connection, claim, heartbeat=time.time(), progress=record.progress, attempts=0)
            existing = select(records.c.round).filter_by(**key)
            if connection.execute(existing).first() is None:
                connection.execute(insert(records).values(**key, body=body))

    def finish(self, claim: Claim, provenance: Provenance) -> None:
        """Mark the run as done. Raises RunStopped."""
        text = json.dumps(dataclasses.asdict(provenance), sort_keys=True)
        done = {"state": RunState.DONE, "progress": 1.0, "provenance": text}
        with self.begin() as connection:
            claims.change(connection, claim, **done, finished=time.time(), token=None, stage="")

    def give_up(self, claim: Claim, error: str) -> None:
        """Mark the run as failed. ``error`` is one sentence for the user. Raises RunStopped."""
        with self.begin() as connection:
            claims.change(
                connection,
                claim,
                state=RunState.FAILED,
                error=row_mapping.storable(error),
                finished=time.time(),
                token=None,
                stage="",
            )

    # Transactions

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Open a transaction; raise database errors inside it as StoreError of one sentence."""
        engine, name = self._database.open()
        with sentences(name), engine.begin() as connection:
            yield connection

    @contextmanager
    def exclusive(self) -> Iterator[Connection]:
        """Open a transaction that excludes other exclusive ones or, in SQLite, all other writers. Raises StoreError."""
        with self.begin() as connection:
            if connection.dialect.name == "sqlite":
                row_mapping.begin_writing(connection)
            else:
                connection.execute(sql("LOCK TABLE bookings IN EXCLUSIVE MODE"))
            yield connection

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    @property
    def _visible(self) -> tuple[ColumnElement[bool], ...]:
        """WHERE conditions for the runs that the user sees."""
        return permissions.in_sight(self.user, runs.c.run_id)

    def _existing(self, connection: Connection, run_id: str, *, lock: bool = False) -> Row[Any]:
        """Return the row of a run. ``lock`` prevents changes by others until the transaction ends.

        Raises RunNotFound.
        """
        query = select(runs).where(runs.c.run_id == run_id, *self._visible)
        if lock and connection.dialect.name == "sqlite":
            row_mapping.begin_writing(connection)  # SQLite has no row locks
        elif lock:
            query = query.with_for_update()
        # PostgreSQL rejects a query with a null character in a text, where SQLite finds nothing.
        row = None if "\0" in run_id else connection.execute(query).first()
        if row is None:
            raise RunNotFound(f"No run has the identity {run_id!r}.")
        return row
