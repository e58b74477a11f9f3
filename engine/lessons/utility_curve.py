"""What ε buys: the same names found by good practice and in the paper's setting, from runs that are known."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.config import SimulationConfig, with_noise
from engine.experiments import recommended_settings
from engine.experiments.seed_aggregates import OverSeeds, over_seeds
from engine.records import Run

GOOD, PAPER = "good practice", "the paper's setting"
_PAPER_NOISE = (10.0, 5.0, 1.0)
"""Noise multipliers that the paper's setting was run with besides those for the ε of the ladder."""


@dataclass(frozen=True)
class Point:
    """What finished runs of one setting give over their seeds. setting: ``GOOD`` or ``PAPER``. epsilon: ∞ without
    noise. recall, f1: means, strict and micro, 0 to 1. seeds: how many. config: with seed 0."""

    setting: str
    epsilon: float
    recall: float
    f1: float
    seeds: int
    config: SimulationConfig


def curve(corpus: str, sentences: int, find: Callable[[SimulationConfig], Run | None]) -> tuple[Point, ...]:
    """Both settings at each ε at which runs are done, by rising ε. sentences: that the corpus trains on; find: knows
    runs."""
    top = len(recommended_settings.RUNGS) - 1
    paper = recommended_settings.recipe_step(0, corpus, sentences, None)
    wanted = [
        (GOOD, recommended_settings.recipe_step(top, corpus, sentences, epsilon))
        for epsilon in (*recommended_settings.EPSILONS, None)
    ]
    wanted += [
        (PAPER, recommended_settings.recipe_step(0, corpus, sentences, epsilon))
        for epsilon in (*recommended_settings.EPSILONS, None)
    ]
    wanted += [(PAPER, with_noise(paper, sigma)) for sigma in _PAPER_NOISE]
    found = (_point(setting, over_seeds(config, find)) for setting, config in wanted)
    return tuple(sorted(filter(None, found), key=lambda point: (point.setting, point.epsilon)))


def _point(setting: str, found: OverSeeds) -> Point | None:
    if found.entity is None or found.epsilon is None:
        return None
    entity = found.entity
    return Point(setting, found.epsilon, entity.recall.mean, entity.f1.mean, len(found.runs), found.config)


def bought(points: Iterable[Point], setting: str, epsilon: float) -> Point | None:
    """The best of a setting that promises at least as much as ``epsilon``; None where nothing known does. An ε that is
    reached to two decimals is reached."""
    allowed = [point for point in points if point.setting == setting and point.epsilon <= epsilon + 0.005]
    return max(allowed, key=lambda point: point.f1, default=None)
