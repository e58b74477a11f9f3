"""All services of one installation, each constructed with what it needs."""

from typing import Self

from engine.access.roles import User
from engine.service.access_service import AccessService
from engine.service.audit_service import AuditService
from engine.service.budget_service import BudgetService
from engine.service.context import ServiceContext
from engine.service.corpus_service import CorpusService
from engine.service.model_service import ModelService
from engine.service.preview_service import PreviewService
from engine.service.run_queries import RunQueries
from engine.service.run_service import RunService
from engine.service.tagging_client import TaggingClient
from engine.service.tagging_service import TaggingService
from engine.settings import Settings


class Application:
    """The entry point of pages and command line: services for one user, or for the operator.

    Light to import: the database, Dask, TensorFlow, spaCy and dp_accounting are imported at first use.

    Attributes:
        settings: Of this installation, restricted to the corpora that the user may see.
        user: The signed-in user; None for the operator.
        queries: Find and list runs.
        runs: Submit, cancel, delete and publish runs.
        previews: Plan a run without starting it.
        corpora: List and change corpora.
        budgets: Set budgets and charge runs to them.
        audits: Attack tests.
        models: Saved taggers.
        tagging: Tag texts.
        access: Authorisation, sharing, audit log.
    """

    def __init__(self, settings: Settings) -> None:
        self._compose(ServiceContext(settings), TaggingClient(settings))

    def _compose(self, context: ServiceContext, client: TaggingClient) -> None:
        self._context, self._client = context, client
        self.settings, self.user = context.settings, context.user
        self.access = AccessService(context)
        self.queries = RunQueries(context)
        self.models = ModelService(context, self.access, self.queries)
        self.previews = PreviewService(context, self.queries)
        self.budgets = BudgetService(context, self.access, self.queries, self.previews)
        self.runs = RunService(context, self.access, self.queries, self.previews, self.budgets, self.models)
        self.corpora = CorpusService(context, self.access, self.queries, self.runs)
        self.audits = AuditService(context, self.access, self.queries, self.previews, self.budgets, self.runs)
        self.tagging = TaggingService(self.queries, self.models, client)

    @classmethod
    def from_environment(cls) -> Self:
        """Return the application with the settings of this machine."""
        return cls(Settings.from_environment())

    def for_user(self, user: User) -> Self:
        """Return the application of a user, who does not see the runs and corpora of others.

        All users share the database's connections and the process that tags.
        """
        application = type(self).__new__(type(self))
        application._compose(self._context.for_user(user), self._client)
        return application

    def close(self) -> None:
        """Close the database, and end the process that tags."""
        self._client.close()
        self._context.close()
