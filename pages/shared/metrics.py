"""The two ways in which F1 is counted: no streamlit."""

from engine.experiments.over_seeds import OverSeeds
from engine.experiments.spread import ScoreSpread

METRICS = {"published": "As published (tokens, O counts)", "entity": "Whole names (entities, strict)"}
"""How F1 is counted."""


def in_metric(found: OverSeeds, metric: str) -> ScoreSpread | None:
    """The measured scores in one of them."""
    return found.token if metric == "published" else found.entity
