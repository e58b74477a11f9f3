"""Utility as a function of ε, with the recommended and the paper settings, from finished runs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.config import SimulationConfig, with_noise
from engine.experiments import recommended_settings
from engine.experiments.seed_aggregates import OverSeeds, over_seeds
from engine.records import Run

GOOD, PAPER = "recommended settings", "paper settings"
_PAPER_NOISE = (10.0, 5.0, 1.0)
"""Further noise multipliers of runs with the paper settings, besides those for the ε of the ablation."""


@dataclass(frozen=True)
class Point:
    """Mean scores of finished runs with the same settings over their seeds.

    Attributes:
        setting: ``GOOD`` or ``PAPER``.
        epsilon: ε, ∞ without noise.
        recall: Mean entity-level recall (micro average), 0 to 1.
        f1: Mean entity-level F1 (micro average), 0 to 1.
        seeds: Number of seeds.
        config: Configuration with seed 0.
    """

    setting: str
    epsilon: float
    recall: float
    f1: float
    seeds: int
    config: SimulationConfig


def curve(corpus: str, sentences: int, find: Callable[[SimulationConfig], Run | None]) -> tuple[Point, ...]:
    """Return the points of both settings at each ε with finished runs, by ascending ε.

    Args:
        corpus: Name of the corpus.
        sentences: Number of training sentences of the corpus.
        find: Returns the run with a configuration, or None.
    """
    last = len(recommended_settings.STEPS) - 1
    paper = recommended_settings.recipe_step(0, corpus, sentences, None)
    configs = [
        (GOOD, recommended_settings.recipe_step(last, corpus, sentences, epsilon))
        for epsilon in (*recommended_settings.EPSILONS, None)
    ]
    configs += [
        (PAPER, recommended_settings.recipe_step(0, corpus, sentences, epsilon))
        for epsilon in (*recommended_settings.EPSILONS, None)
    ]
    configs += [(PAPER, with_noise(paper, sigma)) for sigma in _PAPER_NOISE]
    points = (_point(setting, over_seeds(config, find)) for setting, config in configs)
    return tuple(sorted(filter(None, points), key=lambda point: (point.setting, point.epsilon)))


def _point(setting: str, results: OverSeeds) -> Point | None:
    if results.entity is None or results.epsilon is None:
        return None
    entity = results.entity
    return Point(setting, results.epsilon, entity.recall.mean, entity.f1.mean, len(results.runs), results.config)


def bought(points: Iterable[Point], setting: str, epsilon: float) -> Point | None:
    """Return the point of a setting with the highest F1 at an ε of at most ``epsilon``; None if there is none.

    An ε that equals the limit to two decimals is within it.
    """
    allowed = [point for point in points if point.setting == setting and point.epsilon <= epsilon + 0.005]
    return max(allowed, key=lambda point: point.f1, default=None)
