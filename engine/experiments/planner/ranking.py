"""Which settings reach a target, how surely, and at what price; how near the rest comes."""

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
    """How surely a setting reaches what is asked for, from no to yes."""

    MISSED = 0
    """The whole interval lies below, or the only run does."""
    NOT_EXCLUDED = 1
    """The mean lies below, the interval's upper end does not."""
    ONCE = 2
    """The only run reaches it: nothing is known of how far chance moves it."""
    PROBABLY = 3
    """The mean reaches it, the interval's lower end does not."""
    SURELY = 4
    """The whole interval lies above."""

    @property
    def reached(self) -> bool:
        """Whether the mean, or the only run, reaches it."""
        return self >= EvidenceLevel.ONCE


@dataclass(frozen=True)
class Reading:
    """A score of a setting over its seeds. interval: of 95 % of the mean over seeds, on the same test sentences; None
    for a single run."""

    measure: Measure
    spread: Spread
    interval: Interval | None

    def grade(self, at_least: float) -> EvidenceLevel:
        """Against a threshold."""
        above = self.spread.mean >= at_least
        if self.interval is None:
            return EvidenceLevel.ONCE if above else EvidenceLevel.MISSED
        if above:
            return EvidenceLevel.SURELY if self.interval.low >= at_least else EvidenceLevel.PROBABLY
        return EvidenceLevel.NOT_EXCLUDED if self.interval.high >= at_least else EvidenceLevel.MISSED


@dataclass(frozen=True)
class Judged:
    """A setting against the thresholds. readings: in their order; F1 of all names where there are none."""

    setting: Setting
    thresholds: tuple[Threshold, ...]
    readings: tuple[Reading, ...]

    @cached_property
    def grade(self) -> EvidenceLevel:
        """That of the threshold which is reached least surely."""
        graded = [one.grade(each.at_least) for one, each in zip(self.readings, self.thresholds, strict=False)]
        known = EvidenceLevel.SURELY if self.readings[0].interval else EvidenceLevel.ONCE
        return min(graded, default=known)

    @cached_property
    def margin(self) -> float:
        """The mean above the threshold that it clears least, below 0 where it misses one; without thresholds F1."""
        if not self.thresholds:
            return self.readings[0].spread.mean
        return min(one.spread.mean - each.at_least for one, each in zip(self.readings, self.thresholds, strict=True))

    @cached_property
    def hits(self) -> int:
        """Runs that reach all thresholds by themselves."""
        by_run = zip(*(self.setting.values(each.measure) for each in self.thresholds), strict=True)
        needed = [each.at_least for each in self.thresholds]
        if not needed:
            return len(self.setting.done)
        return sum(all(value >= least for value, least in zip(run, needed, strict=True)) for run in by_run)


@dataclass(frozen=True)
class Ranking:
    """What stored runs say of a target. best: private settings that reach it within the limits, and that none beats
    (see :func:`unbeaten`); reached: how many do at all.
    within: private settings within the limits, whether they reach the scores or not. nearest: of these the one that
    misses least, None where one reaches it. beyond: where none does, the one with the smallest ε that reaches the
    scores outside the limits. ceiling: the one without noise that clears the scores most. compared: private settings
    that were looked at."""

    target: Target
    best: tuple[Judged, ...]
    reached: int
    within: tuple[Judged, ...]
    nearest: Judged | None
    beyond: Judged | None
    ceiling: Judged | None
    compared: tuple[Judged, ...]


def answer(target: Target, known: Evidence) -> Ranking:
    """Of the settings that are known. Raises InvalidConfig for a type that the corpus has not."""
    known.check(each.measure for each in target.thresholds)
    judged = [judge(each, target) for each in known.settings]
    private = tuple(each for each in judged if each.setting.private)
    within = tuple(each for each in private if _within(each.setting, target))
    reached = [each for each in within if each.grade.reached]
    other = [each for each in private if each.grade.reached]
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
    """A setting against what is asked for."""
    measures = [each.measure for each in target.thresholds] or [target.main]
    return Judged(setting, target.thresholds, tuple(reading(setting, each) for each in measures))


def reading(setting: Setting, measure: Measure) -> Reading:
    """A score over the seeds of a setting."""
    values = setting.values(measure)
    return Reading(measure, spread(values), mean_over_seeds(values))


def mean_over_seeds(values: Sequence[float], level: float = 0.95) -> Interval | None:
    """Interval of the score that is expected over seeds, by Student's t, cut off at 0 and 1; None for one value."""
    if len(values) < 2:
        return None
    found = interval_of_mean(values, level)
    return Interval(max(0.0, found.low), min(1.0, found.high))


def unbeaten(found: Iterable[Judged], target: Target) -> list[Judged]:
    """Those that none beats: no other is as good in all that counts and better in one of it. Where scores are asked
    for, what counts is ε, seconds and sureness, and the smallest ε comes first. Else it is F1, of three digits, and
    what is not limited, seconds or else ε, and the highest F1 comes first. ε and seconds have two digits: a reader
    tells no more apart. Of equals the one that clears the target most stays."""
    best: dict[tuple[float, ...], Judged] = {}
    for each in sorted(found, key=lambda one: (-one.margin, one.setting.epsilon)):
        best.setdefault(_price(each, target), each)
    kept = [each for price, each in best.items() if not any(_beats(other, price) for other in best if other != price)]
    if not target.thresholds:
        return kept
    return sorted(kept, key=lambda each: (each.setting.epsilon, each.setting.seconds))


def two_digits(value: float) -> float:
    """As a reader compares prices."""
    return value if math.isinf(value) else float(f"{value:.2g}")


def _price(each: Judged, target: Target) -> tuple[float, ...]:
    epsilon, seconds = two_digits(each.setting.epsilon), two_digits(each.setting.seconds)
    if target.thresholds:
        return epsilon, seconds, -float(each.grade)
    return -round(each.margin, 3), seconds if target.seconds is None else epsilon


def _beats(other: tuple[float, ...], price: tuple[float, ...]) -> bool:
    return all(mine <= theirs for mine, theirs in zip(other, price, strict=True))


def _within(setting: Setting, target: Target) -> bool:
    short = target.seconds is None or setting.seconds <= target.seconds
    return short and (target.epsilon is None or setting.epsilon <= target.epsilon)
