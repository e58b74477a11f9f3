"""Lower bounds on ε from one run: each of m canaries is in by an independent coin flip, and an attacker guesses which.

The attacker says *in*, *out* or nothing for each canary. If the mechanism has the claimed privacy, too many correct
guesses are unlikely, even if the canaries influence each other. The bound is the largest ε at which they would be too
unlikely.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import bdtrc

from engine.errors import InvalidConfig
from engine.privacy.audit.bound_inversion import largest, of_gaussians, of_noise
from engine.privacy.audit.tradeoff_functions import TradeOff
from engine.privacy.plan import PrivacyPlan

_SHIFTS = (0, 2, 4, 6, 8)
FEWEST = 5
"""Smallest useful number of canaries: fewer bound nothing at 95 %, even if all guesses are right, since 2⁻⁵ < 0.05 <
2⁻⁴.
"""


@dataclass(frozen=True)
class Guesses:
    """The guesses of an attacker. Raises InvalidConfig for inconsistent numbers.

    Attributes:
        canaries: Number of canaries, each in by a fair coin flip.
        made: Number of guesses.
        right: Number of correct guesses.
    """

    canaries: int
    made: int
    right: int

    def __post_init__(self) -> None:
        if not 0 <= self.right <= self.made <= self.canaries:
            raise InvalidConfig(
                f"right={self.right:,} of made={self.made:,} guesses on canaries={self.canaries:,}, expected each at "
                "most the next"
            )


def p_value(guesses: Guesses, claimed: float, delta: float) -> float:
    """Return the largest probability of so many correct guesses if the claimed ε holds at δ.

    This is theorem 5.2 of Steinke, Nasr, Jagielski 2023.

    Args:
        guesses: Guesses of the attacker.
        claimed: Claimed ε.
        delta: δ.
    """
    made, right = guesses.made, guesses.right
    chance = 1 / (1 + math.exp(-claimed))
    whole = float(_at_least(np.array(right), made, chance))
    if not right or not delta:
        return whole
    # Below this count the probability is 1 to the last digit, so a further decrease only makes the fraction smaller.
    certain = math.floor(made * chance - 10 * math.sqrt(made * chance * (1 - chance)) - 10)
    fewer = np.arange(1, min(right, max(1, right - certain)) + 1)
    more = (_at_least(right - fewer, made, chance) - whole) / fewer
    return float(min(1.0, whole + 2 * guesses.canaries * delta * more.max()))


def _at_least(right: np.ndarray, made: int, chance: float) -> np.ndarray:
    """Return P[Binomial(made, chance) ≥ right] for each value of ``right``."""
    tails: np.ndarray = np.where(right > 0, bdtrc(np.maximum(right - 1, 0), made, chance), 1.0)
    return tails


@lru_cache(maxsize=65_536)
def epsilon_bound(guesses: Guesses, delta: float, error: float = 0.05) -> float:
    """Return the largest ε at δ that these guesses rule out; 0 if they rule out none.

    Args:
        guesses: Guesses of the attacker.
        delta: δ.
        error: Probability that the bound is wrong.
    """
    return largest(lambda claimed: p_value(guesses, claimed, delta) <= error)


def contradicts(guesses: Guesses, curve: TradeOff, error: float = 0.05) -> bool:
    """Return whether guesses this good are less likely than ``error`` under a trade-off function.

    This is Mahloujifar, Melis, Chaudhuri 2024 (algorithm *audit_rh_with_cap*, two choices a canary). If they were that
    likely, the correct and the wrong guesses together would exceed the number of guesses.

    Args:
        guesses: Guesses of the attacker.
        curve: Trade-off function of the mechanism.
        error: Significance level.
    """
    canaries, made, right = guesses.canaries, guesses.made, guesses.right
    good, bad = error * right / canaries, error * (made - right) / canaries
    for number in range(right - 1, -1, -1):
        more = max(bad, curve(1 - good))
        if more == bad:
            break  # a fixed point
        good = min(1.0, good + number / (made - number) * (more - bad))
        bad = more
    return good + bad > made / canaries


@lru_cache(maxsize=65_536)
def gaussian_bound(guesses: Guesses, delta: float, error: float = 0.05) -> float:
    """Return ε at δ of the largest μ whose Gaussian mechanism these guesses rule out; 0 if they rule out none.

    The bound is valid for mechanisms with a Gaussian trade-off function. For others it gives a comparable Gaussian
    mechanism.

    Args:
        guesses: Guesses of the attacker.
        delta: δ.
        error: Probability that the bound is wrong.
    """
    return of_gaussians(lambda curve: contradicts(guesses, curve, error), delta)


def steps_bound(tried: Sequence[Guesses], plan: PrivacyPlan, error: float = 0.05) -> float:
    """Return ε of the plan's steps with the most noise that these guesses rule out, whatever noise the plan claims.

    Args:
        tried: Guesses whose numbers were fixed before the observation; they share the error.
        plan: Plan of the steps.
        error: Probability that the bound is wrong.

    Returns:
        ε at the plan's δ; 0 if no noise is ruled out.
    """
    return of_noise(plan, lambda curve: any(contradicts(guesses, curve, error / len(tried)) for guesses in tried))


def guesses_of(scores: np.ndarray, members: np.ndarray) -> list[Guesses]:
    """Return the guesses on all canaries, on a fourth of them, on a fourth of those, and so on.

    Half of the guesses, at the highest scores, are *in*; half, at the lowest scores, are *out*.

    Args:
        scores: Score of each canary, higher for likelier members, float [m].
        members: Whether each canary was in, bool [m].

    Raises:
        InvalidConfig: For fewer than ``FEWEST`` canaries.
    """
    number = len(scores)
    if number < FEWEST:
        raise InvalidConfig(f"canaries={number:,}, expected at least {FEWEST}: fewer cannot bound ε at 95 %")
    order = np.argsort(scores, kind="stable")
    outside, inside = (~members[order]).cumsum(), members[order[::-1]].cumsum()
    # Fixed before the observation.
    tried = sorted({max(FEWEST, number >> shift) for shift in _SHIFTS})
    return [Guesses(number, made, int(inside[-(-made // 2) - 1] + outside[made // 2 - 1])) for made in tried]


def best(
    tried: Sequence[Guesses], bound: Callable[[Guesses, float, float], float], delta: float, error: float = 0.05
) -> float:
    """Return the best bound over several numbers of guesses, which share the error.

    Args:
        tried: Guesses.
        bound: Function of guesses, δ and error to a bound on ε.
        delta: δ.
        error: Probability that the bound is wrong.
    """
    return max(bound(guesses, delta, error / len(tried)) for guesses in tried)
