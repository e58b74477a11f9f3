"""The two ways in which F1 is counted, and the interval beside it: no streamlit."""

from engine.experiments.seed_aggregates import OverSeeds
from engine.experiments.statistics import ScoreSpread, mean_interval
from engine.records import EntityScores, Interval

METRICS = {"published": "As published (tokens, O counts)", "entity": "Whole names (entities, strict)"}
"""How F1 is counted."""
INTERVAL = "95 %"
"""Heading of the interval beside an F1 of whole names."""


def in_metric(found: OverSeeds, metric: str) -> ScoreSpread | None:
    """The measured scores in one of them."""
    return found.token if metric == "published" else found.entity


def interval(*scores: EntityScores) -> str:
    """What stands in that column: of one run, or the usual one of several that were tested on the same sentences."""
    return interval_text(mean_interval(scores))


def interval_text(found: Interval | None) -> str:
    """The same where it is known already; empty where nothing was named."""
    return found.text if found else ""
