"""A score over ε, of settings that differ in their noise alone: monotone fit, band, error.

With the same recipe, less noise is not expected to do harm: the expected score rises with ε. Under that assumption the
fit is isotonic least squares (pool adjacent violators: Barlow et al. 1972, chapter 1), weighted by the number of runs,
and straight in log ε between the settings.

The band holds 95 % for the whole curve at once. At each of k settings stands Student's interval of the expected score
at 1 − 0.05 ÷ k (Bonferroni); the bootstrap of five seeds would be too narrow (a test shows by how much). Since the
curve rises, each lower end holds for all larger ε too, and each upper end for all smaller ones: that gives the band
between settings without any assumption on the curve's shape there. Beyond the last one only 1 bounds it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.config import SimulationConfig, but_for_noise
from engine.experiments.planner.evidence import Setting
from engine.experiments.planner.ranking import mean_over_seeds
from engine.experiments.planner.targets import Measure
from engine.records import Interval

LEVEL = 0.95


@dataclass(frozen=True)
class Point:
    """A setting on a curve. values: the scores of its runs, at least one."""

    epsilon: float
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Of the runs."""
        return float(np.mean(self.values))


@dataclass(frozen=True)
class ConfigFamily:
    """Settings that differ in their noise alone. config: what they share, with σ = 1 and seed 0. private: those with
    noise, by ε."""

    config: SimulationConfig
    private: tuple[Setting, ...]

    def points(self, measure: Measure) -> tuple[Point, ...]:
        """By ε; runs with the same one are put together."""
        found: dict[float, list[float]] = {}
        for setting in self.private:
            found.setdefault(setting.epsilon, []).extend(setting.values(measure))
        return tuple(Point(epsilon, tuple(found[epsilon])) for epsilon in sorted(found))


@dataclass(frozen=True)
class Curve:
    """A monotone fit. epsilons: of its points, rising. fitted: the score at each. band: ε and interval of those points
    that have several runs: a single one says nothing of chance."""

    epsilons: tuple[float, ...]
    fitted: tuple[float, ...]
    band: tuple[tuple[float, Interval], ...]

    def at(self, epsilon: float) -> float | None:
        """The fitted score, straight in log ε between points; None beyond them: nothing was measured there."""
        if not self.epsilons[0] <= epsilon <= self.epsilons[-1]:
            return None
        value: float = np.interp(math.log(epsilon), np.log(self.epsilons), self.fitted).item()
        return value

    def interval_at(self, epsilon: float) -> Interval | None:
        """Where the expected score lies at any ε, as far as it rises with ε; None where chance is not known."""
        if not self.band:
            return None
        low = [each.low for place, each in self.band if place <= epsilon]
        high = [each.high for place, each in self.band if place >= epsilon]
        return Interval(max(low, default=0.0), min(high, default=1.0))

    def crossing(self, score: float) -> float | None:
        """The smallest ε at which the fit has this score; the first point's where it has more there already, None where
        no point has so much."""
        for place, (epsilon, fitted) in enumerate(zip(self.epsilons, self.fitted, strict=True)):
            if fitted >= score:
                if place == 0 or fitted == score:
                    return epsilon
                before, less = self.epsilons[place - 1], self.fitted[place - 1]
                share = (score - less) / (fitted - less)
                return before * math.pow(epsilon / before, share)
        return None


@dataclass(frozen=True)
class FitError:
    """How far settings lie from what the others of their family say of them. typical: root mean square; number: of
    settings that were left out and predicted, one after another."""

    typical: float
    number: int


def families(settings: Iterable[Setting]) -> list[ConfigFamily]:
    """All that have a private setting, those with most settings first."""
    found: dict[SimulationConfig, list[Setting]] = {}
    for setting in settings:
        if setting.private:
            found.setdefault(but_for_noise(setting.config), []).append(setting)
    every = [
        ConfigFamily(config, tuple(sorted(those, key=lambda each: each.epsilon))) for config, those in found.items()
    ]
    return sorted(every, key=lambda each: -len(each.private))


def fit(points: Sequence[Point]) -> Curve:
    """Of at least one point, ε rising."""
    from scipy.optimize import isotonic_regression

    means = [each.mean for each in points]
    fitted = isotonic_regression(means, weights=[len(each.values) for each in points]).x
    return Curve(tuple(each.epsilon for each in points), tuple(float(value) for value in fitted), _band(points))


def _band(points: Sequence[Point]) -> tuple[tuple[float, Interval], ...]:
    """Both ends at each point, moved to where those of the others already hold. Where intervals contradict a rising
    curve, which is a sign that the assumption fails there, they stay as they are."""
    several = [each for each in points if len(each.values) > 1]
    own = [mean_over_seeds(each.values, 1 - (1 - LEVEL) / len(several)) for each in several]
    known = [each for each in own if each is not None]
    low = np.maximum.accumulate([each.low for each in known])
    high = np.minimum.accumulate([each.high for each in known][::-1])[::-1]
    return tuple(
        (point.epsilon, Interval(float(a), float(b)) if a <= b else each)
        for point, each, a, b in zip(several, known, low, high, strict=True)
    )


def fit_error(found: Iterable[Sequence[Point]]) -> FitError | None:
    """Each point that has others on both sides is predicted by a curve through the rest of its family; None where there
    is no such point. Beyond the last points nothing is predicted."""
    squares = []
    for points in found:
        for place in range(1, len(points) - 1):
            rest = fit([*points[:place], *points[place + 1 :]])
            said = rest.at(points[place].epsilon)
            if said is not None:
                squares.append((said - points[place].mean) ** 2)
    return FitError(math.sqrt(sum(squares) / len(squares)), len(squares)) if squares else None


def highest(curves: Sequence[tuple[ConfigFamily, Curve]], most: int) -> list[tuple[ConfigFamily, Curve]]:
    """The curves to be drawn, of at least two points each: those that are the highest at some point of any, then those
    that come highest at all, as many as can be told apart."""
    drawn = [each for each in curves if len(each[1].epsilons) > 1]
    places = sorted({epsilon for _, curve in drawn for epsilon in curve.epsilons})
    first: list[tuple[ConfigFamily, Curve]] = []
    for place in places:
        known = [(said, each) for each in drawn if (said := each[1].at(place)) is not None]
        top = max(known, key=lambda one: one[0])[1]
        if top not in first:
            first.append(top)
    rest = sorted((each for each in drawn if each not in first), key=lambda each: -each[1].fitted[-1])
    first.sort(key=lambda each: -each[1].fitted[-1])
    return [*first, *rest][:most]


def two_digits_up(epsilon: float) -> float:
    """The next larger number of two digits."""
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 1)
    return round(math.ceil(epsilon / step - 1e-9) * step, 12)
