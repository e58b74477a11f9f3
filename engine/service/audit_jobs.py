"""Audits in the background: they wait, are watched and are cancelled as runs are, of whose kind they are not."""

from contextlib import suppress
from typing import TYPE_CHECKING

from engine.errors import InvalidConfig, RunNotFound
from engine.privacy.audit import applicability
from engine.records import Run, RunKind, RunState, RunStatus

if TYPE_CHECKING:
    from engine.config import SimulationConfig
    from engine.service.run_service import Application

_MARK = "m"  # no hexadecimal digit: no run has such an identity


def audit_id(run_id: str) -> str:
    """The identity of what attacks this run."""
    return _MARK + run_id[1:]


def submit(runs: "Application", run: Run, *, owner_pid: int | None = None) -> RunStatus:
    """Have the configuration of a finished run attacked as is usual (:mod:`engine.privacy.audit.applicability`); the
    audit
    that comes of it takes the place of an earlier one. Raises InvalidConfig where no attack is for it, and what
    :meth:`engine.service.Application.submit` raises."""
    if run.status.state != RunState.DONE or run.kind != RunKind.RUN:
        raise InvalidConfig(f"run={run.run_id} is {run.status.state}: only a run that is done is attacked")
    applicability.usual(run.config)
    identity = audit_id(run.run_id)
    with suppress(RunNotFound):
        if runs.status(identity).state == RunState.DONE:
            runs.delete(identity)
    return runs.submit_audit(identity, run, owner_pid)


def status(runs: "Application", run_id: str) -> RunStatus | None:
    """How the attack on a run is doing; None where none was asked for, or it was forgotten."""
    with suppress(RunNotFound):
        return runs.status(audit_id(run_id))
    return None


def seconds(runs: "Application", config: "SimulationConfig") -> float | None:
    """How long an audit may take; None where no such run's time is known. Raises InvalidConfig, CorpusError,
    StoreError."""
    found = runs.preview(config).estimate
    return found.seconds * applicability.trainings(*applicability.usual(config)) if found else None
