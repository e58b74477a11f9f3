"""Records and runs → what a picture shows: plain values, no plotly, no streamlit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.experiments.seed_aggregates import engine_of
from engine.records import Counts, EntityScores, RoundRecord, Run

METRICS = ("precision", "recall", "f1")


@dataclass(frozen=True)
class Point:
    """One place on the picture. epsilon: ∞ without noise. progress: of the run at that moment, 0 to 1. scores are
    strict micro averages, 0 to 1. interval: of 95 % of F1. note: what the
    pointer shows beside them, lines of text."""

    epsilon: float
    progress: float
    precision: float
    recall: float
    f1: float
    interval: str
    note: tuple[str, ...]


@dataclass(frozen=True)
class TypeScore:
    """F1 of one entity type, 0 to 1; reference: that of the run without privacy, if it is known. names: in gold."""

    name: str
    precision: float
    recall: float
    f1: float
    names: int
    reference: float | None


def path(records: Sequence[RoundRecord]) -> list[Point]:
    """A run's way along ε, on the validation part; at ∞ all along if its noise check failed at last."""
    check = records[-1].noise_check if records else None
    if check and check.failed:
        records = [replace(record, privacy=records[-1].privacy) for record in records]
    return [
        _point(
            record,
            record.scores,
            f"step {record.step:,} of {record.steps_total:,}, {record.seconds:.0f} s",
            f"loss {record.loss:.3f}, clipped {record.clipped_fraction:.0%}",
        )
        for record in records
    ]


def finish(records: Sequence[RoundRecord]) -> list[Point]:
    """Where a run ended, on the test part; empty while it runs."""
    return [_point(record, record.test, "test part, final") for record in records if record.test and record.final]


def tradeoff(runs: Sequence[Run]) -> list[Point]:
    """The ends of finished runs, on the test part, by ε."""
    return [
        _point(run.final, run.final.test, f"σ = {run.config.privacy.noise_multiplier:g}, test part", _origin(run))
        for run in runs
        if run.final and run.final.test
    ]


def seeds(runs: Sequence[Run]) -> list[Point]:
    """The ends of finished runs that differ in their seeds, on the test part; empty where fewer than two are done."""
    found = [
        _point(run.final, run.final.test, f"seed {run.config.seed}, test part", _origin(run))
        for run in runs
        if run.final and run.final.test
    ]
    return found if len(found) > 1 else []


def _origin(run: Run) -> str:
    day = run.provenance.created[:10] if run.provenance else ""
    older = f", engine {version}" if (version := engine_of(run)) else ""
    return f"{'published' if run.published else 'your run'} {day}".strip() + older


def _point(record: RoundRecord, scores: EntityScores, *note: str) -> Point:
    return Point(
        record.privacy.epsilon,
        record.progress,
        scores.precision,
        scores.recall,
        scores.f1,
        scores.f1_interval.text if scores.f1_interval else "",
        tuple(filter(None, note)),
    )


def by_type(scores: EntityScores, reference: EntityScores | None) -> list[TypeScore]:
    """F1 of each entity type that the corpus has, in alphabetical order."""
    there = {name: counts.ratios.f1 for name, counts in reference.strict.items()} if reference else {}
    return [
        TypeScore(name, *_ratios(counts), counts.gold, there.get(name))
        for name, counts in sorted(scores.strict.items())
        if counts.gold
    ]


def _ratios(counts: Counts) -> tuple[float, float, float]:
    ratios = counts.ratios
    return ratios.precision, ratios.recall, ratios.f1


def without_privacy(runs: Sequence[Run]) -> EntityScores | None:
    """Test scores of the run without noise among ``runs``."""
    for run in runs:
        if run.final and not run.config.privacy.private:
            return run.final.test
    return None


def rows(records: Sequence[RoundRecord]) -> list[dict[str, float | int | str | None]]:
    """The records as a table, ε = ∞ as ``math.inf``; the test scores stand in a last row of their own."""
    table = [_row(record, "validation", record.scores) for record in records]
    return table + [_row(record, "test", record.test) for record in records if record.test]


def _row(record: RoundRecord, part: str, scores: EntityScores) -> dict[str, float | int | str | None]:
    return {
        "part": part,
        "round": record.round,
        "step": record.step,
        "epsilon": record.privacy.epsilon,
        "delta": record.privacy.delta,
        "precision": scores.precision,
        "recall": scores.recall,
        "f1": scores.f1,
        "f1_low": scores.f1_interval.low if scores.f1_interval else None,
        "f1_high": scores.f1_interval.high if scores.f1_interval else None,
        "loss": record.loss,
        "clipped_fraction": record.clipped_fraction,
        "gradient_norm_median": record.gradient_norm_median,
        "examples_seen": record.examples_seen,
        "nonfinite": record.nonfinite,
        "seconds": record.seconds,
    }
