"""How far chance may move what the noise check measures: bounds that an honest run crosses with a known small chance.

One budget, ``FALSE_ALARM``, is for a whole run. It is split evenly among its checks, where several parties have one
each, then among the ``FAMILIES`` of questions that a check asks, and within a family among everything that it asks in
the run: each step, or each verdict and each weight (union bound). The distributions are exact, or bounds that hold for
every sample size, so nothing rests on "large enough":

* sums of squares of standard normal draws: χ²;
* a sum of standard normal draws, or of draws that are no wider: 2·exp(−z²/2) (Hoeffding 1963 for martingales). What a
  draw is held against may follow from all draws before it. A cosine in k dimensions is no wider than N(0, 1/k): term by
  term, its moment generating function is below exp(t²/2k);
* the cosine of a fixed and a uniformly random direction: its square has a Beta(½, (k − 1)/2) distribution;
* an empirical distribution against its own: Massart 1990 ("The tight constant in the Dvoretzky–Kiefer–Wolfowitz
  inequality"), P(sup|F_n − F| > x) ≤ 2·exp(−2nx²);
* counts: the probability integral transform of a binomial count, with a uniform draw where it is discrete (Brockwell
  2007), is exactly uniform, and its normal score exactly normal.

Rounding is let in where it may matter: sums of squares by the triangle inequality, distributions by how far it may move
a value. In what is compared to directions it counts as chance: where it is a small share of the noise, the noise's own
last digits make it independent of all that came before.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import betaincinv, cython_special, gammainccinv, gammaincinv, ndtri
from scipy.stats import binom

FALSE_ALARM = 1e-6
"""Largest probability that a correct run ever fails its check."""
FAMILIES = 16
"""Questions that share the budget, and what :func:`share` is told is asked of each in a run:

1. the spread of a step's noise: steps;
2. its component along what it was added to: steps × directions of a step;
3. its cosine with earlier noise: steps × those kept;
4. how the spreads of the steps spread: verdicts (asked for with twice as many);
5. to 8. the spread over all, of each layer, of each 256 weights, of each weight: verdicts × how many there are;
9. the distribution in each layer: verdicts × layers;
10. the sum of the components along the sums, 11. of their squares: verdicts × 2, of stretches and of all weights;
12. cosines by how far steps lie apart, and with the mean: verdicts × lags, and verdicts, each with half of it;
13. the sum of the sample sizes' scores, 14. of their squares: verdicts (twice as many);
15. how many draws lie far out: verdicts;
16. how often each sentence came, the largest score and the sum of squares: verdicts × sentences, and verdicts, each
    with half of it.

Lengths of contributions and gaps between sums are not left to chance and take no part of it.
"""
VERDICTS = 64
"""Most verdicts of a run: its records, and a few more. Clients of a real federation ask each round, which may be more
(:attr:`engine.privacy.noise_check.schedule.Watch.verdicts`)."""
_EXACT = 1e7
"""Largest half number of draws with an exact lower quantile."""


def share(asked: int) -> float:
    """Return the part of the false-alarm budget for each of ``asked`` questions of one family."""
    return FALSE_ALARM / FAMILIES / max(1, asked)


def square_bounds(draws: np.ndarray | float, chance: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval that holds the sum of squared standard normal draws except with probability ``chance``.

    Half of the probability is on each side.

    Args:
        draws: Number of draws.
        chance: Probability outside the interval.
    """
    half = np.asarray(draws, dtype=np.float64) / 2
    high = 2 * gammainccinv(half, chance / 2)
    # SciPy 1.17's lower quantile loses its digits from 10⁸ draws on. It is nearer to the mean than the upper one.
    return np.where(half > _EXACT, 4 * half - high, 2 * gammaincinv(half, chance / 2)), high


def square_score(square: float, draws: int) -> float:
    """Return the sum of ``draws`` squared standard normal draws as one standard normal value."""
    # At each step: of one number, the functions for Cython take a fifth of the time.
    if square < draws:  # the smaller side keeps its digits
        return float(cython_special.ndtri(max(cython_special.gammainc(draws / 2, square / 2), 1e-300)))
    return -float(cython_special.ndtri(max(cython_special.gammaincc(draws / 2, square / 2), 1e-300)))


