"""A run as a whole: where it stands, how it came about, what it recorded."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from engine.config import SimulationConfig
from engine.records.rounds import RoundRecord


class RunKind(StrEnum):
    """Why a run was computed."""

    RUN = "run"
    REPEAT = "repeat"
    """Once more what another run did, to see whether it comes out the same."""
    AUDIT = "audit"
    """To measure what a run gives away."""


class RunState(StrEnum):
    """Where a run stands; the last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether nothing more will happen by itself."""
        return self in (RunState.DONE, RunState.FAILED, RunState.CANCELLED)


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """How a run is doing. Times are seconds since 1970 UTC, None if it has not come to that.

    progress: 0 to 1. queue_place: 1 for the next in line, None unless queued. error: a sentence if state is failed.
    stage: what the worker is doing now, in words ("encoding the corpus", "training").
    """

    run_id: str
    state: RunState
    progress: float = 0.0
    stage: str = ""
    queue_place: int | None = None
    error: str | None = None
    created: float | None = None
    started: float | None = None
    finished: float | None = None
    heartbeat: float | None = None


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How a result came about.

    created: ISO 8601, UTC. engine_version, corpus_checksum, vectors (package and version), machine (class, not name),
    commit (of this repository, or "unknown"), command (that makes it again), wall_seconds, train_sentences (after
    data_fraction), synthetic (whether the corpus was generated), noise_source (see
    :class:`engine.config.PrivacyConfig`).
    """

    created: str
    engine_version: str
    corpus_checksum: str
    vectors: str
    machine: str
    commit: str
    command: str
    wall_seconds: float
    train_sentences: int
    synthetic: bool
    noise_source: str = "seeded"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run with all that is known of it, from the store or from ``cached_results/`` (``published``).

    outdated: whether today's engine would give it other records. kind: why it was computed. parent: identity of the run
    that it came from, None where there is none or it is not known. owner: whose it is, where several people share a
    store.
    """

    run_id: str
    config: SimulationConfig
    status: RunStatus
    records: Sequence[RoundRecord] = field(default=())
    provenance: Provenance | None = None
    published: bool = False
    outdated: bool = False
    kind: RunKind = RunKind.RUN
    parent: str | None = None
    owner: str | None = None

    @property
    def final(self) -> RoundRecord | None:
        """The last record of a run that is done, with its test scores."""
        return self.records[-1] if self.records and self.records[-1].final else None


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A benchmark's result that was kept.

    values: what the benchmark printed. created: ISO 8601, UTC. machine: its class. command: that measures again.
    engine_version: of the code that was measured.
    """

    values: dict[str, Any]
    created: str
    machine: str
    command: str
    engine_version: str
