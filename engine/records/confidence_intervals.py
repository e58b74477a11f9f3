"""Confidence interval of F1 over the sampling of test sentences, from sums over the sentences.

F1 = 2·Σc ÷ Σe is a ratio of two sums over sentences. c is the number of correct entities of a sentence. e counts its
entities, predicted and gold, so that a correct entity counts twice. Sentences, not entities, are the sampling units,
and errors within a sentence are correlated: a wrong boundary is both a false positive and a false negative.

The variance is therefore that of a ratio of clusters: n ÷ (n − 1) · Σ (2c − F1·e)² ÷ (Σe)² (Cochran, Sampling
Techniques, 3rd ed. 1977, eq. 6.13). It gives the effective number of independent entities, F1·(1 − F1) ÷ variance.
Wilson's interval (1927) for this number stays within 0 and 1.

The bootstrap over sentences gives the same width within a few per cent. But if every entity is correct it gives [1, 1],
for 20 sentences as for 20,000. In that case the number of sentences counts here.
"""

import math
from dataclasses import astuple, dataclass
from typing import NamedTuple

Z = 1.959963984540054
"""The 97.5 % quantile of the normal distribution, for 95 % confidence intervals."""


class Interval(NamedTuple):
    """An interval from low to high, both from 0 to 1."""

    low: float
    high: float

    @property
    def text(self) -> str:
        """Both ends with two digits, enough to compare with an F1 of two or three digits."""
        return f"{self.low:.2f}\u2013{self.high:.2f}"


@dataclass(frozen=True)
class SentenceSums:
    """Sums over scored sentences: their number, and the sums of c², c·e and e² (see the module)."""

    number: int
    right_right: int
    right_named: int
    named_named: int

    def __add__(self, other: "SentenceSums") -> "SentenceSums":
        """Return the sums over both sets of sentences."""
        return SentenceSums(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def f1_interval(right: int, named: int, sums: SentenceSums | None) -> Interval | None:
    """Return the 95 % confidence interval of a micro F1, or None without any entity.

    Args:
        right: Σc, the number of correct entities.
        named: Σe, the number of predicted plus gold entities.
        sums: Sums over the sentences, or None in records without them. Then (predicted + gold) ÷ 2 entities count as
            independent, which makes the interval up to a sixth too narrow (CoNLL-2003).
    """
    if not named:
        return None
    f1, effective = 2 * right / named, named / 2
    if sums is not None:
        effective = _effective_number(f1, named, sums) or max(1.0, min(effective, sums.number))
    middle, square = f1 + Z * Z / (2 * effective), Z * Z / effective
    half = Z * math.sqrt(f1 * (1 - f1) / effective + square / (4 * effective))
    return Interval(max(0.0, (middle - half) / (1 + square)), min(1.0, (middle + half) / (1 + square)))


def _effective_number(f1: float, named: int, sums: SentenceSums) -> float:
    """Return the effective number of independent entities, or 0 if the sentences do not differ."""
    squares = 4 * sums.right_right - 4 * f1 * sums.right_named + f1 * f1 * sums.named_named
    if sums.number < 2 or squares <= 1e-9 * sums.named_named:
        return 0.0
    variance = sums.number / (sums.number - 1) * squares / named**2
    return f1 * (1 - f1) / variance
