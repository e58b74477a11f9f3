"""Collects the progress since the last record, step by step, into a RoundRecord."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.config import JOIN, has_own_corpus
from engine.embeddings import contamination
from engine.federated.accounting import privacy_spent
from engine.federated.fedavg import Progress
from engine.federated.plan import FederatedPlan
from engine.federated.secagg.aggregation_round import max_dropouts
from engine.federated.server import Exchange
from engine.privacy.noise_check.monitor import NoiseMonitor
from engine.records import EntityScores, FederatedRound, NoiseCheck, PlatformRecord, PrivacySpent, RoundRecord
from engine.records.assumption_texts import FAILED_CHECK
from engine.simulation.setup import ClientModel
from engine.training.checkpoint import TrainingProgress
from engine.training.dpsgd import StepStatistics

REPORTS = 20
"""Number of evenly spaced records of a run; there are a few more at the start, where ε grows fastest."""
_EARLY = (0.002, 0.005, 0.01, 0.02, 0.035)
"""Shares of the steps after which the first records are due, so that the curve begins within seconds."""


def report_steps(steps: int) -> list[int]:
    """Return the steps after which a record is due, ascending, including the last one; every step if there are few."""
    shares = [*_EARLY, *((i + 1) / REPORTS for i in range(REPORTS))]
    return sorted({max(1, round(share * steps)) for share in shares})


def due_moments(plan: FederatedPlan) -> list[int]:
    """Return when records are due, ascending, including the end of the run.

    The unit is a step in central training and a communication round in federated training. Rounds may have no
    participant.
    """
    if not plan.is_central:
        return report_steps(len(plan.rounds))
    ends = (int(plan.ends[number - 1]) for number in report_steps(len(plan.rounds)))
    return sorted({*ends, *report_steps(plan.steps)})


def _advance(tally: TrainingProgress, progress: Progress) -> TrainingProgress:
    """Return the progress of the run after one more step or round."""
    step, exchange = progress.step, progress.exchange
    return TrainingProgress(
        step=progress.taken,
        rounds=tally.rounds + (progress.round is not None),
        examples_seen=tally.examples_seen + (len(step.norms) + step.nonfinite if step else 0),
        nonfinite=tally.nonfinite + (step.nonfinite if step else 0),
        bytes_down=tally.bytes_down + (exchange.bytes_down if exchange else 0),
        bytes_up=tally.bytes_up + (exchange.bytes_up if exchange else 0),
    )


def worst(checks: Sequence[NoiseCheck | None]) -> NoiseCheck | None:
    """Return the first failed noise check, else one whose noise could not be measured, else the first."""
    available = [check for check in checks if check]
    return max(available, key=lambda check: (check.failed, not check.passed), default=None)


class Recorder:
    """Observer of one run.

    Attributes:
        done: the progress of the run, initially that of the checkpoint.
    """

    def __init__(
        self,
        plan: FederatedPlan,
        sides: Sequence[ClientModel],
        monitors: Sequence[NoiseMonitor],
        done: TrainingProgress,
    ) -> None:
        self.done = done
        self._plan, self._sides, self._monitors = plan, sides, monitors
        self._tagger = sides[0].tagger
        # Clients that share layers or scores learn from one another, so the types of one are in the models of all.
        self._own_types = has_own_corpus(JOIN.join(side.name for side in sides))
        self._types_are_declared = all(side.declared for side in sides)
        self._due = due_moments(plan)
        self._since: list[StepStatistics] = []
        self._exchanges: list[Exchange] = []
        self._round_ended = False
        self._last: Progress | None = None
        """Progress at the end of the last round."""

    def observe(self, progress: Progress) -> None:
        """Record the progress of a step or round."""
        self.done = _advance(self.done, progress)
        self._since += [progress.step] if progress.step else []
        self._exchanges += [progress.exchange] if progress.exchange else []
        self._round_ended = progress.round is not None
        if self._round_ended:
            self._last = progress

    @property
    def _moment(self) -> int:
        return self.done.step if self._plan.is_central else self.done.rounds

    @property
    def due(self) -> bool:
        """Whether a record is due."""
        return self._moment in self._due and (self._plan.is_central or self._round_ended)

    @property
    def test_is_due(self) -> bool:
        """Whether the record has scores on the test set.

        It has at the end, and after each phase of an incremental run, which corresponds to a run on that share of data.
        """
        return self.done.rounds == len(self._plan.rounds) or (self._plan.phases and self._round_ended)

    @property
    def stage(self) -> str:
        """A description of the stage."""
        rounds = len(self._plan.rounds)
        return (
            "training"
            if self._plan.is_central
            else f"training, round {min(self.done.rounds + 1, rounds):,} of {rounds:,}"
        )

    @property
    def epsilon(self) -> float:
        """The worst-case ε over clients of releasing a model in its present state.

        The model of a client depends on all clients by the shared layers. Under client-level privacy its private head
        is trained without noise, so ε is ∞.
        """
        if self._plan.server and self._plan.platforms:
            return math.inf
        return max(privacy.epsilon for privacy in self._privacy_spent(self._checks()))

    def _checks(self) -> list[NoiseCheck | None]:
        """Return the noise check of each model; several models may share one."""
        checks: list[NoiseCheck | None] = [monitor.verdict() for monitor in self._monitors]
        return checks if len(checks) == len(self._sides) else (checks or [None]) * len(self._sides)

    def _privacy_spent(self, checks: list[NoiseCheck | None]) -> list[PrivacySpent]:
        """Return the privacy spent by each client.

        ε is ∞ where the noise check failed or the features were fitted on training sentences.
        """
        several = len(self._sides) > 1
        spent = []
        for number, (side, check) in enumerate(zip(self._sides, checks, strict=True)):
            client = number if several else None
            privacy = contamination.apply_contamination(
                privacy_spent(self._plan, self.done.step, self.done.rounds, client), side.shared
            )
            failed = check is not None and check.failed
            if self._own_types:
                privacy = privacy.with_own_types(declared=self._types_are_declared)
            not_private = PrivacySpent(epsilon=math.inf, delta=privacy.delta, assumptions=(FAILED_CHECK,))
            spent.append(not_private if failed else privacy)
        return spent

    def record(self, scores: list[EntityScores], test: list[EntityScores] | None, seconds: float) -> RoundRecord:
        """Return the record of the present state, with statistics over the steps since the last record.

        Args:
            scores: validation scores of each client (silo), or of the single model.
            test: test scores likewise, None if not due.
            seconds: wall time since the start of the run.
        """
        federation, checks = self._federated(), self._checks()
        spent = self._privacy_spent(checks)
        platforms = tuple(
            PlatformRecord(
                name=side.name,
                privacy=spent[number],
                scores=scores[number],
                test=test[number] if test else None,
                noise_check=checks[number],
            )
            for number, side in enumerate(self._sides)
        )
        record = RoundRecord(
            round=self._due.index(self._moment),
            step=self.done.step,
            steps_total=self._plan.steps,
            examples_seen=self.done.examples_seen,
            privacy=max(spent, key=lambda privacy: privacy.epsilon),
            scores=self._pooled(scores),
            nonfinite=self.done.nonfinite,
            test=self._pooled(test) if test else None,
            seconds=seconds,
            noise_check=worst(checks),
            platforms=platforms if len(platforms) > 1 else (),
            federation=federation,
            **self._summary(),
            noise_to_signal=self._noise_to_signal(),
        )
        self._since.clear()
        self._exchanges.clear()
        if (self._plan.server or self._plan.parts[0]).noise_source != "system":
            return record
        return record.without_private_values(clients=self._plan.server is not None)

    def _pooled(self, scores: list[EntityScores]) -> EntityScores:
        """Return the scores of all clients (silos) together."""
        if len(scores) == 1:
            return scores[0]
        return EntityScores.together(dict(zip((side.name for side in self._sides), scores, strict=True)))

    def _federated(self) -> FederatedRound | None:
        """Return the statistics of the last communication round; None in central training."""
        if self._plan.is_central:
            return None
        exchange = self._last.exchange if self._last else None
        return FederatedRound(
            round=self.done.rounds,
            rounds=len(self._plan.rounds),
            clients=exchange.clients if exchange else (),
            failed=self._last.failed if self._last else (),
            drift=exchange.drift if exchange else 0.0,
            update_norms=exchange.norms if exchange else (),
            bytes_down=self.done.bytes_down,
            bytes_up=self.done.bytes_up,
        )

    def _noise_to_signal(self) -> float | None:
        """Return the expected L2 norm of the noise ÷ the RMS norm of the sums it is added to; None without either."""
        plan, rounds = self._plan, self._exchanges
        if plan.server:
            size = self._tagger.shared.stop
            # With client-side noise, the sum contains the noise, or the noise share, of each client.
            factors = [self._noise_variance_factor(len(exchange.clients)) for exchange in rounds]
            factor = np.mean(factors) if rounds else 1.0
            noise, signals = plan.server.noise_std * math.sqrt(factor * size), [exchange.signal for exchange in rounds]
        else:
            size = float(np.mean([side.tagger.size for side in self._sides]))
            noise = plan.parts[0].noise_std * math.sqrt(size)
            signals = [statistics.signal for statistics in self._since]
        power = float(np.mean(np.square(signals))) if signals else 0.0
        return noise / math.sqrt(power) if noise and power and math.isfinite(power) else None

    def _noise_variance_factor(self, clients: int) -> float:
        """Return the noise variance in the sum of so many clients, as a multiple of the planned variance."""
        if not self._plan.local or not clients:
            return 1.0
        return clients / (clients - max_dropouts(clients)) if self._plan.mechanism.distributed_noise else clients

    def _summary(self) -> dict[str, Any]:
        """Return means over the sentences sampled since the last record; 0 without one."""
        since, clip_norm = self._since, self._plan.parts[0].clip_norm
        norms = np.concatenate([np.zeros(0), *(statistics.norms for statistics in since)])
        losses = np.concatenate([np.zeros(0), *(statistics.losses for statistics in since)])
        if not len(norms):
            return dict.fromkeys(("loss", "clipped_fraction", "gradient_norm_median", "gradient_norm_max"), 0.0)
        parts = np.concatenate([statistics.parts for statistics in since if len(statistics.norms)], axis=1)
        layers = zip(self._tagger.titles, self._tagger.parts, np.median(parts, axis=1), strict=True)
        return {
            "loss": float(losses.mean()),
            "clipped_fraction": float((norms > clip_norm).mean()) if clip_norm is not None else 0.0,
            "gradient_norm_median": float(np.median(norms)),
            "gradient_norm_max": float(norms.max()),
            "layer_norms": {title: float(norm) for title, part, norm in layers if part.shapes},
        }
