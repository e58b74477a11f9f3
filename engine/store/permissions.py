"""Whose runs and corpora are, and who did what, where several people use one dashboard.

What somebody made is theirs, and there for nobody else until they share it with everybody who may sign in. Two people
who ask for the same run both have it: it is one computation, and each could have seen its outcome alone.
"""

import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, delete, func, insert, select

from engine.access.roles import EVERYBODY, AuditLogEntry, Role, User
from engine.errors import NotAllowed
from engine.records import RunState
from engine.store.schema import deeds, grants, runs

RUN, CORPUS = "run", "corpus"
_LONGEST = 500
"""Characters of a subject."""


def of_person(kind: str, person: str, *, shared: bool = True) -> Select[tuple[str]]:
    """Names of what somebody may use. shared: what is everybody's too."""
    who = (person, EVERYBODY) if shared else (person,)
    return select(grants.c.name).where(grants.c.kind == kind, grants.c.person.in_(who))


def in_sight(person: User | None, run_id: Column[Any]) -> tuple[ColumnElement[bool], ...]:
    """Which runs there are for somebody; None: whoever keeps the machine. run_id: the column that names them."""
    if person is None or person.role.may(Role.ADMIN):
        return ()
    return (run_id.in_(of_person(RUN, person.name)),)


def holders(connection: Connection, kind: str, name: str) -> set[str]:
    """Who may use it, ``*`` among them where everybody may."""
    found = select(grants.c.person).where(grants.c.kind == kind, grants.c.name == name)
    return set(connection.execute(found).scalars())


def grant(connection: Connection, kind: str, name: str, person: str) -> None:
    """Let somebody use it."""
    if person not in holders(connection, kind, name):
        connection.execute(insert(grants).values(kind=kind, name=name, person=person))


def withdraw(connection: Connection, kind: str, name: str, person: str | None = None) -> None:
    """Let somebody, or (None) anybody, use it no longer."""
    of = (grants.c.kind == kind, grants.c.name == name) + (() if person is None else (grants.c.person == person,))
    connection.execute(delete(grants).where(*of))


def refuse_others(connection: Connection, kind: str, name: str, person: User | None, *, alone: bool = False) -> None:
    """Raise NotAllowed unless it is the person's. alone: and nobody else's too."""
    if person is None or person.role.may(Role.ADMIN):
        return
    every = holders(connection, kind, name)
    if person.name not in every:
        raise NotAllowed(f"The {kind} {name} is somebody else's: it can be seen, not changed.")
    if alone and every - {person.name, EVERYBODY}:
        raise NotAllowed(f"Somebody else asked for the {kind} {name} too, so it goes on.")


def is_others_too(connection: Connection, kind: str, name: str, person: User | None) -> bool:
    """Whether somebody else has it too; then it is the person's no longer. Never for an admin, who decides for all."""
    if person is None or person.role.may(Role.ADMIN):
        return False
    if not holders(connection, kind, name) - {person.name, EVERYBODY}:
        return False
    withdraw(connection, kind, name, person.name)
    return True


def refuse_more(connection: Connection, person: User | None) -> None:
    """Raise NotAllowed where somebody has as many runs under way as one person may."""
    if person is None:
        return
    unfinished = (runs.c.owner == person.name, runs.c.state.in_((RunState.QUEUED, RunState.RUNNING)))
    number = connection.execute(select(func.count()).select_from(runs).where(*unfinished)).scalar_one()
    if number >= person.limits.runs:
        raise NotAllowed(
            f"{person.name} has {number:,} runs that wait or run, the most that one person may: once one of them has "
            "ended, or is cancelled, another can be started."
        )


def refuse_more_corpora(connection: Connection, person: User) -> None:
    """Raise NotAllowed where somebody has as many corpora of their own as one person may."""
    if len(connection.execute(of_person(CORPUS, person.name, shared=False)).all()) >= person.limits.uploads:
        most = f"{person.limits.uploads:,} corpora, the most that one person may have"
        raise NotAllowed(f"{person.name} has {most}: delete one first.")


def write(connection: Connection, person: str, deed: str, subject: str, *, refused: bool) -> None:
    """Add to the log."""
    said = subject.replace("\0", "")[:_LONGEST].encode("utf-8", "replace").decode("utf-8")
    connection.execute(
        insert(deeds).values(at=time.time(), person=person, deed=deed, subject=said, refused=int(refused))
    )


def newest(connection: Connection, limit: int) -> Sequence[AuditLogEntry]:
    """The log, newest first."""
    rows = connection.execute(select(deeds).order_by(deeds.c.number.desc()).limit(limit))
    return [
        AuditLogEntry(
            number=row.number,
            at=row.at,
            person=row.person,
            action=row.deed,
            subject=row.subject,
            refused=bool(row.refused),
        )
        for row in rows
    ]
