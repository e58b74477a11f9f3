"""Authorisation, sharing and the audit log."""

import getpass
from collections.abc import Sequence

from engine.access import roles
from engine.access.roles import AuditLogEntry, Role
from engine.errors import NotAllowed
from engine.service.context import ServiceContext


class AccessService:
    """Check what the user may do, and log it. Methods raise EpsilonError with a sentence for the user."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def authorize(self, deed: str, subject: str = "", needed: Role = Role.RUNNER) -> None:
        """Write down that somebody does this, where several people use the program, and refuse it to who may not.
        Raises NotAllowed, StoreError."""
        if self._context.settings.access is None:
            return
        if self._context.user is None:
            self._context.access_store.log_action(_at_the_shell(), deed, subject)
            return
        name = self._context.user.name
        role = roles.read(self._context.settings.access).role(name)  # as it is now, however long a page has been open
        self._context.access_store.log_action(name, deed, subject, refused=not role.may(needed))
        if not role.may(needed):
            raise NotAllowed(f"{name} is a {role} here, and this takes the role {needed}: {deed}.")

    def note_sign_in(self) -> None:
        """Write down that the person came."""
        self.authorize("sign in", needed=Role.VIEWER)

    def require_owner(self, kind: str, name: str) -> None:
        """Nothing where a run or a corpus ("run", "corpus") is theirs to change. Raises NotAllowed."""
        if self._context.user:
            self._context.access_store.require_owner(kind, name)

    def share(self, kind: str, name: str, *, shared: bool) -> None:
        """Let everybody who may sign in see a run or use a corpus, or nobody else any longer. Raises NotAllowed."""
        self.authorize(f"share {kind}" if shared else f"keep {kind} private", name)
        self._context.access_store.share(kind, name, shared=shared)

    def shared(self, kind: str) -> frozenset[str]:
        """Names of the runs, or corpora, that everybody who may sign in may use."""
        return self._context.access_store.shared(kind)

    def audit_log(self, limit: int = 10_000) -> Sequence[AuditLogEntry]:
        """Who did what, newest first. Raises NotAllowed for all but those who keep the dashboard."""
        if self._context.user and not self._context.sees_everything:
            raise NotAllowed(
                f"{self._context.user.name} is a {self._context.user.role} here, and the log is for admins."
            )
        return self._context.access_store.audit_log(limit)


def _at_the_shell() -> str:
    """Whoever may use this machine as the program's user may do everything, and is no person who signed in."""
    try:
        return f"shell: {getpass.getuser()}"[:64]
    except (KeyError, OSError):  # a user without a name, as in containers
        return "shell"
