"""Next runs for a target that no setting reaches with significance, by four rules."""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from engine.config import SimulationConfig
from engine.experiments.planner.curve import ConfigFamily, Curve, fit, two_digits_up
from engine.experiments.planner.evidence import Setting
from engine.experiments.planner.ranking import EvidenceLevel, Judged, Ranking
from engine.experiments.planner.targets import Target
from engine.experiments.seed_aggregates import SEEDS
from engine.experiments.statistics import reach_of_mean

MORE_SEEDS, FROM_CURVE, BEYOND, AT_LIMIT = "more seeds", "read off the curve", "beyond the curve", "at the limit"
"""Rules for next runs.

``MORE_SEEDS``: more runs of a setting whose interval contains a threshold. ``FROM_CURVE``: the ε at which a fitted
curve reaches the scores. ``BEYOND``: twice the largest measured ε, where runs without noise reach the scores.
``AT_LIMIT``: the largest ε within the limit, where no run exists and the band of a curve does not exclude the scores.
"""
MOST_SEEDS = 20
"""Largest number of runs of a setting; more runs would cost too much for one decision."""


@dataclass(frozen=True)
class Candidate:
    """Recommended runs.

    Attributes:
        config: configuration of the first run.
        runs: number of runs, each with its own seed.
        epsilon: ε of each run; for an ε that was not measured, the noise multiplier is still to be found.
        rule: the rule that selected the runs.
        like: the most similar measured setting.
    """

    config: SimulationConfig
    runs: int
    epsilon: float
    rule: str
    like: Setting


def candidates(found: Ranking, families: Sequence[ConfigFamily], settings: Iterable[Setting]) -> list[Candidate]:
    """Return the fastest candidate of each rule.

    There is none where a setting reaches the target with significance, or where the target has no score.

    Args:
        found: ranking of the settings.
        families: settings that differ in their noise only.
        settings: all settings; those without noise are the upper limit.
    """
    if not found.target.thresholds or any(judged.grade == EvidenceLevel.SIGNIFICANT for judged in found.best):
        return []
    ceilings = [setting for setting in settings if not setting.private]
    lines = [(family, _curves(family, found.target)) for family in families]
    proposals = [*_more_seeds(found)]
    if not found.reached:
        proposals += [*_from_curve(found, lines), *_beyond(found, lines, ceilings), *_at_limit(found, lines)]
    proposals.sort(key=lambda item: item.runs * item.like.seconds)
    return list({item.rule: item for item in reversed(proposals)}.values())


def seeds_needed(values: Sequence[float], at_least: float) -> int | None:
    """Return the number of runs that separates the mean from a threshold, at the present mean and standard deviation.

    The number includes the present runs. It is None above ``MOST_SEEDS``, and ``SEEDS`` for a single run.
    """
    if len(values) < 2:
        return SEEDS
    gap, sd = abs(statistics.fmean(values) - at_least), statistics.stdev(values)
    numbers = range(len(values) + 1, MOST_SEEDS + 1)
    return next((number for number in numbers if reach_of_mean(sd, number) <= gap), None)


def _more_seeds(ranking: Ranking) -> Iterator[Candidate]:
    for judged in ranking.within:
        if judged.grade in (EvidenceLevel.POSSIBLE, EvidenceLevel.SINGLE_RUN, EvidenceLevel.MEAN_ABOVE) and (
            number := _needed(judged)
        ):
            seeds = {done.run.config.seed for done in judged.setting.done}
            seed = next(seed for seed in range(len(seeds) + 1) if seed not in seeds)
            config = replace(judged.setting.config, seed=seed)
            yield Candidate(config, number, judged.setting.epsilon, MORE_SEEDS, judged.setting)


def _needed(judged: Judged) -> int | None:
    """Return the number of additional runs for the threshold that needs the most."""
    unsure = [
        seeds_needed(judged.setting.values(threshold.measure), threshold.at_least)
        for threshold, read in zip(judged.thresholds, judged.readings, strict=True)
        if read.grade(threshold.at_least) != EvidenceLevel.SIGNIFICANT
    ]
    numbers = [number for number in unsure if number is not None]
    return max(numbers) - len(judged.setting.done) if numbers and len(numbers) == len(unsure) else None


