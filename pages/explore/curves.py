"""Points and rows of Explore's charts and tables, from records and runs. Does not use Plotly or Streamlit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.experiments.seed_aggregates import engine_of
from engine.records import Counts, EntityScores, RoundRecord, Run

METRICS = ("precision", "recall", "f1")


@dataclass(frozen=True)
class Point:
    """A point of a chart.

    Attributes:
        epsilon: ε spent; ∞ without noise.
        progress: Progress of the run at this point, 0 to 1.
        precision: Entity-level (strict) precision, micro-averaged, 0 to 1.
        recall: Entity-level (strict) recall, micro-averaged, 0 to 1.
        f1: Entity-level (strict) F1, micro-averaged, 0 to 1.
        interval: 95 % CI of F1 as text.
        note: Further lines of the tooltip.
    """

    epsilon: float
    progress: float
    precision: float
    recall: float
    f1: float
    interval: str
    note: tuple[str, ...]


@dataclass(frozen=True)
class TypeScore:
    """Scores of an entity type, 0 to 1.

    Attributes:
        name: The entity type.
        precision: Entity-level (strict) precision.
        recall: Entity-level (strict) recall.
        f1: Entity-level (strict) F1.
        names: Number of gold entities.
        reference: F1 of the run without privacy, or None if there is no such run.
    """

    name: str
    precision: float
    recall: float
    f1: float
    names: int
    reference: float | None


def path(records: Sequence[RoundRecord]) -> list[Point]:
    """Return a point for each record of a run, on the validation set; all at ε = ∞ if the last noise check failed."""
    check = records[-1].noise_check if records else None
    if check and check.failed:
        records = [replace(record, privacy=records[-1].privacy) for record in records]
    return [
        _point(
            record,
            record.scores,
            f"step {record.step:,} of {record.steps_total:,}, {record.seconds:.0f} s",
            "" if record.loss is None else f"loss {record.loss:.3f}, clipped gradients {record.clipped_fraction:.0%}",
        )
        for record in records
    ]


def finish(records: Sequence[RoundRecord]) -> list[Point]:
    """Return the final point of a run, on the test set; empty while the run is active."""
    return [_point(record, record.test, "test set, final") for record in records if record.test and record.final]


def tradeoff(runs: Sequence[Run]) -> list[Point]:
    """Return the final points of finished runs, on the test set."""
    return [
        _point(run.final, run.final.test, f"σ = {run.config.privacy.noise_multiplier:g}, test set", _origin(run))
        for run in runs
        if run.final and run.final.test
    ]


def seeds(runs: Sequence[Run]) -> list[Point]:
    """Return the final points of runs that differ in their seeds, on the test set; empty if fewer than two are done."""
    points = [
        _point(run.final, run.final.test, f"seed {run.config.seed}, test set", _origin(run))
        for run in runs
        if run.final and run.final.test
    ]
    return points if len(points) > 1 else []


def _origin(run: Run) -> str:
    day = run.provenance.created[:10] if run.provenance else ""
    older = f", engine {version} (outdated)" if (version := engine_of(run)) else ""
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
    """Return the scores of each entity type of the corpus, in alphabetical order.

    Args:
        scores: Scores of the run.
        reference: Scores of the run without privacy, if there is one.
    """
    references = {name: counts.ratios.f1 for name, counts in reference.strict.items()} if reference else {}
    return [
        TypeScore(name, *_ratios(counts), counts.gold, references.get(name))
        for name, counts in sorted(scores.strict.items())
        if counts.gold
    ]


def _ratios(counts: Counts) -> tuple[float, float, float]:
    ratios = counts.ratios
    return ratios.precision, ratios.recall, ratios.f1


def without_privacy(runs: Sequence[Run]) -> EntityScores | None:
    """Return the test scores of the run without noise among ``runs``, or None if there is none."""
    for run in runs:
        if run.final and not run.config.privacy.private:
            return run.final.test
    return None


def rows(records: Sequence[RoundRecord]) -> list[dict[str, float | int | str | None]]:
    """Return the records as table rows, with ε = ∞ as ``math.inf``; the test scores have the last row."""
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
