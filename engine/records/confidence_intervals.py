"""How far F1 could lie elsewhere had other sentences been tested: an interval from sums over the sentences.

F1 = 2·Σc ÷ Σe is a ratio of two sums over sentences: c of a sentence's names are right, e are named in it (predicted
and gold; what is both counts twice). Sentences, not names, are drawn by chance, and what is wrong in one hangs
together: a boundary in the wrong place is a wrong name and a missed one. So the variance is that of a ratio of clusters
(Cochran, Sampling Techniques, 3rd ed. 1977, eq. 6.13; n ÷ (n − 1) · Σ (2c − F1·e)² ÷ (Σe)²), and it tells how many
independent names the sentences are worth, F1·(1 − F1) ÷ variance. For so many Wilson's interval (1927) is taken, which
stays within 0 and 1. The bootstrap over sentences gives the same width within a few per cent; but where every name is
right it gives [1, 1], whether there were 20 sentences or 20,000. Here the number of sentences then counts.
"""

import math
from dataclasses import astuple, dataclass
from typing import NamedTuple

Z = 1.959963984540054
"""The normal distribution's 97.5 % quantile: intervals hold 95 %."""


class Interval(NamedTuple):
    """From low to high, both from 0 to 1."""

    low: float
    high: float

    @property
    def text(self) -> str:
        """Both ends with two digits, as a reader compares them with an F1 of two or three."""
        return f"{self.low:.2f}\u2013{self.high:.2f}"


@dataclass(frozen=True)
class SentenceSums:
    """Sums over scored sentences: their number, and the sums of c², c·e and e² (see the module)."""

    number: int
    right_right: int
    right_named: int
    named_named: int

    def __add__(self, other: "SentenceSums") -> "SentenceSums":
        """Of both sets of sentences together."""
        return SentenceSums(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def f1_interval(right: int, named: int, sums: SentenceSums | None) -> Interval | None:
    """Interval of 95 % of a micro F1, None where nothing is named at all.

    right: Σc. named: Σe. sums: None in records that did not keep any; (predicted + gold) ÷ 2 names are then taken for
    independent, which makes the interval up to a sixth too narrow (CoNLL-2003).
    """
    if not named:
        return None
    f1, worth = 2 * right / named, named / 2
    if sums is not None:
        worth = _worth(f1, named, sums) or max(1.0, min(worth, sums.number))
    middle, square = f1 + Z * Z / (2 * worth), Z * Z / worth
    half = Z * math.sqrt(f1 * (1 - f1) / worth + square / (4 * worth))
    return Interval(max(0.0, (middle - half) / (1 + square)), min(1.0, (middle + half) / (1 + square)))


def _worth(f1: float, named: int, sums: SentenceSums) -> float:
    """How many independent names the sentences are worth; 0 where they do not differ and nothing can be said."""
    squares = 4 * sums.right_right - 4 * f1 * sums.right_named + f1 * f1 * sums.named_named
    if sums.number < 2 or squares <= 1e-9 * sums.named_named:
        return 0.0
    variance = sums.number / (sums.number - 1) * squares / named**2
    return f1 * (1 - f1) / variance
