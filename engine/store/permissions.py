"""Owners of runs and corpora, and the audit log, for a dashboard with several users.

A user owns what they create, and it is invisible to other users until it is shared with all who can sign in. If two
users submit the same run, both own it: it is one computation, and each could have seen its result alone.
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
"""Maximum length of a subject in the audit log, in characters."""


def of_person(kind: str, person: str, *, shared: bool = True) -> Select[tuple[str]]:
    """Return the query for the names of runs or corpora that a user may use.

    Args:
        kind: ``RUN`` or ``CORPUS``.
        person: Name of the user.
        shared: Whether to include those that are shared with all users.
    """
    names = (person, EVERYBODY) if shared else (person,)
    return select(grants.c.name).where(grants.c.kind == kind, grants.c.person.in_(names))


def in_sight(person: User | None, run_id: Column[Any]) -> tuple[ColumnElement[bool], ...]:
    """Return the WHERE conditions for the runs that a user can see.

    Args:
        person: The user; None for the operator, who sees all.
        run_id: Column with the identities of the runs.
    """
    if person is None or person.role.may(Role.ADMIN):
        return ()
    return (run_id.in_(of_person(RUN, person.name)),)


def holders(connection: Connection, kind: str, name: str) -> set[str]:
    """Return the names of the users who may use a run or corpus, with ``*`` if it is shared with all."""
    query = select(grants.c.person).where(grants.c.kind == kind, grants.c.name == name)
    return set(connection.execute(query).scalars())


def grant(connection: Connection, kind: str, name: str, person: str) -> None:
    """Allow a user to use a run or corpus."""
    if person not in holders(connection, kind, name):
        connection.execute(insert(grants).values(kind=kind, name=name, person=person))


def withdraw(connection: Connection, kind: str, name: str, person: str | None = None) -> None:
    """Withdraw the permission of a user, or of all users if ``person`` is None."""
    rows = (grants.c.kind == kind, grants.c.name == name) + (() if person is None else (grants.c.person == person,))
    connection.execute(delete(grants).where(*rows))


def refuse_others(connection: Connection, kind: str, name: str, person: User | None, *, alone: bool = False) -> None:
    """Raise NotAllowed unless the user owns the run or corpus.

    Args:
        connection: The transaction.
        kind: ``RUN`` or ``CORPUS``.
        name: Identity of the run or name of the corpus.
        person: The user; None for the operator, who may change all.
        alone: Whether the user must be its only owner.
    """
    if person is None or person.role.may(Role.ADMIN):
        return
    every = holders(connection, kind, name)
    if person.name not in every:
        raise NotAllowed(f"The {kind} {name} belongs to another user: you can see it, but not change it.")
    if alone and every - {person.name, EVERYBODY}:
        raise NotAllowed(f"Another user also submitted the {kind} {name}, so it continues.")


def is_others_too(connection: Connection, kind: str, name: str, person: User | None) -> bool:
    """Return whether other users own it too, and if so end this user's ownership.

    For an admin, who decides for all users, the answer is always False.
    """
    if person is None or person.role.may(Role.ADMIN):
        return False
    if not holders(connection, kind, name) - {person.name, EVERYBODY}:
        return False
    withdraw(connection, kind, name, person.name)
    return True


def refuse_more(connection: Connection, person: User | None) -> None:
    """Raise NotAllowed if the user has the maximum number of queued and running runs."""
    if person is None:
        return
    unfinished = (runs.c.owner == person.name, runs.c.state.in_((RunState.QUEUED, RunState.RUNNING)))
    number = connection.execute(select(func.count()).select_from(runs).where(*unfinished)).scalar_one()
    if number >= person.limits.runs:
        raise NotAllowed(
            f"{person.name} has {number:,} queued or running runs, the maximum for one user. Wait until one of them "
            "finishes, or cancel one."
        )


def refuse_more_corpora(connection: Connection, person: User) -> None:
    """Raise NotAllowed if the user owns the maximum number of corpora."""
    if len(connection.execute(of_person(CORPUS, person.name, shared=False)).all()) >= person.limits.uploads:
        raise NotAllowed(
            f"{person.name} has {person.limits.uploads:,} corpora, the maximum for one user: delete one first."
        )


def write(connection: Connection, person: str, deed: str, subject: str, *, refused: bool) -> None:
    """Add an entry to the audit log."""
    text = subject.replace("\0", "")[:_LONGEST].encode("utf-8", "replace").decode("utf-8")
    connection.execute(
        insert(deeds).values(at=time.time(), person=person, deed=deed, subject=text, refused=int(refused))
    )


def subjects_since(connection: Connection, since: float) -> set[str]:
    """Return the subjects of all actions since a time, seconds since 1970 UTC."""
    return set(connection.execute(select(deeds.c.subject).where(deeds.c.at >= since)).scalars())


def number_before(connection: Connection, before: float) -> int:
    """Return the number of entries of the audit log before a time, seconds since 1970 UTC."""
    return int(connection.execute(select(func.count()).where(deeds.c.at < before)).scalar_one())


def delete_before(connection: Connection, before: float) -> int:
    """Delete the entries of the audit log before a time, seconds since 1970 UTC; return their number."""
    return connection.execute(delete(deeds).where(deeds.c.at < before)).rowcount


def subjects(connection: Connection, person: str, deed: str) -> list[str]:
    """Return the subjects of a user's actions of one kind, newest first, at most 1,000."""
    found = select(deeds.c.subject).where(deeds.c.person == person, deeds.c.deed == deed)
    return list(connection.execute(found.order_by(deeds.c.number.desc()).limit(1000)).scalars())


def corpora_by_person(connection: Connection) -> dict[str, int]:
    """Return the number of corpora that each user owns."""
    mine = (grants.c.kind == CORPUS, grants.c.person != EVERYBODY)
    found = connection.execute(select(grants.c.person, func.count()).where(*mine).group_by(grants.c.person))
    return {str(person): int(number) for person, number in found}


def activity(connection: Connection, since: float) -> list[tuple[str, str, bool, int]]:
    """Return the number of actions since a time, by user, action, and whether they were refused."""
    columns = deeds.c.person, deeds.c.deed, deeds.c.refused
    found = connection.execute(select(*columns, func.count()).where(deeds.c.at >= since).group_by(*columns))
    return [(str(person), str(deed), bool(refused), int(number)) for person, deed, refused, number in found]


def newest(
    connection: Connection, limit: int | None, *, person: str | None = None, since: float = 0.0
) -> Sequence[AuditLogEntry]:
    """Return the newest entries of the audit log, newest first.

    Args:
        connection: The transaction.
        limit: Largest number of entries; None for all.
        person: Only entries of this user; None for all.
        since: Only entries since this time, seconds since 1970 UTC.
    """
    query = select(deeds).where(deeds.c.at >= since).order_by(deeds.c.number.desc()).limit(limit)
    rows = connection.execute(query if person is None else query.where(deeds.c.person == person))
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
