"""Authorisation, sharing and the audit log."""

import getpass
import time
from collections.abc import Sequence

from engine.access import roles
from engine.access.roles import SIGN_OUT, AuditLogEntry, Belongings, Role
from engine.errors import NotAllowed
from engine.service.context import ServiceContext

_KEPT_SECONDS = 5.0
"""Seconds after which a sign-out on another server counts here; each script of a page asks."""


class AccessService:
    """Check what the user may do, and log it. Methods raise EpsilonError with a sentence for the user."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._signed_out: tuple[float, float] | None = None  # when it was read, and its value

    def authorize(self, deed: str, subject: str = "", needed: Role = Role.RUNNER) -> None:
        """Log an action, and refuse it if the user's current role is too low.

        Args:
            deed: The action, as the audit log has it.
            subject: Name of the run or corpus.
            needed: Required role.

        Raises:
            NotAllowed: The role is too low.
            StoreError: The database failed.
        """
        if self._context.settings.access is None:
            return
        if self._context.user is None:
            self._context.access_store.log_action(shell_user(), deed, subject)
            return
        name = self._context.user.name
        # The current role, even if the page was opened earlier.
        role = roles.read(self._context.settings.access).role(name)
        self._context.access_store.log_action(name, deed, subject, refused=not role.may(needed))
        if not role.may(needed):
            raise NotAllowed(f"{name} is a {role} here, and this action requires the role {needed}: {deed}.")

    def note_sign_in(self) -> None:
        """Log that the user signed in."""
        self.authorize("sign in", needed=Role.VIEWER)

    def note_sign_out(self, signed_in: float) -> None:
        """Log that the user signed out; this ends all sessions of this sign-in and of earlier ones.

        Args:
            signed_in: Time of the sign-in, seconds since 1970 by the identity provider's clock.
        """
        self.authorize(SIGN_OUT, str(signed_in), needed=Role.VIEWER)
        self._signed_out = None

    def has_signed_out(self, signed_in: float) -> bool:
        """Return whether the user has ended the sessions of a sign-in; elsewhere, at least some seconds ago.

        Args:
            signed_in: As in :meth:`note_sign_out`.

        Raises:
            StoreError: The database failed.
        """
        if self._context.user is None:
            return False
        now, known = time.monotonic(), self._signed_out
        if known is None or now - known[0] > _KEPT_SECONDS:
            known = self._signed_out = now, self._context.access_store.signed_out(self._context.user.name)
        return signed_in <= known[1]

    def require_owner(self, kind: str, name: str) -> None:
        """Raise NotAllowed unless the user may change a run or corpus (``kind`` "run" or "corpus")."""
        if self._context.user:
            self._context.access_store.require_owner(kind, name)

    def share(self, kind: str, name: str, *, shared: bool) -> None:
        """Share a run or corpus with all users who may sign in, or stop sharing it. Raises NotAllowed."""
        self.authorize(f"share {kind}" if shared else f"keep {kind} private", name)
        self._context.access_store.share(kind, name, shared=shared)

    def shared(self, kind: str) -> frozenset[str]:
        """Return the names of the runs or corpora that are shared with all users."""
        return self._context.access_store.shared(kind)

    def subjects_since(self, since: float) -> set[str]:
        """Return the targets of all logged actions since a time in seconds since 1970. Raises NotAllowed."""
        self._refuse_all_but_admins()
        return self._context.access_store.subjects_since(since)

    def number_before(self, before: float) -> int:
        """Return the number of log entries before a time in seconds since 1970. Raises NotAllowed."""
        self._refuse_all_but_admins()
        return self._context.access_store.number_before(before)

    def delete_before(self, before: float, subject: str) -> int:
        """Delete the log entries before a time, and log this; return their number.

        Args:
            before: Seconds since 1970 UTC.
            subject: What is deleted in all, for the new entry.

        Raises:
            NotAllowed: The user is not an admin.
        """
        self.authorize("retention", subject, Role.ADMIN)
        return self._context.access_store.delete_before(before)

    def belongings(self, person: str) -> Belongings:
        """Return what the database holds on a user, and log that. Raises NotAllowed for other users, except admins."""
        if self._context.user and self._context.user.name != person:
            self._refuse_all_but_admins()
        self.authorize("export person", person, Role.VIEWER)
        return self._context.access_store.belongings(person)

    def audit_log(self, limit: int = 10_000, person: str | None = None, since: float = 0.0) -> Sequence[AuditLogEntry]:
        """Return the audit log, newest entry first.

        Args:
            limit: Largest number of entries.
            person: Only entries of this user; None for all.
            since: Only entries since this time, seconds since 1970 UTC.

        Raises:
            NotAllowed: The user is not an admin.
        """
        self._refuse_all_but_admins()
        return self._context.access_store.audit_log(limit, person, since)

    def corpora_by_user(self) -> dict[str, int]:
        """Return the number of corpora that each user uploaded. Raises NotAllowed for all but admins."""
        self._refuse_all_but_admins()
        return self._context.access_store.corpora_by_user()

    def activity(self, since: float) -> Sequence[tuple[str, str, bool, int]]:
        """Return the number of logged actions since a time, by user, action, and whether they were refused.

        Raises NotAllowed for all but admins.
        """
        self._refuse_all_but_admins()
        return self._context.access_store.activity(since)

    def _refuse_all_but_admins(self) -> None:
        if self._context.user and not self._context.sees_everything:
            raise NotAllowed(
                f"{self._context.user.name} is a {self._context.user.role} here, and the audit log is for admins only."
            )


def shell_user() -> str:
    """Return the name of the operator in the audit log: the system user who runs a command, without sign-in."""
    try:
        return f"shell: {getpass.getuser()}"[:64]
    except (KeyError, OSError):  # a user without a name, as in containers
        return "shell"
