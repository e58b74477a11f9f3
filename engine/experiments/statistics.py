"""Mean, standard deviation and intervals over seeds, which estimate the seed variance."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from engine.records import EntityScores, Interval, PrecisionRecallF1


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of a sample.

    Attributes:
        mean: arithmetic mean.
        sd: sample standard deviation, 0 for a single value.
        number: number of values.
    """

    mean: float
    sd: float
    number: int

    @property
    def known_sd(self) -> float | None:
        """The standard deviation; None for a single value."""
        return self.sd if self.number > 1 else None

    @property
    def text(self) -> str:
        """The mean, with its standard deviation for more than one value."""
        return f"{self.mean:.3f}" + (f" ± {self.sd:.3f}" if self.number > 1 else "")


@dataclass(frozen=True)
class ScoreSpread:
    """Precision, recall and F1 over seeds."""

    precision: Spread
    recall: Spread
    f1: Spread


def spread(values: Iterable[float]) -> Spread:
    """Return mean and standard deviation of at least one value. Raises StatisticsError without a value."""
    sample = list(values)
    mean = statistics.fmean(sample)
    # ``statistics.stdev`` computes with fractions, tens of times slower, and a page has hundreds of spreads. Because of
    # the differences from the first value, equal values have a standard deviation of exactly 0.
    differences = [value - sample[0] for value in sample]
    centre = statistics.fmean(differences)
    squares = math.fsum((difference - centre) ** 2 for difference in differences)
    return Spread(mean, math.sqrt(squares / (len(sample) - 1)) if len(sample) > 1 else 0.0, len(sample))


def score_spread(scores: Iterable[PrecisionRecallF1]) -> ScoreSpread:
    """Return mean and standard deviation of precision, recall and F1.

    The mean F1 is the mean of F1 over seeds, not computed from mean precision and recall.
    """
    sample = list(scores)
    return ScoreSpread(
        precision=spread(score.precision for score in sample),
        recall=spread(score.recall for score in sample),
        f1=spread(score.f1 for score in sample),
    )


@dataclass(frozen=True)
class PairedDifference:
    """The mean of differences paired by seed, with its 95 % CI by Student's t, which assumes a normal distribution."""

    mean: float
    interval: Interval
    number: int

    @property
    def significant(self) -> bool:
        """Whether the interval excludes zero (significant at 5 %)."""
        return self.interval.low > 0 or self.interval.high < 0


def paired_difference(differences: Sequence[float]) -> PairedDifference:
    """Return the mean of at least two differences with its 95 % CI. Raises StatisticsError for fewer."""
    return PairedDifference(statistics.fmean(differences), interval_of_mean(differences), len(differences))


def interval_of_mean(values: Sequence[float], level: float = 0.95) -> Interval:
    """Return Student's t interval of the expected value, which assumes a normal distribution.

    Raises:
        StatisticsError: for fewer than two values.
    """
    mean, reach = statistics.fmean(values), reach_of_mean(statistics.stdev(values), len(values), level)
    return Interval(mean - reach, mean + reach)


def reach_of_mean(sd: float, number: int, level: float = 0.95) -> float:
    """Return half the width of a mean's Student's t interval, which assumes a normal distribution.

    Args:
        sd: sample standard deviation.
        number: number of values, at least two.
        level: confidence level.
    """
    return _quantile(number - 1, level) * sd / math.sqrt(number)


@lru_cache(maxsize=1024)
def _quantile(freedom: int, level: float) -> float:
    from scipy.special import stdtrit  # scipy.stats has it too, but takes two seconds to import

    return float(stdtrit(freedom, (1 + level) / 2))


def mean_interval(scores: Iterable[EntityScores]) -> Interval | None:
    """Return the mean 95 % CI of F1 over test sentences, for one seed; None without an entity.

    Both ends are means over seeds. All seeds use the same test set, so more seeds do not narrow the interval.
    """
    intervals = [score.f1_interval for score in scores if score.f1_interval]
    if not intervals:
        return None
    return Interval(
        statistics.fmean(interval.low for interval in intervals),
        statistics.fmean(interval.high for interval in intervals),
    )