def count_bounds(draws: int, probability: float, chance: float) -> tuple[float, float]:
    """Return the same interval for a binomial count.

    Args:
        draws: Number of independent draws.
        probability: Probability of a success in each draw.
        chance: Probability outside the interval.
    """
    return float(binom.ppf(chance / 2, draws, probability)) - 1, float(binom.isf(chance / 2, draws, probability)) + 1


@lru_cache(maxsize=256)
def normal_bound(chance: float) -> float:
    """Return the absolute value that a standard normal draw exceeds with probability ``chance``."""
    return float(-ndtri(chance / 2))


def sum_bound(draws: np.ndarray | float, chance: float) -> np.ndarray | float:
    """Return the same bound for a sum of draws that, given earlier draws, are no wider than standard normal ones."""
    found: np.ndarray = np.sqrt(2 * np.asarray(draws, dtype=np.float64) * math.log(2 / chance))
    return found


@lru_cache(maxsize=256)
def cosine_bound(dimensions: int, chance: float) -> float:
    """Return the same bound for the absolute cosine of a fixed and a uniformly random direction."""
    return math.sqrt(1 - float(betaincinv((dimensions - 1) / 2, 0.5, chance)))


def distance_bound(draws: np.ndarray | float, chance: float) -> np.ndarray:
    """Return the same bound for the largest distance between an empirical distribution and its own distribution."""
    found: np.ndarray = np.sqrt(math.log(2 / chance) / (2 * np.maximum(1.0, np.asarray(draws, dtype=np.float64))))
    return found


def normal_scores(counts: np.ndarray, uniform: np.ndarray, number: int, probability: float) -> np.ndarray:
    """Return binomial counts as standard normal values, float64 [n].

    Args:
        counts: Draws of Binomial(number, probability), [n].
        uniform: Draws from [0, 1), [n].
        number: Number of trials of the binomial distribution.
        probability: Success probability of the binomial distribution.
    """
    first, chances = _distribution(number, probability)
    places = counts - first
    inside = (places >= 0) & (places < chances.shape[1])
    here, below, above = chances[:, np.where(inside, places, 0)]
    low, high = below + uniform * here, above + (1 - uniform) * here
    scores = np.where(low < 0.5, ndtri(np.maximum(low, 1e-300)), -ndtri(np.maximum(high, 1e-300)))
    return np.where(inside, scores, np.copysign(40.0, places))


def normal_score(count: int, uniform: float, number: int, probability: float) -> float:
    """Return one value of :func:`normal_scores`, faster.

    Args:
        count: Draw of Binomial(number, probability).
        uniform: Draw from [0, 1).
        number: Number of trials of the binomial distribution.
        probability: Success probability of the binomial distribution.
    """
    first, chances = _distribution(number, probability)
    if not 0 <= count - first < chances.shape[1]:
        return math.copysign(40.0, count - first)
    here, below, above = chances[:, count - first].tolist()
    low, high = below + uniform * here, above + (1 - uniform) * here
    if low < 0.5:
        return float(cython_special.ndtri(max(low, 1e-300)))
    return -float(cython_special.ndtri(max(high, 1e-300)))


@lru_cache(maxsize=256)
def _distribution(number: int, probability: float) -> tuple[int, np.ndarray]:
    """Return the first relevant count, and P(= k), P(< k), P(> k) of each count from there on, float64 [3, counts]."""
    mean, reach = number * probability, 40 * math.sqrt(number * probability * (1 - probability)) + 40
    first = max(0, math.floor(mean - reach))
    counts = np.arange(first, min(number, math.ceil(mean + reach)) + 1)
    chances = (
        binom.pmf(counts, number, probability),
        binom.cdf(counts - 1, number, probability),
        binom.sf(counts, number, probability),
    )
    return first, np.stack(chances)
