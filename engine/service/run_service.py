"""Submitting, cancelling, deleting and publishing runs.

Light to import: the database, Dask, TensorFlow, spaCy and dp_accounting are imported at first use, the middle three
never in this process.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from engine.access.roles import Role
from engine.config import SimulationConfig
from engine.errors import InvalidConfig, RunNotFound
from engine.records import Run, RunKind, RunState, RunStatus
from engine.service import reproducibility
from engine.service.access_service import AccessService
from engine.service.budget_service import AUDIT, BudgetService
from engine.service.context import ServiceContext
from engine.service.model_service import ModelService
from engine.service.preview_service import PreviewService
from engine.service.run_queries import RunQueries
from engine.store import audits, noise_keys, paths, published, published_models

if TYPE_CHECKING:
    from pathlib import Path

LONGEST_NOTE = 2000
"""Largest number of characters of a note."""
_DEEDS = {RunKind.RUN: "run", RunKind.REPEAT: "run again", RunKind.AUDIT: "audit"}


class RunService:
    """Submit, cancel, delete and publish runs. Methods raise EpsilonError with a sentence for the user."""

    def __init__(
        self,
        context: ServiceContext,
        access: AccessService,
        queries: RunQueries,
        previews: PreviewService,
        budgets: BudgetService,
        models: ModelService,
    ) -> None:
        self._context, self._access, self._queries = context, access, queries
        self._previews, self._budgets, self._models = previews, budgets, models

    def submit(
        self,
        config: SimulationConfig,
        *,
        owner_pid: int | None = None,
        batch: bool = False,
        unprotected: bool = False,
    ) -> RunStatus:
        """Queue a run; return the existing one if it is finished, queued or running.

        Args:
            config: The configuration.
            owner_pid: Process with which the workers end.
            batch: Whether the run waits for all runs that a user waits for.
            unprotected: Whether the user accepts a run without privacy on a corpus with a budget.

        Raises:
            InvalidConfig: The configuration is not valid, or its run's noise keys were destroyed. Nothing is stored.
            CorpusError: The corpus is not available. Nothing is stored.
            VectorsMissing: The word vectors are not available. Nothing is stored.
            BudgetExceeded: A budget does not admit the run. Nothing is stored.
            NotAllowed: The user lacks a role. Nothing is stored.
            ClusterError: The run is queued, but no worker could be started.
        """
        known = self._queries.find(config)
        if known and known.status.state == RunState.DONE and not known.outdated:
            return known.status
        if known and not known.outdated:
            reproducibility.refuse_again(known)
        identity = self._queries.identity(config)
        return self._submit(identity, config, owner_pid, batch=batch, unprotected=unprotected)

    def resubmit(
        self,
        config: SimulationConfig,
        *,
        owner_pid: int | None = None,
        batch: bool = False,
        unprotected: bool = False,
    ) -> RunStatus:
        """Queue a rerun of a finished run, which stays as it is; submit a run that is not finished.

        A finished rerun is replaced. Raises what :meth:`submit` raises, and InvalidConfig if the noise keys were
        destroyed.
        """
        known = self._queries.find(config)
        if known is None or known.status.state != RunState.DONE or known.outdated:
            return self.submit(config, owner_pid=owner_pid, batch=batch, unprotected=unprotected)
        reproducibility.refuse_again(known)
        again = reproducibility.repeat_id(known.run_id)
        with suppress(RunNotFound):
            if self._context.store.status(again).state == RunState.DONE:
                plan = self._previews.plan(config)
                self._budgets.check(
                    self._budgets.charge_requests(known.run_id, again, config, plan, unprotected=unprotected)
                )
                self.delete(again)
        return self._submit(again, config, owner_pid, RunKind.REPEAT, known.run_id, batch, unprotected=unprotected)

    def submit_all(
        self,
        configs: Iterable[SimulationConfig],
        *,
        again: bool = False,
        owner_pid: int | None = None,
        batch: bool = False,
        unprotected: bool = False,
    ) -> list[RunStatus]:
        """Queue many runs in this order.

        Args:
            configs: The configurations; all are checked before any is stored.
            again: Whether to rerun finished runs.
            owner_pid: Process with which the workers end.
            batch: Whether they wait for all runs that a user waits for.
            unprotected: As in :meth:`submit`.

        Raises what :meth:`submit` raises; runs that were stored before stay stored.
        """
        wanted, submit = list(configs), self.resubmit if again else self.submit
        for config in wanted:
            self._previews.plan(config)
            known = self._queries.find(config)
            if known and not known.outdated and (again or known.status.state != RunState.DONE):
                reproducibility.refuse_again(known)
        return [submit(config, owner_pid=owner_pid, batch=batch, unprotected=unprotected) for config in wanted]

    def _submit(
        self,
        identity: str,
        config: SimulationConfig,
        owner_pid: int | None,
        kind: RunKind = RunKind.RUN,
        parent: str | None = None,
        batch: bool = False,
        *,
        unprotected: bool,
    ) -> RunStatus:
        from engine import embeddings
        from engine.cluster import supervisor

        self._access.authorize(_DEEDS[kind], identity)
        plan = self._previews.plan(config)
        embeddings.find(config.embeddings)
        if own := embeddings.own_in_context(config.language_model, self._context.settings):
            _ = own.model  # fails here rather than in a worker
        handle = self._queries.corpus(config)
        handle.share()
        if kind == RunKind.AUDIT:
            wishes = self._budgets.unprotected_accesses(identity, config, AUDIT, unprotected=unprotected)
        else:
            wishes = self._budgets.charge_requests(parent or identity, identity, config, plan, unprotected=unprotected)
        store = self._context.store
        store.submit(identity, config, handle.checksum, kind=kind, parent=parent, wishes=wishes, batch=batch)
        supervisor.ensure_cluster(self._context.settings, owner_pid)
        return self._queries.status(identity)

    def submit_audit(self, identity: str, run: Run, owner_pid: int | None, *, unprotected: bool = False) -> RunStatus:
        """Queue an audit; see :meth:`engine.service.audit_service.AuditService.submit`."""
        return self._submit(identity, run.config, owner_pid, RunKind.AUDIT, run.run_id, unprotected=unprotected)

    def cancel(self, identity: str) -> RunStatus:
        """Stop a queued or running run; its records stay, and it can be resumed unless its noise is the system's.

        Raises:
            RunNotFound: There is no such run.
            NotAllowed: Another user has the run too.
        """
        self._access.authorize("cancel", identity)
        self._context.store.cancel(identity)
        noise_keys.sweep(self._context.settings, self._context.store.status)
        self._queries.forget(identity)
        return self._queries.status(identity)

    def delete(self, identity: str, *, ended_before: float | None = None) -> None:
        """Delete a run with its records, note, checkpoint, models and audit.

        Args:
            identity: The run.
            ended_before: Delete it only if it ended before this time, seconds since 1970; None for any state.

        Raises:
            RunNotFound: There is no such run.
            NotAllowed: The run belongs to another user.
            InvalidConfig: The run is published, or has not ended before that time.
        """
        if identity in self._queries.published_runs.by_id:
            raise InvalidConfig(f"run {identity} is published: its file is in {self._context.settings.published.name}/")
        self._access.authorize("delete", identity)
        self._queries.forget(identity)

        def destroy_keys() -> None:
            """Check the state in the transaction of the deletion, which excludes that the run is queued again."""
            if ended_before is not None and not self._context.store.status(identity).ended_before(ended_before):
                raise InvalidConfig(f"run {identity} was used again meanwhile, so it was not deleted")
            noise_keys.destroy_keys(self._context.settings, identity)

        if not self._context.store.delete(identity, destroy_keys):
            return
        noise_keys.destroy(self._context.settings, identity)
        self._context.settings.artefacts.remove(audits.name_of(identity))
        self._models.remove([identity])

    def write_note(self, identity: str, text: str) -> None:
        """Save a note on a run; an empty one removes it. Raises RunNotFound, NotAllowed, InvalidConfig."""
        self._access.authorize("note", identity)
        if len(text) > LONGEST_NOTE:
            raise InvalidConfig(f"the note has {len(text):,} characters, expected at most {LONGEST_NOTE:,}")
        self._context.store.write_note(identity, text.strip())

    def publish(self, identity: str, *, model: bool = False) -> "Path":
        """Write a finished run to the folder of published results, and with ``model`` its tagger in float16.

        Raises RunNotFound, InvalidConfig, NotAllowed, StoreError.
        """
        self._access.authorize("publish", identity, Role.ADMIN)
        run = self._queries.get(identity)
        if run.kind != RunKind.RUN:
            raise InvalidConfig(f"run {identity} repeats another: the first one is what can be published")
        path = published.write(run, self._context.settings.published)
        for platform in range(len(run.config.platforms) or 1) if model else ():
            name = paths.model_name(identity, platform)
            published_models.write(self._models.load(identity, platform), name, self._context.settings.published)
        return path

    def resume(self, *, owner_pid: int | None = None) -> None:
        """Start workers if runs are queued or were left by a crash. Raises ClusterError."""
        from engine.cluster import supervisor

        if self._context.store.unfinished():
            supervisor.ensure_cluster(self._context.settings, owner_pid)
