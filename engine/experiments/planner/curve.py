"""Score as a function of ε, for settings that differ in their noise only: isotonic fit, band and error.

With the other settings fixed, less noise should not reduce the expected score, so the score rises with ε. Under that
assumption the fit is isotonic least squares (pool adjacent violators: Barlow et al. 1972, chapter 1). It is weighted
by the number of runs and linear in log ε between the settings.

The band covers the whole curve with 95 % confidence. At each of k settings it uses Student's interval of the expected
score at 1 − 0.05 ÷ k (Bonferroni). A bootstrap over five seeds would be too narrow (a test shows by how much). Since
the curve rises, each lower end is valid for all larger ε, and each upper end for all smaller ε. This gives the band
between settings without an assumption on the curve's shape. Above the last setting, only 1 bounds the band.
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
    """A setting on a curve, with ε and the scores of its runs (at least one)."""

    epsilon: float
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean score of the runs."""
        return float(np.mean(self.values))


@dataclass(frozen=True)
class ConfigFamily:
    """Settings that differ in their noise only.

    Attributes:
        config: their common configuration, with σ = 1 and seed 0.
        private: the settings with noise, by ε.
    """

    config: SimulationConfig
    private: tuple[Setting, ...]

    def points(self, measure: Measure) -> tuple[Point, ...]:
        """Return the points by ε; settings with equal ε form one point."""
        scores: dict[float, list[float]] = {}
        for setting in self.private:
            scores.setdefault(setting.epsilon, []).extend(setting.values(measure))
        return tuple(Point(epsilon, tuple(scores[epsilon])) for epsilon in sorted(scores))


@dataclass(frozen=True)
class Curve:
    """An isotonic fit.

    Attributes:
        epsilons: ε of its points, rising.
        fitted: fitted score at each point.
        band: ε and interval of the points with several runs; a single run has no estimate of the seed variance.
    """

    epsilons: tuple[float, ...]
    fitted: tuple[float, ...]
    band: tuple[tuple[float, Interval], ...]

    def at(self, epsilon: float) -> float | None:
        """Return the fitted score, linear in log ε between points; None outside the measured range."""
        if not self.epsilons[0] <= epsilon <= self.epsilons[-1]:
            return None
        value: float = np.interp(math.log(epsilon), np.log(self.epsilons), self.fitted).item()
        return value

    def interval_at(self, epsilon: float) -> Interval | None:
        """Return the interval of the expected score at an ε; None without a point that has several runs."""
        if not self.band:
            return None
        low = [interval.low for at, interval in self.band if at <= epsilon]
        high = [interval.high for at, interval in self.band if at >= epsilon]
        return Interval(max(low, default=0.0), min(high, default=1.0))

    def crossing(self, score: float) -> float | None:
        """Return the smallest ε at which the fit reaches a score.

        It is the first point's ε where that point reaches the score, and None where no point does.
        """
        for index, (epsilon, fitted) in enumerate(zip(self.epsilons, self.fitted, strict=True)):
            if fitted >= score:
                if index == 0 or fitted == score:
                    return epsilon
                before, less = self.epsilons[index - 1], self.fitted[index - 1]
                share = (score - less) / (fitted - less)
                return before * math.pow(epsilon / before, share)
        return None


@dataclass(frozen=True)
class FitError:
    """The leave-one-out error of the fits.

    Attributes:
        typical: root mean square error of the score.
        number: number of settings that were left out and predicted.
    """

    typical: float
    number: int


def families(settings: Iterable[Setting]) -> list[ConfigFamily]:
    """Return all families with a private setting, those with most settings first."""
    found: dict[SimulationConfig, list[Setting]] = {}
    for setting in settings:
        if setting.private:
            found.setdefault(but_for_noise(setting.config), []).append(setting)
    every = [
        ConfigFamily(config, tuple(sorted(those, key=lambda each: each.epsilon))) for config, those in found.items()
    ]
    return sorted(every, key=lambda each: -len(each.private))


def fit(points: Sequence[Point]) -> Curve:
    """Fit a curve to at least one point, in rising order of ε."""
    from scipy.optimize import isotonic_regression

    means = [point.mean for point in points]
    fitted = isotonic_regression(means, weights=[len(point.values) for point in points]).x
    return Curve(tuple(point.epsilon for point in points), tuple(float(value) for value in fitted), _band(points))


def _band(points: Sequence[Point]) -> tuple[tuple[float, Interval], ...]:
    """Return the interval at each point, narrowed by the intervals of the other points.

    Intervals that contradict a rising curve stay unchanged; they are a sign that the assumption fails there.
    """
    several = [point for point in points if len(point.values) > 1]
    own = [mean_over_seeds(point.values, 1 - (1 - LEVEL) / len(several)) for point in several]
    known = [interval for interval in own if interval is not None]
    low = np.maximum.accumulate([interval.low for interval in known])
    high = np.minimum.accumulate([interval.high for interval in known][::-1])[::-1]
    return tuple(
        (point.epsilon, Interval(float(a), float(b)) if a <= b else each)
        for point, each, a, b in zip(several, known, low, high, strict=True)
    )


def fit_error(found: Iterable[Sequence[Point]]) -> FitError | None:
    """Return the leave-one-out error over all inner points of all families; None without an inner point.

    The first and the last point of a family are not predicted, since a fit does not extrapolate.
    """
    squares = []
    for points in found:
        for index in range(1, len(points) - 1):
            rest = fit([*points[:index], *points[index + 1 :]])
            predicted = rest.at(points[index].epsilon)
            if predicted is not None:
                squares.append((predicted - points[index].mean) ** 2)
    return FitError(math.sqrt(sum(squares) / len(squares)), len(squares)) if squares else None


def highest(curves: Sequence[tuple[ConfigFamily, Curve]], most: int) -> list[tuple[ConfigFamily, Curve]]:
    """Return the curves for a chart, each with at least two points.

    Curves that are the highest at some point come first, then those with the highest end.

    Args:
        curves: all families with their fits.
        most: largest number of curves that a reader can distinguish.
    """
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
    """Return a number rounded up to two significant digits."""
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 1)
    return round(math.ceil(epsilon / step - 1e-9) * step, 12)
