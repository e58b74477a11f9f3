"""Mean and spread over seeds. One run is one draw of chance; several say how far chance moves it."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from engine.records import EntityScores, Interval, PrecisionRecallF1


@dataclass(frozen=True)
class Spread:
    """mean: arithmetic. sd: standard deviation of a sample, 0 for a single value. number: of values."""

    mean: float
    sd: float
    number: int

    @property
    def known_sd(self) -> float | None:
        """The standard deviation where there is one: a single value says nothing of its spread."""
        return self.sd if self.number > 1 else None

    @property
    def text(self) -> str:
        """The mean with its spread, if there is one."""
        return f"{self.mean:.3f}" + (f" ± {self.sd:.3f}" if self.number > 1 else "")


@dataclass(frozen=True)
class ScoreSpread:
    """Precision, recall and F1 over seeds."""

    precision: Spread
    recall: Spread
    f1: Spread


def spread(values: Iterable[float]) -> Spread:
    """Mean and standard deviation of at least one value. Raises StatisticsError where there is none."""
    found = list(values)
    return Spread(statistics.fmean(found), statistics.stdev(found) if len(found) > 1 else 0.0, len(found))


def score_spread(scores: Iterable[PrecisionRecallF1]) -> ScoreSpread:
    """The same for each of the three. F1 is averaged itself, not computed from mean precision and recall."""
    found = list(scores)
    return ScoreSpread(
        precision=spread(each.precision for each in found),
        recall=spread(each.recall for each in found),
        f1=spread(each.f1 for each in found),
    )


@dataclass(frozen=True)
class PairedDifference:
    """The mean of differences seed by seed, and its 95 % interval by Student's t, which takes them for normal."""

    mean: float
    interval: Interval
    number: int

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.interval.low > 0 or self.interval.high < 0


def paired_difference(differences: Sequence[float]) -> PairedDifference:
    """Of at least two differences. Raises StatisticsError where there are fewer."""
    return PairedDifference(statistics.fmean(differences), interval_of_mean(differences), len(differences))


def interval_of_mean(values: Sequence[float], level: float = 0.95) -> Interval:
    """Of the value that is expected, by Student's t, which takes the values for normal. Raises StatisticsError where
    there are fewer than two."""
    mean, reach = statistics.fmean(values), reach_of_mean(statistics.stdev(values), len(values), level)
    return Interval(mean - reach, mean + reach)


def reach_of_mean(sd: float, number: int, level: float = 0.95) -> float:
    """Half the width of a mean's interval by Student's t, which takes the values for normal. sd: of a sample of so many
    values, at least two. level: chance that such intervals hold the expected value."""
    return _quantile(number - 1, level) * sd / math.sqrt(number)


@lru_cache(maxsize=1024)
def _quantile(freedom: int, level: float) -> float:
    from scipy.special import stdtrit  # scipy.stats has it too, and takes two seconds to import

    return float(stdtrit(freedom, (1 + level) / 2))


def mean_interval(scores: Iterable[EntityScores]) -> Interval | None:
    """The usual interval of F1 of one such tagger, were other sentences tested: the means of both ends. All seeds are
    tested on the same sentences, so more seeds do not make it narrower. None where nothing was named."""
    found = [each.f1_interval for each in scores if each.f1_interval]
    if not found:
        return None
    return Interval(statistics.fmean(each.low for each in found), statistics.fmean(each.high for each in found))
