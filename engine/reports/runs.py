"""Records and runs as plain fields for other programs and as lines of text for a shell.

In the fields, ε = ∞ is ``null``, since JSON has no infinity.
"""

import math
import time
from typing import Any

from engine.config.feature_registry import FITTED_ON
from engine.embeddings.contamination import Overlap
from engine.experiments.seed_aggregates import engine_of
from engine.privacy.plan import PrivacyPlan
from engine.records import (
    FederatedRound,
    PlatformRecord,
    RoundRecord,
    Run,
)
from engine.reports.numbers import epsilon_text
from engine.reports.scores import score_fields


def record_fields(record: RoundRecord) -> dict[str, Any]:
    """Return a record as flat fields; scores are on the validation set, and the final record also has ``test``."""
    spent = record.privacy.to_dict()
    fields = {
        "round": record.round,
        "step": record.step,
        "steps_total": record.steps_total,
        "epsilon": spent["epsilon"],
        "delta": spent["delta"],
        "unit": spent["unit"],
        "neighbouring": spent["neighbouring"],
        "assumptions": spent["assumptions"],
        "rdp_epsilon": spent["rdp_epsilon"],
        "poisson_epsilon": spent["poisson_epsilon"],
        "precision": record.scores.precision,
        "recall": record.scores.recall,
        "f1": record.scores.f1,
        "loss": record.loss,
        "seconds": record.seconds,
        "examples_seen": record.examples_seen,
        "clipped_fraction": record.clipped_fraction,
        "layer_norms": dict(record.layer_norms),
        "noise_to_signal": record.noise_to_signal,
        "gradient_norm_median": record.gradient_norm_median,
        "gradient_norm_max": record.gradient_norm_max,
        "nonfinite": record.nonfinite,
        "noise_check": record.noise_check.to_dict() | {"failed": record.noise_check.failed}
        if record.noise_check
        else None,
        "federation": record.federation.to_dict() if record.federation else None,
        "final": record.final,
    }
    if record.platforms:
        fields["platforms"] = [platform_fields(platform) for platform in record.platforms]
    if record.test is not None:
        headline = {"precision": record.test.precision, "recall": record.test.recall, "f1": record.test.f1}
        fields["test"] = headline | score_fields(record.test)
    return fields


def platform_fields(platform: PlatformRecord) -> dict[str, Any]:
    """Return one client (silo) of a record, as :func:`record_fields`."""
    scores, test, check = platform.scores, platform.test, platform.noise_check
    fields: dict[str, Any] = {
        "name": platform.name,
        "epsilon": platform.privacy.to_dict()["epsilon"],
        "delta": platform.privacy.delta,
        "unit": platform.privacy.unit,
        "neighbouring": platform.privacy.neighbouring,
        "precision": scores.precision,
        "recall": scores.recall,
        "f1": scores.f1,
        "noise_check": check.to_dict() | {"failed": check.failed} if check else None,
    }
    if test is not None:
        fields["test"] = {"precision": test.precision, "recall": test.recall, "f1": test.f1} | score_fields(test)
    return fields


def platform_lines(record: RoundRecord) -> list[str]:
    """Return a line for each client (silo) with its test scores, or else its validation scores."""
    return [
        f"{platform.name}: ε {epsilon_text(platform.privacy.epsilon)}  P {scores.precision:.3f}  "
        f"R {scores.recall:.3f}  F1 {scores.f1:.3f}"
        for platform in record.platforms
        for scores in [platform.test or platform.scores]
    ]


def record_line(record: RoundRecord) -> str:
    """Return a record as one line."""
    epsilon = epsilon_text(record.privacy.epsilon)
    return (
        f"{record.round:3}  step {record.step:>6,} of {record.steps_total:,}  ε {epsilon:>6}"
        f"  P {record.scores.precision:.3f}  R {record.scores.recall:.3f}  F1 {record.scores.f1:.3f}"
        + (f"  loss {record.loss:.3f}" if record.loss is not None else "")
        + (f"  clipped {record.clipped_fraction:4.0%}" if record.clipped_fraction is not None else "")
        + f"  {record.seconds:6.1f} s"
        + (federated_text(record.federation) if record.federation else "")
    )


def federated_text(last: FederatedRound) -> str:
    """Return the communication round of a record, for the end of a line."""
    clients = "" if last.clients is None else f", {len(last.clients):,} clients"
    failed = f", {len(last.failed)} failed" if last.failed else ""
    sent = "" if last.sent is None else f", {last.sent / 1e6:,.1f} MB sent"
    return f"  round {last.round:,} of {last.rounds:,}{clients}{failed}{sent}"


def run_fields(run: Run) -> dict[str, Any]:
    """Return a run without its records, as fields."""
    status = run.status
    return {
        "run_id": run.run_id,
        "state": str(status.state),
        "published": run.published,
        "engine_version": run.provenance.engine_version if run.provenance else None,
        "outdated": bool(engine_of(run)),
        "progress": status.progress,
        "stage": status.stage,
        "queue_place": status.queue_place,
        "error": status.error,
        "created": status.created,
        "started": status.started,
        "finished": status.finished,
        "config": run.config.to_dict(),
    }


def run_line(run: Run) -> str:
    """Return a run as one line."""
    config = run.config
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.status.created)) if run.status.created else ""
    state = f"{run.status.state} {run.status.progress:.0%}" if run.status.state == "running" else str(run.status.state)
    return (
        f"{run.run_id}  {state:12} {'published' if run.published else '':9} {config.corpus:12} {config.tagger.name}"
        f"  σ {config.privacy.noise_multiplier:g}  data {config.data_fraction:.0%}  epochs {config.training.epochs:g}"
        f"  clients {config.federation.clients:,}  seed {config.seed}  {when}"
        + (f"  engine {version}" if (version := engine_of(run)) else "")
        + (f"  {run.status.error}" if run.status.error else "")
    )


def overlap_fields(found: Overlap | None) -> dict[str, Any] | None:
    """Return the sentences that contextual features were fitted on, by part of a corpus; None if unknown."""
    if found is None:
        return None
    parts = zip(("train", "validation", "test"), found.sentences, found.shared, found.short, strict=True)
    return {
        part: {"sentences": of, "shared": shared, "short": short, "share": found.share(part)}
        for part, of, shared, short in parts
    }


def overlap_text(found: Overlap | None) -> str:
    """Return the overlap as text for the end of a line; empty for a corpus without overlap."""
    if found is None or not any(found.shared):
        return ""
    return (
        f"; {found.share('train'):.1%} of its training and {found.share('test'):.1%} of its test sentences are in the "
        f"data of {FITTED_ON} that the contextual features were fitted on: with these features "
        + ("no ε is valid" if found.breaks_privacy else "F1 is optimistic")
    )


def privacy_fields(plan: PrivacyPlan, epsilon: float, accountant: str) -> dict[str, Any]:
    """Return the privacy cost of a plan.

    Args:
        plan: sampling, noise and steps.
        epsilon: its ε, ∞ without noise.
        accountant: name of the accountant.
    """
    return {
        "epsilon": None if math.isinf(epsilon) else epsilon,
        "delta": plan.delta,
        "noise_multiplier": plan.noise_multiplier,
        "accountant": accountant,
        "steps": plan.steps,
        "examples": plan.examples,
        "batch_size": plan.batch_size,
        "sampling_probability": plan.sampling_probability,
    }
