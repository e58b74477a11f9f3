"""What belongs to whom, asked and changed for one person or for whoever keeps the machine."""

from collections.abc import Callable, Sequence

from engine.access.roles import EVERYBODY, AuditLogEntry
from engine.store import permissions
from engine.store.run_store import RunStore


class AccessStore:
    """Of a store; its person is the one who asks. Methods raise StoreError when the database fails."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def own_corpora(self) -> frozenset[str]:
        """Names of the uploaded corpora that the person may use: their own, and those that are shared."""
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
        """Names of the corpora that are the person's own."""
        if self._store.user is None:
            return frozenset()
        mine = permissions.of_person(permissions.CORPUS, self._store.user.name, shared=False)
        with self._store.begin() as connection:
            return frozenset(map(str, connection.execute(mine).scalars()))

    def refuse_more_corpora(self) -> None:
        """Raise NotAllowed where the person has as many corpora as one person may."""
        if self._store.user:
            with self._store.begin() as connection:
                permissions.refuse_more_corpora(connection, self._store.user)

    def keep_corpus(self, place: Callable[[], str]) -> str:
        """Make a corpus that is being uploaded the person's; returns its name. place: puts it in its place and says its
        name; nobody else keeps one meanwhile, so that two at once are not more than one may have. Raises NotAllowed,
        in which case it is not put anywhere."""
        if self._store.user is None:
            return place()
        with self._store.exclusive() as connection:
            permissions.refuse_more_corpora(connection, self._store.user)
            name = place()
            permissions.grant(connection, permissions.CORPUS, name, self._store.user.name)
        return name

    def require_owner(self, kind: str, name: str) -> None:
        """Nothing where a run or a corpus is the person's to change. Raises NotAllowed."""
        with self._store.begin() as connection:
            permissions.refuse_others(connection, kind, name, self._store.user)

    def share(self, kind: str, name: str, *, shared: bool) -> None:
        """Let everybody who may sign in see a run or use a corpus, or nobody else any longer. Raises NotAllowed."""
        with self._store.exclusive() as connection:
            permissions.refuse_others(connection, kind, name, self._store.user)
            if shared:
                permissions.grant(connection, kind, name, EVERYBODY)
            else:
                permissions.withdraw(connection, kind, name, EVERYBODY)

    def shared(self, kind: str) -> frozenset[str]:
        """Names of what everybody who may sign in may use."""
        with self._store.begin() as connection:
            return frozenset(map(str, connection.execute(permissions.of_person(kind, EVERYBODY)).scalars()))

    def give_up_corpus(self, name: str) -> bool:
        """A corpus is the person's no longer; whether its file may go: it is nobody else's, or an admin says so."""
        with self._store.exclusive() as connection:
            return not permissions.is_others_too(connection, permissions.CORPUS, name, self._store.user)

    def forget_corpus(self, name: str, new: str | None = None) -> None:
        """Whose a corpus was, which is gone or (new) has another name now."""
        with self._store.exclusive() as connection:
            for person in permissions.holders(connection, permissions.CORPUS, name) if new else ():
                permissions.grant(connection, permissions.CORPUS, str(new), person)
            permissions.withdraw(connection, permissions.CORPUS, name)

    def log_action(self, person: str, deed: str, subject: str, *, refused: bool = False) -> None:
        """Add to the log of who did what."""
        with self._store.begin() as connection:
            permissions.write(connection, person, deed, subject, refused=refused)

    def audit_log(self, limit: int) -> Sequence[AuditLogEntry]:
        """The log, newest first."""
        with self._store.begin() as connection:
            return permissions.newest(connection, limit)
