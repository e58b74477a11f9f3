"""Bounds on ε from many independent trials: each canary is in or out, and canaries do not influence each other.

The independence must be known, as for directions with no weight in common under independent noise on each weight. An
attacker calls a canary *in* if its score is above a threshold. A mechanism is ruled out if its trade-off function does
not allow error rates as small as those observed, with confidence (Jagielski, Ullman, Oprea 2020; Nasr et al. 2023,
section 5).

:func:`count_ruled_out` needs fewer canaries: it counts the correct guesses on nine tenths of them. Each guess
tests the two hypotheses *in* and *out*, which a fair coin selects. Under a trade-off function f it is correct with
probability at most p = 1 − min (α + f(α)) ÷ 2 (Dong, Roth, Su 2022, section 2). If each guess depends on the output
for its own canary alone, the guesses are independent. So the number of correct ones is stochastically at most
Binomial(guesses, p). Runs with their own random streams are independent too, so the counts of several seeds add up to
one count of this kind.
"""

import numpy as np
from scipy.special import bdtrc, betaincinv, ndtri

from engine.privacy.audit.tradeoff_functions import TradeOff, most_right

Rates = tuple[float, float]
_TENTH = 10
"""One canary in this many chooses the threshold of :func:`correct`."""


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


def correct(scores: np.ndarray, members: np.ndarray) -> tuple[int, int]:
    """Return the number of correct guesses and of guesses, *in* for a score above the threshold.

    The threshold is midway between the mean scores *in* and *out* of the first tenth of the canaries; the guesses are
    on the others. So no guess depends on the score of another guessed canary. Such a threshold also suits a faulty run,
    whose scores differ from those of the plan.

    Args:
        scores: Scores, higher for likelier members, float [m].
        members: Whether each canary was in, bool [m].
    """
    first = len(scores) // _TENTH
    sides = [scores[:first][members[:first]], scores[:first][~members[:first]]]
    threshold = sum(float(side.mean()) for side in sides) / 2 if all(map(len, sides)) else 0.0
    return int(((scores[first:] > threshold) == members[first:]).sum()), len(scores) - first


def count_ruled_out(right: int, made: int, curve: TradeOff, error: float = 0.05) -> bool:
    """Return whether so many correct guesses are less likely than ``error`` under a trade-off function.

    Args:
        right: Number of correct guesses, see :func:`correct`; the sum over the seeds.
        made: Number of guesses, of all seeds together.
        curve: Trade-off function of the mechanism.
        error: Significance level.
    """
    return right > 0 and bool(bdtrc(right - 1, made, most_right(curve)) <= error)


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
