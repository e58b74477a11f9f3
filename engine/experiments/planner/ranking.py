"""Ranking of settings by a target: evidence level, ε and seconds, and the gap of the settings that miss it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from engine.experiments.planner.evidence import Evidence, Setting
from engine.experiments.planner.targets import Measure, Target, Threshold
from engine.experiments.statistics import Spread, interval_of_mean, spread
from engine.records import Interval


class EvidenceLevel(IntEnum):
    """The evidence that a setting reaches a threshold, in rising order."""

    BELOW = 0
    """The whole interval, or the single run, is below the threshold."""
    POSSIBLE = 1
    """The mean is below the threshold, the upper end of the interval is not."""
    SINGLE_RUN = 2
    """The single run reaches the threshold; its seed variance is unknown."""
    MEAN_ABOVE = 3
    """The mean reaches the threshold, the lower end of the interval does not."""
    SIGNIFICANT = 4
    """The whole interval is above the threshold."""

    @property
    def reached(self) -> bool:
        """Whether the mean, or the single run, reaches the threshold."""
        return self >= EvidenceLevel.SINGLE_RUN


@dataclass(frozen=True)
class Reading:
    """A score of a setting over its seeds.

    Attributes:
        measure: the score.
        spread: mean and standard deviation over seeds.
        interval: 95 % CI of the mean over seeds, on the same test set; None for a single run.
    """

    measure: Measure
    spread: Spread
    interval: Interval | None

    def grade(self, at_least: float) -> EvidenceLevel:
        """Return the evidence that the score reaches a threshold."""
        above = self.spread.mean >= at_least
        if self.interval is None:
            return EvidenceLevel.SINGLE_RUN if above else EvidenceLevel.BELOW
        if above:
            return EvidenceLevel.SIGNIFICANT if self.interval.low >= at_least else EvidenceLevel.MEAN_ABOVE
        return EvidenceLevel.POSSIBLE if self.interval.high >= at_least else EvidenceLevel.BELOW


@dataclass(frozen=True)
class Judged:
    """A setting compared with the thresholds.

    Attributes:
        setting: the setting.
        thresholds: the required scores.
        readings: scores in the order of the thresholds; F1 over all entities where there are none.
    """

    setting: Setting
    thresholds: tuple[Threshold, ...]
    readings: tuple[Reading, ...]

    @cached_property
    def grade(self) -> EvidenceLevel:
        """The lowest evidence level over all thresholds."""
        grades = [
            reading.grade(threshold.at_least)
            for reading, threshold in zip(self.readings, self.thresholds, strict=False)
        ]
        default = EvidenceLevel.SIGNIFICANT if self.readings[0].interval else EvidenceLevel.SINGLE_RUN
        return min(grades, default=default)

    @cached_property
    def margin(self) -> float:
        """The smallest difference of a mean and its threshold, below 0 for a missed one; F1 without thresholds."""
        if not self.thresholds:
            return self.readings[0].spread.mean
        return min(
            reading.spread.mean - threshold.at_least
            for reading, threshold in zip(self.readings, self.thresholds, strict=True)
        )

    @cached_property
    def hits(self) -> int:
        """The number of runs that each reach all thresholds."""
        by_run = zip(*(self.setting.values(threshold.measure) for threshold in self.thresholds), strict=True)
        needed = [threshold.at_least for threshold in self.thresholds]
        if not needed:
            return len(self.setting.done)
        return sum(all(value >= least for value, least in zip(run, needed, strict=True)) for run in by_run)


@dataclass(frozen=True)
class Ranking:
    """The stored settings ranked by a target.

    Attributes:
        target: the target.
        best: private settings that reach the target within the limits and are Pareto-optimal (:func:`unbeaten`).
        reached: number of private settings that reach the target within the limits.
        within: private settings within the limits, with or without the required scores.
        nearest: setting of ``within`` with the smallest gap; None where a setting reaches the target.
        beyond: setting with the smallest ε that reaches the scores outside the limits; None where ``best`` has one.
        ceiling: setting without noise with the largest margin.
        compared: all private settings.
    """

    target: Target
    best: tuple[Judged, ...]
    reached: int
    within: tuple[Judged, ...]
    nearest: Judged | None
    beyond: Judged | None
    ceiling: Judged | None
    compared: tuple[Judged, ...]


def answer(target: Target, evidence: Evidence) -> Ranking:
    """Rank the settings of a corpus by a target.

    Args:
        target: scores and limits.
        evidence: the settings of the corpus.

    Raises:
        InvalidConfig: for an entity type that the corpus does not have.
    """
    evidence.check(threshold.measure for threshold in target.thresholds)
    judged = [judge(setting, target) for setting in evidence.settings]
    private = tuple(one for one in judged if one.setting.private)
    within = tuple(one for one in private if _within(one.setting, target))
    reached = [one for one in within if one.grade.reached]
    other = [one for one in private if one.grade.reached]
    return Ranking(
        target=target,
        best=tuple(unbeaten(reached, target)),
        reached=len(reached),
        within=within,
        nearest=None if reached else max(within, key=lambda each: (each.margin, -each.setting.epsilon), default=None),
        beyond=None if reached else min(other, key=lambda each: (each.setting.epsilon, -each.margin), default=None),
        ceiling=max((each for each in judged if not each.setting.private), key=lambda each: each.margin, default=None),
        compared=private,
    )


def judge(setting: Setting, target: Target) -> Judged:
    """Compare a setting with the thresholds of a target."""
    measures = [threshold.measure for threshold in target.thresholds] or [target.main]
    return Judged(setting, target.thresholds, tuple(reading(setting, measure) for measure in measures))


def reading(setting: Setting, measure: Measure) -> Reading:
    """Return a score over the seeds of a setting."""
    values = setting.values(measure)
    return Reading(measure, spread(values), mean_over_seeds(values))


def mean_over_seeds(values: Sequence[float], level: float = 0.95) -> Interval | None:
    """Return Student's t interval of the mean score over seeds, clipped to [0, 1]; None for a single value."""
    if len(values) < 2:
        return None
    interval = interval_of_mean(values, level)
    return Interval(max(0.0, interval.low), min(1.0, interval.high))


