"""The evidence of a privacy report, collected before the text is written."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from engine.privacy.second_accountant import Bounds


class Verdict(StrEnum):
    """The privacy status of a run."""

    FAILED = "noise check failed"
    PLAIN = "no noise"
    BROKEN = "noise without protection"
    SIMULATED = "simulation"
    RELEASED = "private"


@dataclass(frozen=True, kw_only=True)
class TrainedOn:
    """A training corpus, as far as its origin is available."""

    title: str
    licence: str = ""
    source: str = ""
    synthetic: bool = False


@dataclass(frozen=True, kw_only=True)
class Others:
    """The numbers of other finished runs on the same corpora, with noise and without."""

    private: int = 0
    plain: int = 0


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A finished run and all other evidence on it.

    Attributes:
        run: the finished run.
        written: time of the report, ISO 8601.
        trained_on: the training corpora.
        plan: privacy plan of the worst-case client with the steps taken; None under client-level privacy or where the
            corpus is not on this machine.
        in_use: number of training sentences in use; None where the corpus is not on this machine.
        persons: number of sentences of one person → ε by group privacy; empty where ε is not available.
        longest_document: sentences of the longest document.
        overlap: training sentences that the features were fitted on.
        missing: why the corpus could not be read; empty if it was read.
        reference: test scores without noise.
        seeds: scores of this setting over its seeds.
        studies: hyperparameter searches for this setting.
        others: numbers of other finished runs on the same corpora.
        sees_all: whether the user who writes the report sees the runs of all users, and all searches.
        second: bounds on ε by a second accountant; None where the training's plan is unknown.
        statement: the statement of TensorFlow Privacy on this training.
        audit: results of the attacks on this configuration.
        ledger: ε under other assumptions; empty where there are none.
        left_out: what their lower bounds leave out; empty where nothing is.
        again: result of a rerun; empty if there was none.
    """

    run: Run
    written: str
    trained_on: tuple[TrainedOn, ...]
    plan: tuple[PrivacyPlan, int] | None = None
    in_use: int | None = None
    persons: Mapping[int, float] = field(default_factory=dict)
    longest_document: int | None = None
    overlap: Overlap = NONE
    missing: str = ""
    reference: EntityScores | None = None
    seeds: ScoreSpread | None = None
    studies: tuple[Study, ...] = ()
    others: Others = Others()
    sees_all: bool = True
    second: "Bounds | None" = None
    statement: Statement | None = None
    audit: Audit | None = None
    ledger: tuple[Row, ...] = ()
    left_out: str = ""
    again: str = ""

    def __post_init__(self) -> None:
        """Raise InvalidConfig for a run that is not done."""
        _ = self.last, self.made

    @property
    def last(self) -> RoundRecord:
        """The last record."""
        if self.run.final is None:
            raise InvalidConfig(f"run {self.run.run_id} is {self.run.status.state}, expected one that is done")
        return self.run.final

    @property
    def made(self) -> Provenance:
        """The provenance of the run."""
        if self.run.provenance is None:
            raise InvalidConfig(f"run {self.run.run_id} has no provenance, expected one that is done")
        return self.run.provenance

    @property
    def number_of_sentences(self) -> str:
        """The number of training sentences, with what it counts."""
        if self.in_use is not None:
            return f"{self.in_use:,} training sentences in use"
        shared = ", with those that several silos have" if self.run.config.platforms else ""
        return f"{self.made.train_sentences:,} training sentences{shared}"

    @property
    def test(self) -> EntityScores:
        """The scores on the test set."""
        return self.last.test or self.last.scores

    @property
    def privacy(self) -> PrivacySpent:
        """The privacy spent."""
        return self.last.privacy

    @property
    def check(self) -> NoiseCheck | None:
        """The noise check; under secret noise without values that are computed from samples and noise."""
        check = self.last.noise_check
        secret = self.run.config.privacy.noise_source == "system"
        return check.without_private_values() if check and secret and not check.withheld else check

    @property
    def checks(self) -> tuple[tuple[str, NoiseCheck], ...]:
        """The name and the noise check of each client (silo) that has its own; empty if one check is for all."""
        if self.run.config.privacy.kind.client_level:
            return ()
        return tuple((client.name, client.noise_check) for client in self.last.platforms if client.noise_check)

    @property
    def checked_silo(self) -> str:
        """The name of the client (silo) whose noise check is that of the record; empty if one check is for all."""
        return next((name for name, check in self.checks if check == self.last.noise_check), "")

    @property
    def measured(self) -> str:
        """What the noise check counts as a step: steps, rounds, or messages of clients that add the noise."""
        kind = self.run.config.privacy.kind
        return "messages" if kind.client_side_noise else "rounds" if kind.client_level else "steps"

    @property
    def verdict(self) -> Verdict:
        """The privacy status of the run."""
        if self.check and self.check.failed:
            return Verdict.FAILED
        if math.isinf(self.privacy.epsilon):
            return Verdict.BROKEN if self.run.config.privacy.private else Verdict.PLAIN
        seeded = self.run.config.privacy.noise_source == "seeded"
        return Verdict.SIMULATED if seeded else Verdict.RELEASED

    @property
    def promises(self) -> bool:
        """Whether the run gives a privacy guarantee, provided that its noise is secret."""
        return self.verdict in (Verdict.SIMULATED, Verdict.RELEASED)

    @property
    def shared_alone(self) -> bool:
        """Whether the guarantee covers only the shared layers.

        Under client-level privacy the private layers of each silo are trained without noise.
        """
        config = self.run.config
        return self.promises and bool(config.platforms) and config.privacy.kind.client_level

    @property
    def passed(self) -> bool:
        """Whether the noise check passed."""
        return self.check is not None and self.check.passed

    @property
    def shown(self) -> str:
        """A sentence on the values that the dashboard shows and that no ε covers."""
        if self.last.loss is None:
            return (
                "The dashboard shows validation scores without noise. It has no losses and gradient norms of this run."
            )
        return "The dashboard shows training losses, gradient norms and validation scores without noise."

    @property
    def how_to_audit(self) -> str:
        """A sentence on the measurement of attacks on this run, which none has measured yet."""
        if self.auditable:
            return "“Measured attacks” gives the command to measure one."
        return "The audit with canaries is not available for this run."

    @property
    def auditable(self) -> bool:
        """Whether an audit with canaries is available."""
        config = self.run.config
        return config.federation.clients == 1 and config.privacy.clipping == "joint"

    @property
    def attacks(self) -> tuple[CanaryAudit, ...]:
        """The canary audits of this configuration."""
        return tuple(filter(None, (self.audit.white, self.audit.black))) if self.audit else ()

    @property
    def recipient(self) -> CanaryAudit | None:
        """The audit by an attacker who has what is released, the trained model; None where it was not measured."""
        return self.audit.black if self.audit else None

    @property
    def bound(self) -> float | None:
        """The lower bound on ε at 95 % confidence; None where no canary audit measured it.

        The white-box attacker's bound is used where there is one. The maximum of two 95 % bounds would hold at 90 %
        only.
        """
        return self.attacks[0].best if self.attacks else None

    @property
    def contradicted(self) -> bool:
        """Whether a measured lower bound exceeds the claimed ε."""
        return any(audit.contradicted for audit in self.attacks)
