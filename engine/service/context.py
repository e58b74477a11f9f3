"""The settings, user and databases that all services of one application share."""

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from engine.access.roles import Role, User
from engine.settings import Settings

if TYPE_CHECKING:
    from engine.store.access_store import AccessStore
    from engine.store.run_store import RunStore


class ServiceContext:
    """Settings and databases for one user, or for the operator (``user`` is None). Databases open at first use."""

    def __init__(self, settings: Settings, user: User | None = None) -> None:
        self.user = user
        own = None if self.sees_everything else lambda: self.access_store.own_corpora()
        self.settings = replace(settings, own=own)

    def for_user(self, user: User) -> "ServiceContext":
        """Return the context of a user, who does not see the runs and corpora of others."""
        context = ServiceContext(self.settings, user)
        context.__dict__["all_users_store"] = self.all_users_store
        return context

    @property
    def sees_everything(self) -> bool:
        """Whether the runs of all users are visible: to the operator and to admins."""
        return self.user is None or self.user.role.may(Role.ADMIN)

    @cached_property
    def all_users_store(self) -> "RunStore":
        """The store of runs, unrestricted."""
        from engine.store.run_store import RunStore

        return RunStore(self.settings.store_url)

    @cached_property
    def store(self) -> "RunStore":
        """The store of runs, restricted to what the user may see."""
        return self.all_users_store.for_user(self.user) if self.user else self.all_users_store

    @cached_property
    def access_store(self) -> "AccessStore":
        """Grants and the audit log."""
        from engine.store.access_store import AccessStore

        return AccessStore(self.store)

    def close(self) -> None:
        """Close the database, if it was opened."""
        if "all_users_store" in self.__dict__:
            self.all_users_store.close()