def unbeaten(found: Iterable[Judged], target: Target) -> list[Judged]:
    """Return the Pareto-optimal settings: no other setting is as good in all criteria and better in one.

    With thresholds, the criteria are ε, seconds and evidence level, and the smallest ε comes first. Without
    thresholds, they are F1 to three digits and the unlimited one of seconds and ε, and the highest F1 comes first.
    ε and seconds are rounded to two digits, since smaller differences do not matter to a reader. Of equal settings
    the one with the largest margin stays.
    """
    best: dict[tuple[float, ...], Judged] = {}
    for each in sorted(found, key=lambda one: (-one.margin, one.setting.epsilon)):
        best.setdefault(_price(each, target), each)
    kept = [each for price, each in best.items() if not any(_beats(other, price) for other in best if other != price)]
    if not target.thresholds:
        return kept
    return sorted(kept, key=lambda each: (each.setting.epsilon, each.setting.seconds))


def two_digits(value: float) -> float:
    """Return a value rounded to two significant digits."""
    return value if math.isinf(value) else float(f"{value:.2g}")


def _price(each: Judged, target: Target) -> tuple[float, ...]:
    epsilon, seconds = two_digits(each.setting.epsilon), two_digits(each.setting.seconds)
    if target.thresholds:
        return epsilon, seconds, -float(each.grade)
    return -round(each.margin, 3), seconds if target.seconds is None else epsilon


def _beats(other: tuple[float, ...], price: tuple[float, ...]) -> bool:
    return all(a <= b for a, b in zip(other, price, strict=True))


def _within(setting: Setting, target: Target) -> bool:
    short = target.seconds is None or setting.seconds <= target.seconds
    return short and (target.epsilon is None or setting.epsilon <= target.epsilon)
