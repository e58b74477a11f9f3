"""Lower bounds on ε from one run: of m canaries each is in by a coin of its own, and an attacker guesses which.

For each canary he says *in*, *out* or nothing. If the mechanism has the claimed privacy, too many right guesses are
unlikely, whatever the canaries do to each other; the largest ε at which they would be too unlikely is the bound.
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
"""Canaries below which even all guesses right bound nothing at 95 %: 2⁻⁵ is below 0.05, 2⁻⁴ is not."""


@dataclass(frozen=True)
class Guesses:
    """canaries: of which each was in by a fair coin. made: for how many of them there is a guess; right: how many of
    these were. Raises InvalidConfig for numbers that cannot be."""

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
    """How likely so many right guesses are at most, if the claimed ε holds at δ (Steinke, Nasr, Jagielski 2023,
    theorem 5.2)."""
    made, right = guesses.made, guesses.right
    chance = 1 / (1 + math.exp(-claimed))
    whole = float(_at_least(np.array(right), made, chance))
    if not right or not delta:
        return whole
    # From where so many are certain to the last digit, each more that is taken away only makes the fraction smaller.
    certain = math.floor(made * chance - 10 * math.sqrt(made * chance * (1 - chance)) - 10)
    fewer = np.arange(1, min(right, max(1, right - certain)) + 1)
    more = (_at_least(right - fewer, made, chance) - whole) / fewer
    return float(min(1.0, whole + 2 * guesses.canaries * delta * more.max()))


def _at_least(right: np.ndarray, made: int, chance: float) -> np.ndarray:
    """P[Binomial(made, chance) ≥ right] of each."""
    found: np.ndarray = np.where(right > 0, bdtrc(np.maximum(right - 1, 0), made, chance), 1.0)
    return found


@lru_cache(maxsize=65_536)
def epsilon_bound(guesses: Guesses, delta: float, error: float = 0.05) -> float:
    """The largest ε that these guesses rule out at that δ, with that chance to be wrong; 0 where they rule out none."""
    return largest(lambda claimed: p_value(guesses, claimed, delta) <= error)


def contradicts(guesses: Guesses, curve: TradeOff, error: float = 0.05) -> bool:
    """Whether guesses so good are less likely than ``error`` where the mechanism has that trade-off curve.

    Mahloujifar, Melis, Chaudhuri 2024 (algorithm *audit_rh_with_cap*, two choices a canary). Were they as likely as
    that, so many guesses would be right and so many wrong that more than all there are would be needed.
    """
    canaries, made, right = guesses.canaries, guesses.made, guesses.right
    good, bad = error * right / canaries, error * (made - right) / canaries
    for number in range(right - 1, -1, -1):
        more = max(bad, curve(1 - good))
        if more == bad:
            break  # neither moves again
        good = min(1.0, good + number / (made - number) * (more - bad))
        bad = more
    return good + bad > made / canaries


@lru_cache(maxsize=65_536)
def gaussian_bound(guesses: Guesses, delta: float, error: float = 0.05) -> float:
    """The ε at that δ of the largest μ whose Gaussian mechanism these guesses rule out; 0 where they rule out none.
    Holds for mechanisms whose curve is a Gaussian's; of others it says to which Gaussian's they are comparable."""
    return of_gaussians(lambda curve: contradicts(guesses, curve, error), delta)


def steps_bound(tried: Sequence[Guesses], plan: PrivacyPlan, error: float = 0.05) -> float:
    """The ε of the largest noise that these guesses rule out for the steps of a plan, whatever noise it claims; 0 where
    they rule out none. tried: numbers of guesses that were decided before anything was seen; they share the error."""
    return of_noise(plan, lambda curve: any(contradicts(guesses, curve, error / len(tried)) for guesses in tried))


def guesses_of(scores: np.ndarray, members: np.ndarray) -> list[Guesses]:
    """What an attacker has right who guesses on all canaries, on a fourth of them, on a fourth of those, and so on.

    scores: of each canary, higher for those that look trained on, float [m]. members: whether each was, bool [m]. Half
    of the guesses are the highest, *in*, half the lowest, *out*. Raises InvalidConfig for fewer than ``FEWEST``.
    """
    number = len(scores)
    if number < FEWEST:
        raise InvalidConfig(f"canaries={number:,}, expected at least {FEWEST}: fewer can bound no ε at 95 %")
    order = np.argsort(scores, kind="stable")
    outside, inside = (~members[order]).cumsum(), members[order[::-1]].cumsum()
    # Decided before anything is seen.
    tried = sorted({max(FEWEST, number >> shift) for shift in _SHIFTS})
    return [Guesses(number, made, int(inside[-(-made // 2) - 1] + outside[made // 2 - 1])) for made in tried]


def best(
    tried: Sequence[Guesses], bound: Callable[[Guesses, float, float], float], delta: float, error: float = 0.05
) -> float:
    """The best bound over some numbers of guesses, which share that chance to be wrong."""
    return max(bound(guesses, delta, error / len(tried)) for guesses in tried)
