"""The two F1 metrics, and the confidence interval of F1. Does not use Streamlit."""

from engine.experiments.seed_aggregates import OverSeeds
from engine.experiments.statistics import ScoreSpread, mean_interval
from engine.records import EntityScores, Interval

METRICS = {"published": "Token-level (paper's metric)", "entity": "Entity-level (strict)"}
"""Labels of the F1 metrics."""
INTERVAL = "95 % CI"
"""Heading of the column with the 95 % confidence interval of the entity-level F1."""


def in_metric(found: OverSeeds, metric: str) -> ScoreSpread | None:
    """Return the measured scores in a metric, a key of :data:`METRICS`."""
    return found.token if metric == "published" else found.entity


def interval(*scores: EntityScores) -> str:
    """Return the confidence interval of a run, or the mean one of several runs on the same test sentences."""
    return interval_text(mean_interval(scores))


def interval_text(found: Interval | None) -> str:
    """Format an interval; return an empty string if the run has none."""
    return found.text if found else ""
