"""Attack tests of finished runs, computed in the background as runs are."""

from contextlib import suppress

from engine.config import SimulationConfig
from engine.errors import InvalidConfig, RunNotFound
from engine.privacy.audit import applicability
from engine.records import Audit, Run, RunKind, RunState, RunStatus
from engine.service.access_service import AccessService
from engine.service.budget_service import AUDIT, BudgetService
from engine.service.context import ServiceContext
from engine.service.preview_service import PreviewService
from engine.service.run_queries import RunQueries
from engine.service.run_service import RunService
from engine.store import audits

_MARK = "m"  # no hexadecimal digit, so that no run has this identity


def audit_id(run_id: str) -> str:
    """Return the identity of the audit of a run."""
    return _MARK + run_id[1:]


class AuditService:
    """Queue audits and read their results. Methods raise EpsilonError with a sentence for the user."""

    def __init__(
        self,
        context: ServiceContext,
        access: AccessService,
        queries: RunQueries,
        previews: PreviewService,
        budgets: BudgetService,
        runs: RunService,
    ) -> None:
        self._context, self._access, self._queries = context, access, queries
        self._previews, self._budgets, self._runs = previews, budgets, runs

    def all(self) -> dict[str, Audit]:
        """Return audits by the identity of the audited run; the user's own replace published ones."""
        self._context.settings.artefacts.sync_folder(audits.FOLDER)
        own = audits.read_all(self._context.settings.artefacts.folder)
        return audits.read_all(self._context.settings.published) | self._queries.only_visible(own)

    def save(self, audit: Audit) -> None:
        """Save an audit in place of an earlier one. Raises NotAllowed for the run of another user, and StoreError."""
        self._access.authorize("audit", audit.run_id)
        self._access.require_owner("run", audit.run_id)
        audits.write(audit, self._context.settings.artefacts)

    def charge(self, config: SimulationConfig, *, unprotected: bool) -> None:
        """Charge an audit in the foreground as an unprotected access, before it starts.

        Args:
            config: The configuration.
            unprotected: Whether the user accepts that.

        Raises:
            BudgetExceeded: The corpus has a budget, and the user does not accept that.
            NotAllowed: The user lacks a role.
        """
        identity = self._queries.identity(config)
        self._access.authorize("audit", identity)
        self._budgets.charge(self._budgets.unprotected_accesses(identity, config, AUDIT, unprotected=unprotected))

    def submit(self, run: Run, *, owner_pid: int | None = None, unprotected: bool = False) -> RunStatus:
        """Queue the usual attacks on the configuration of a finished run.

        The new audit replaces an earlier one. See :mod:`engine.privacy.audit.applicability`.

        Args:
            run: A finished run.
            owner_pid: Process with which the workers end.
            unprotected: Whether the user accepts an unprotected access to a corpus with a budget.

        Raises:
            RunNotFound: The run belongs to another user.
            InvalidConfig: The run is not done, or no attack applies to its configuration.
            BudgetExceeded: The corpus has a budget, and the user does not accept that.
        """
        self._queries.require_visible(run.run_id)
        if run.status.state != RunState.DONE or run.kind != RunKind.RUN:
            raise InvalidConfig(f"run={run.run_id} is {run.status.state}: only a finished run can be audited")
        applicability.usual(run.config)
        identity = audit_id(run.run_id)
        with suppress(RunNotFound):
            if self._queries.status(identity).state == RunState.DONE:
                self._budgets.check(
                    self._budgets.unprotected_accesses(identity, run.config, AUDIT, unprotected=unprotected)
                )
                self._runs.delete(identity)
        return self._runs.submit_audit(identity, run, owner_pid, unprotected=unprotected)

    def status(self, run_id: str) -> RunStatus | None:
        """Return the state of the audit of a run; None if none was queued or it was deleted."""
        with suppress(RunNotFound):
            return self._queries.status(audit_id(run_id))
        return None

    def seconds(self, config: SimulationConfig) -> float | None:
        """Estimate the duration of an audit in seconds; None if no similar run is known. Raises InvalidConfig."""
        estimate = self._previews.preview(config).estimate
        return estimate.seconds * applicability.trainings(*applicability.usual(config)) if estimate else None
