"""Bounds on ε from many independent trials: each canary is in or out, and what one does tells nothing of another.

That has to be known of the canaries, as of directions with no weight in common under noise of its own on each weight.
Then the errors of whoever calls *in* what scores above a threshold are counted, and a mechanism whose trade-off curve
allows no errors so few, with confidence, is ruled out (Jagielski, Ullman, Oprea 2020; Nasr et al. 2023, section 5).
"""

import numpy as np
from scipy.special import betaincinv, ndtri

from engine.privacy.audit.tradeoff_functions import TradeOff

Rates = tuple[float, float]


def errors(scores: np.ndarray, members: np.ndarray, error: float = 0.05) -> Rates:
    """Upper bounds on the false positive and the false negative rate, both at once with confidence 1 − error, at the
    threshold that looked best on the first half of the canaries: on the second (Clopper and Pearson 1934).

    scores: higher for those that look trained on, float [m]; members: bool [m].
    """
    half = len(scores) // 2
    threshold = _best(scores[:half], members[:half], error)
    called, inside = scores[half:] > threshold, members[half:]
    wrong = [(called & ~inside).sum(), (~called & inside).sum()]
    high, low = _most(np.array(wrong), np.array([(~inside).sum(), inside.sum()]), error / 2)
    return float(high), float(low)


def ruled_out(rates: Rates, curve: TradeOff) -> bool:
    """Whether a mechanism with that curve has more errors than these, whichever of the two rates is which."""
    return any(high < curve(low) for low, high in (rates, rates[::-1]))


def _best(scores: np.ndarray, members: np.ndarray, error: float) -> float:
    """The threshold at which the two bounds are those of the Gaussian mechanism with the least noise."""
    order = np.argsort(scores, kind="stable")
    missed, taken = members[order].cumsum(), (~members[order[::-1]]).cumsum()[::-1]
    false = np.concatenate([taken[1:], [0]])  # called *in* is what comes after
    high, low = (
        _most(count, np.array(number), error / 2)
        for count, number in ((false, (~members).sum()), (missed, members.sum()))
    )
    return float(scores[order][np.argmax(ndtri(1 - high) - ndtri(low))])


def _most(counts: np.ndarray, number: np.ndarray, error: float) -> np.ndarray:
    """Of each the largest chance under which so few of so many are not less likely than ``error``."""
    left = np.maximum(number - counts, 0)
    found: np.ndarray = np.where(left > 0, betaincinv(counts + 1, np.maximum(left, 1), 1 - error), 1.0)
    return found
