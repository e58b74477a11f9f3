"""Ownership and sharing of runs and corpora, for one user or for the operator."""

from collections.abc import Callable, Collection, Sequence

from engine.access.roles import EVERYBODY, SIGN_OUT, AuditLogEntry, Belongings
from engine.store import permissions
from engine.store.run_store import RunStore


class AccessStore:
    """Permissions in a store, for the store's user. Methods raise StoreError if the database fails."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def own_corpora(self) -> frozenset[str]:
        """Return the names of the uploaded corpora that the user may use: their own and shared ones."""
        if self._store.user is None:
            return frozenset()
        with self._store.begin() as connection:
            return frozenset(
                map(
                    str,
                    connection.execute(permissions.of_person(permissions.CORPUS, self._store.user.name)).scalars(),
                )
            )

    def brought(self) -> frozenset[str]:
        """Return the names of the corpora that the user owns."""
        if self._store.user is None:
            return frozenset()
        mine = permissions.of_person(permissions.CORPUS, self._store.user.name, shared=False)
        with self._store.begin() as connection:
            return frozenset(map(str, connection.execute(mine).scalars()))

    def refuse_more_corpora(self) -> None:
        """Raise NotAllowed if the user owns the maximum number of corpora."""
        if self._store.user:
            with self._store.begin() as connection:
                permissions.refuse_more_corpora(connection, self._store.user)

    def keep_corpus(self, place: Callable[[], str]) -> str:
        """Save an uploaded corpus as the user's own and return its name.

        An exclusive transaction prevents that two simultaneous uploads exceed the user's limit.

        Args:
            place: Save the corpus and return its name.

        Raises:
            NotAllowed: If the user owns the maximum number of corpora. The corpus is not saved.
        """
        if self._store.user is None:
            return place()
        with self._store.exclusive() as connection:
            permissions.refuse_more_corpora(connection, self._store.user)
            name = place()
            permissions.grant(connection, permissions.CORPUS, name, self._store.user.name)
        return name

    def require_owner(self, kind: str, name: str) -> None:
        """Raise NotAllowed unless the user may change the run or corpus."""
        with self._store.begin() as connection:
            permissions.refuse_others(connection, kind, name, self._store.user)

    def share(self, kind: str, name: str, *, shared: bool) -> None:
        """Share a run or corpus with all users, or stop sharing it. Raises NotAllowed."""
        with self._store.exclusive() as connection:
            permissions.refuse_others(connection, kind, name, self._store.user)
            if shared:
                permissions.grant(connection, kind, name, EVERYBODY)
            else:
                permissions.withdraw(connection, kind, name, EVERYBODY)

    def shared(self, kind: str) -> frozenset[str]:
        """Return the names of the runs or corpora that are shared with all users."""
        with self._store.begin() as connection:
            return frozenset(map(str, connection.execute(permissions.of_person(kind, EVERYBODY)).scalars()))

    def shared_with(self, name: str, others: Collection[str]) -> set[str]:
        """Return those of the corpora ``others`` that every user of the corpus ``name`` may use, too.

        Without owner, a corpus is only used by the operator, who may use all.
        """
        with self._store.begin() as connection:
            users = permissions.holders(connection, permissions.CORPUS, name)
            owners = {other: permissions.holders(connection, permissions.CORPUS, other) for other in others}
        return {other for other, found in owners.items() if users <= found or EVERYBODY in found}

    def give_up_corpus(self, name: str) -> bool:
        """End the user's ownership of a corpus.

        Returns:
            Whether its file may be deleted: no other user owns it, or the user is an admin.
        """
        with self._store.exclusive() as connection:
            return not permissions.is_others_too(connection, permissions.CORPUS, name, self._store.user)

    def forget_corpus(self, name: str, new: str | None = None) -> None:
        """Remove the permissions of a deleted corpus, or move them to its new name.

        Args:
            name: Name of the corpus.
            new: Its new name, or None if it was deleted.
        """
        with self._store.exclusive() as connection:
            for person in permissions.holders(connection, permissions.CORPUS, name) if new else ():
                permissions.grant(connection, permissions.CORPUS, str(new), person)
            permissions.withdraw(connection, permissions.CORPUS, name)

    def belongings(self, person: str) -> Belongings:
        """Return what the database holds on a user."""
        with self._store.begin() as connection:
            runs, corpora = (
                frozenset(map(str, connection.execute(permissions.of_person(kind, person, shared=False)).scalars()))
                for kind in (permissions.RUN, permissions.CORPUS)
            )
            holders = {run: permissions.holders(connection, permissions.RUN, run) for run in runs}
            return Belongings(
                person=person,
                runs=runs,
                shared=frozenset(run for run, names in holders.items() if EVERYBODY in names),
                joint=frozenset(run for run, names in holders.items() if names - {person, EVERYBODY}),
                corpora=corpora,
                log=tuple(permissions.newest(connection, None, person=person)),
            )

    def log_action(self, person: str, deed: str, subject: str, *, refused: bool = False) -> None:
        """Add an entry to the audit log."""
        with self._store.begin() as connection:
            permissions.write(connection, person, deed, subject, refused=refused)

    def signed_out(self, person: str) -> float:
        """Return the time of the last sign-in that a user ended by signing out, seconds since 1970; 0 if none."""
        with self._store.begin() as connection:
            return max(map(float, permissions.subjects(connection, person, SIGN_OUT)), default=0.0)

    def subjects_since(self, since: float) -> set[str]:
        """Return the runs, corpora and files of all logged actions since a time, seconds since 1970 UTC."""
        with self._store.begin() as connection:
            return permissions.subjects_since(connection, since)

    def number_before(self, before: float) -> int:
        """Return the number of entries of the audit log before a time, seconds since 1970 UTC."""
        with self._store.begin() as connection:
            return permissions.number_before(connection, before)

    def delete_before(self, before: float) -> int:
        """Delete the entries of the audit log before a time, seconds since 1970 UTC; return their number."""
        with self._store.begin() as connection:
            return permissions.delete_before(connection, before)

    def audit_log(self, limit: int, person: str | None = None, since: float = 0.0) -> Sequence[AuditLogEntry]:
        """Return the newest entries of the audit log, newest first.

        Args:
            limit: Largest number of entries.
            person: Only entries of this user; None for all.
            since: Only entries since this time, seconds since 1970 UTC.
        """
        with self._store.begin() as connection:
            return permissions.newest(connection, limit, person=person, since=since)

    def corpora_by_user(self) -> dict[str, int]:
        """Return the number of corpora that each user owns."""
        with self._store.begin() as connection:
            return permissions.corpora_by_person(connection)

    def activity(self, since: float) -> Sequence[tuple[str, str, bool, int]]:
        """Return the number of logged actions since a time, by user, action, and whether it was refused."""
        with self._store.begin() as connection:
            return permissions.activity(connection, since)
