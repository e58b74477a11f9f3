"""All that a report rests on, gathered before a word is written."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from engine.embeddings.contamination import NONE, Overlap
from engine.errors import InvalidConfig
from engine.experiments.statistics import ScoreSpread
from engine.privacy.assumptions import Row
from engine.privacy.plan import PrivacyPlan
from engine.privacy.tf_privacy_statement import Statement
from engine.records import (
    Audit,
    CanaryAudit,
    EntityScores,
    NoiseCheck,
    PrivacySpent,
    Provenance,
    RoundRecord,
    Run,
    Study,
)


class Verdict(StrEnum):
    """What a reader may take from a run."""

    FAILED = "noise check failed"
    PLAIN = "no noise"
    BROKEN = "noise that protects nobody"
    SIMULATED = "simulation"
    RELEASED = "private"


@dataclass(frozen=True, kw_only=True)
class TrainedOn:
    """A corpus, as far as it is known."""

    title: str
    licence: str = ""
    source: str = ""
    synthetic: bool = False


@dataclass(frozen=True, kw_only=True)
class Others:
    """How many other finished runs are known on the same corpora: with noise, and without."""

    private: int = 0
    plain: int = 0


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A run that is done, and what else is known of it.

    plan: what was done to the sentences of the one who pays most, with the steps taken; None where whole clients are
    protected or the corpus is not here to tell. persons: sentences of one person → ε, empty where none is known.
    missing: why the corpus could not be looked at, empty if it was. reference: test scores without noise. seeds: what
    this setting gives over its seeds. audit: what attacks on its configuration measured. ledger: its ε under other
    assumptions, empty where there is none. again: what computing it once more gave, empty if nobody did. written: ISO
    8601.
    """

    run: Run
    written: str
    trained_on: tuple[TrainedOn, ...]
    plan: tuple[PrivacyPlan, int] | None = None
    persons: Mapping[int, float] = field(default_factory=dict)
    longest_document: int | None = None
    overlap: Overlap = NONE
    missing: str = ""
    reference: EntityScores | None = None
    seeds: ScoreSpread | None = None
    studies: tuple[Study, ...] = ()
    others: Others = Others()
    statement: Statement | None = None
    audit: Audit | None = None
    ledger: tuple[Row, ...] = ()
    again: str = ""

    def __post_init__(self) -> None:
        """Raises InvalidConfig for a run that is not done."""
        _ = self.last, self.made

    @property
    def last(self) -> RoundRecord:
        """The last record."""
        if self.run.final is None:
            raise InvalidConfig(f"run {self.run.run_id} is {self.run.status.state}, expected one that is done")
        return self.run.final

    @property
    def made(self) -> Provenance:
        """How it came about."""
        if self.run.provenance is None:
            raise InvalidConfig(f"run {self.run.run_id} has no provenance, expected one that is done")
        return self.run.provenance

    @property
    def test(self) -> EntityScores:
        """Scores on the test part."""
        return self.last.test or self.last.scores

    @property
    def privacy(self) -> PrivacySpent:
        """What was spent."""
        return self.last.privacy

    @property
    def check(self) -> NoiseCheck | None:
        """The noise check."""
        return self.last.noise_check

    @property
    def verdict(self) -> Verdict:
        """What a reader may take from it."""
        if self.check and self.check.failed:
            return Verdict.FAILED
        if math.isinf(self.privacy.epsilon):
            return Verdict.BROKEN if self.run.config.privacy.private else Verdict.PLAIN
        seeded = self.run.config.privacy.noise_source == "seeded"
        return Verdict.SIMULATED if seeded else Verdict.RELEASED

    @property
    def promises(self) -> bool:
        """Whether an ε holds for anybody, were the noise secret."""
        return self.verdict in (Verdict.SIMULATED, Verdict.RELEASED)

    @property
    def shared_alone(self) -> bool:
        """Whether the promise is for what platforms share, and for none of their taggers: where whole platforms are
        protected, what is kept learns without noise."""
        config = self.run.config
        return self.promises and bool(config.platforms) and config.privacy.kind.client_level

    @property
    def passed(self) -> bool:
        """Whether the noise check showed that what was planned was done."""
        return self.check is not None and self.check.passed

    @property
    def attacks(self) -> tuple[CanaryAudit, ...]:
        """The runs with canaries that attacked its configuration."""
        return tuple(filter(None, (self.audit.white, self.audit.black))) if self.audit else ()

    @property
    def bound(self) -> float | None:
        """ε that is lost at least, at 95 %; None where no canary measured it. By who reads every step, where that was
        measured: the higher of two bounds that each hold at 95 % would hold at 90 %."""
        return self.attacks[0].best if self.attacks else None

    @property
    def contradicted(self) -> bool:
        """Whether more was measured to be lost than is claimed."""
        return any(each.contradicted for each in self.attacks)
