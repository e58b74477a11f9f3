"""Bounds on ε from many independent trials: each canary is in or out, and canaries do not influence each other.

The independence must be known, as for directions with no weight in common under independent noise on each weight. An
attacker calls a canary *in* if its score is above a threshold. A mechanism is ruled out if its trade-off function does
not allow error rates as small as those observed, with confidence (Jagielski, Ullman, Oprea 2020; Nasr et al. 2023,
section 5).
"""

import numpy as np
from scipy.special import betaincinv, ndtri

from engine.privacy.audit.tradeoff_functions import TradeOff

Rates = tuple[float, float]


def errors(scores: np.ndarray, members: np.ndarray, error: float = 0.05) -> Rates:
    """Return simultaneous upper bounds on FPR and FNR with confidence 1 − error (Clopper and Pearson 1934).

    The threshold is the best one on the first half of the canaries; the bounds come from the second half.

    Args:
        scores: Scores, higher for likelier members, float [m].
        members: Whether each canary was in, bool [m].
        error: Probability that a bound fails.
    """
    half = len(scores) // 2
    threshold = _best(scores[:half], members[:half], error)
    called, inside = scores[half:] > threshold, members[half:]
    wrong = [(called & ~inside).sum(), (~called & inside).sum()]
    high, low = _most(np.array(wrong), np.array([(~inside).sum(), inside.sum()]), error / 2)
    return float(high), float(low)


def ruled_out(rates: Rates, curve: TradeOff) -> bool:
    """Return whether the mechanism with this trade-off function has larger errors, in either order of the two rates."""
    return any(high < curve(low) for low, high in (rates, rates[::-1]))


def _best(scores: np.ndarray, members: np.ndarray, error: float) -> float:
    """Return the threshold whose two bounds belong to the Gaussian mechanism with the least noise."""
    order = np.argsort(scores, kind="stable")
    missed, taken = members[order].cumsum(), (~members[order[::-1]]).cumsum()[::-1]
    false = np.concatenate([taken[1:], [0]])  # canaries after the threshold are called *in*
    high, low = (
        _most(count, np.array(number), error / 2)
        for count, number in ((false, (~members).sum()), (missed, members.sum()))
    )
    return float(scores[order][np.argmax(ndtri(1 - high) - ndtri(low))])


def _most(counts: np.ndarray, number: np.ndarray, error: float) -> np.ndarray:
    """Return for each count the largest probability at which such a small count is not less likely than ``error``."""
    left = np.maximum(number - counts, 0)
    bounds: np.ndarray = np.where(left > 0, betaincinv(counts + 1, np.maximum(left, 1), 1 - error), 1.0)
    return bounds
