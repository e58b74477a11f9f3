"""Claims of workers to runs: only the holder of a claim may change its run."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, update

from engine.config import SimulationConfig
from engine.errors import RunStopped
from engine.records import RunKind, RunState
from engine.store.schema import runs


@dataclass(frozen=True)
class Claim:
    """The right of a worker to compute a run.

    Attributes:
        run_id: Identity of the run.
        token: Fencing token, which is valid until another worker claims the run or it is stopped.
        holder: Cluster of the worker.
        config: Configuration of the run.
        corpus_checksum: Checksum of its corpus.
        kind: Kind of the run.
        parent: The run that this one repeats or attacks, if any.
    """

    run_id: str
    token: str
    holder: str
    config: SimulationConfig
    corpus_checksum: str
    kind: RunKind = RunKind.RUN
    parent: str | None = None


@dataclass(frozen=True)
class Unfinished:
    """A queued or running run.

    Attributes:
        run_id: Identity of the run.
        state: Queued or running.
        holder: Cluster that claimed it last.
        heartbeat: Time of the last heartbeat in seconds since 1970 UTC.
    """

    run_id: str
    state: RunState
    holder: str | None
    heartbeat: float | None


def change(connection: Connection, claim: Claim, **values: Any) -> None:
    """Change a run under its claim, or raise RunStopped and change nothing."""
    mine = (runs.c.run_id == claim.run_id, runs.c.token == claim.token, runs.c.state == RunState.RUNNING)
    if connection.execute(update(runs).where(*mine).values(**values)).rowcount != 1:
        raise RunStopped(f"The run {claim.run_id} was stopped or taken over by another worker.")
