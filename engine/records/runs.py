"""A run as a whole: its state, its provenance, its records."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from engine.config import SimulationConfig
from engine.records.rounds import RoundRecord


class RunKind(StrEnum):
    """Purpose of a run."""

    RUN = "run"
    REPEAT = "repeat"
    """Rerun of another run, to check that it is reproducible."""
    AUDIT = "audit"
    """Run for a privacy audit."""


class RunState(StrEnum):
    """State of a run; the last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether the state can no longer change by itself."""
        return self in (RunState.DONE, RunState.FAILED, RunState.CANCELLED)


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """Status of a run.

    Times are in seconds since 1970 UTC, None before they are reached.

    Attributes:
        run_id: Identity of the run.
        state: Its state.
        progress: Share of the steps done, 0 to 1.
        stage: Current activity of the worker in words ("encoding the corpus", "training").
        queue_place: Position in the queue from 1, or None unless queued.
        error: A sentence if the run failed.
        created: Time of submission.
        started: Time when a worker started it.
        finished: Time of its end.
        heartbeat: Time of the worker's last sign of life.
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

    def ended_before(self, moment: float) -> bool:
        """Return whether the run ended, and was last submitted, before a time in seconds since 1970 UTC."""
        return self.state.final and max(self.finished or 0.0, self.created or 0.0) < moment


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Origin of a result.

    Attributes:
        created: ISO 8601, UTC.
        engine_version: Version of the engine.
        corpus_checksum: Checksum of the corpus.
        vectors: Package of word vectors, with its version.
        machine: Class of the machine, not its name.
        commit: Commit of this repository, or "unknown".
        command: Command that computes the run.
        wall_seconds: Wall time in seconds.
        train_sentences: Training sentences after ``data_fraction``.
        synthetic: Whether the corpus was generated.
        noise_source: See :class:`engine.config.PrivacyConfig`.
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
    """A run with all its data, from the store or from ``cached_results/``.

    Attributes:
        run_id: Identity of the run.
        config: Its configuration.
        status: Its status.
        records: Its records in order.
        provenance: Its origin, or None before it is finished.
        published: Whether it comes from ``cached_results/``.
        outdated: Whether the current engine would give other records.
        kind: Its purpose.
        parent: Run that it derives from, or None if there is none or it is unknown.
        owner: User who owns it, where several users share a store.
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
        """The last record of a finished run, with its test scores."""
        return self.records[-1] if self.records and self.records[-1].final else None


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A stored benchmark result.

    Attributes:
        values: Output of the benchmark.
        created: ISO 8601, UTC.
        machine: Class of the machine.
        command: Command that repeats the measurement.
        engine_version: Version of the measured code.
    """

    values: dict[str, Any]
    created: str
    machine: str
    command: str
    engine_version: str