def _curves(family: ConfigFamily, target: Target) -> list[Curve]:
    return [fit(family.points(threshold.measure)) for threshold in target.thresholds]


def _meets(curves: Sequence[Curve], target: Target) -> float | None:
    """Return the smallest ε at which all fits reach their thresholds."""
    crossings = [curve.crossing(threshold.at_least) for curve, threshold in zip(curves, target.thresholds, strict=True)]
    reached = [epsilon for epsilon in crossings if epsilon is not None]
    return max(reached) if len(reached) == len(crossings) else None


def _allowed(epsilon: float, target: Target) -> bool:
    return target.epsilon is None or epsilon <= target.epsilon


def _from_curve(ranking: Ranking, lines: Sequence[tuple[ConfigFamily, list[Curve]]]) -> Iterator[Candidate]:
    for family, curves in lines:
        met = _meets(curves, ranking.target)
        if met is None or met <= curves[0].epsilons[0]:
            continue
        epsilon = two_digits_up(met)
        if _allowed(epsilon, ranking.target) and epsilon < curves[0].epsilons[-1]:
            yield _at(family, epsilon, FROM_CURVE)


def _beyond(
    ranking: Ranking, lines: Sequence[tuple[ConfigFamily, list[Curve]]], ceilings: Sequence[Setting]
) -> Iterator[Candidate]:
    """Yield the family that comes nearest with noise, among those that reach the scores without noise."""
    target = ranking.target
    options = []
    for family, curves in lines:
        top = curves[0].epsilons[-1]
        twins = [setting for setting in ceilings if _alike(setting.config, family.config)]
        room = any(
            all(min(setting.values(threshold.measure)) >= threshold.at_least for threshold in target.thresholds)
            for setting in twins
        )
        epsilon = min(2 * top, target.epsilon or math.inf)
        if room and _meets(curves, target) is None and epsilon > 1.05 * top:
            short = min(
                c.fitted[-1] - threshold.at_least for c, threshold in zip(curves, target.thresholds, strict=True)
            )
            options.append((short, family, epsilon))
    if options:
        _, family, epsilon = max(options, key=lambda option: option[0])
        yield _at(family, epsilon, BEYOND)


def _at_limit(ranking: Ranking, lines: Sequence[tuple[ConfigFamily, list[Curve]]]) -> Iterator[Candidate]:
    """Yield the family whose curve comes nearest at the limit of ε.

    Among families whose curves begin above the limit, it is the one that begins at the lowest ε.
    """
    target, limit = ranking.target, ranking.target.epsilon
    if limit is None:
        return
    options = []
    for family, curves in lines:
        met, measured = _meets(curves, target), curves[0].epsilons
        if limit in measured or limit > measured[-1] or (met is not None and met <= limit):
            continue
        if all(
            _upper(curve, limit) >= threshold.at_least
            for curve, threshold in zip(curves, target.thresholds, strict=True)
        ):
            scores = [curve.at(limit) for curve in curves]
            fits = [
                value - threshold.at_least
                for value, threshold in zip(scores, target.thresholds, strict=True)
                if value is not None
            ]
            options.append(((bool(fits), min(fits, default=-measured[0])), family))
    if options:
        yield _at(max(options, key=lambda option: option[0])[1], limit, AT_LIMIT)


def _upper(curve: Curve, epsilon: float) -> float:
    """Return an upper bound of a score at an ε, by the band or by the next setting with a larger ε."""
    if interval := curve.interval_at(epsilon):
        return interval.high
    return next(fitted for measured, fitted in zip(curve.epsilons, curve.fitted, strict=True) if measured >= epsilon)


def _at(family: ConfigFamily, epsilon: float, rule: str) -> Candidate:
    like = min(family.private, key=lambda setting: abs(math.log(setting.epsilon / epsilon)))
    return Candidate(like.config, SEEDS, epsilon, rule, like)


def _alike(one: SimulationConfig, other: SimulationConfig) -> bool:
    """Return whether both train the same model on the same data.

    Batch and step sizes may differ, since noise changes which values are good.
    """
    alone = [(config.tagger, config.features, config.language_model, config.embeddings) for config in (one, other)]
    return alone[0] == alone[1] and one.federation == other.federation and one.data_fraction == other.data_fraction
