"""Critical values of the noise check: bounds that a correct run exceeds with a known small probability.

One false-alarm probability, ``FALSE_ALARM``, is for a whole run. It is split evenly among the checks of the run
(several clients may have one each), then among the ``FAMILIES`` of tests of a check, and within a family among all its
tests in the run: each step, or each evaluation and each weight (union bound). The distributions are exact, or bounds
that hold for every sample size, so no test needs a large sample:

* sums of squares of standard normal draws: χ²;
* a sum of standard normal draws, or of draws that are no wider: 2·exp(−z²/2) (Hoeffding 1963 for martingales);
* the distance of an empirical distribution from its own distribution: Massart 1990 ("The tight constant in the
  Dvoretzky–Kiefer–Wolfowitz inequality"), P(sup|F_n − F| > x) ≤ 2·exp(−2nx²);
* counts: the probability integral transform of a binomial count, with a uniform draw where it is discrete (Brockwell
  2007), is exactly uniform, and its normal score exactly normal.

Bounds allow for rounding where it may matter: sums of squares by the triangle inequality, distributions by the largest
move of a value. In comparisons with directions, rounding counts as random: if it is a small share of the noise, the
last digits of the noise make it independent of everything before.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import cython_special, gammainccinv, gammaincinv, ndtri
from scipy.stats import binom

FALSE_ALARM = 1e-6
"""Largest probability that a correct run ever fails its check."""
FAMILIES = 16
"""Number of test families, which share ``FALSE_ALARM``. Each family with its number of tests in a run, the argument of
:func:`share`:

1. variance of a step's noise: steps;
2. its component along the sum to which it was added: steps × directions of a step;
3. fingerprints of keys: two of 10⁶ keys have the same with probability 5e-8;
4. variance of the steps' variances: evaluations (twice as many in :func:`share`);
5. to 8. variance over all weights, of each layer, of each 256 weights, of each weight: evaluations × number of these;
9. distribution in each layer: evaluations × layers;
10. sum of the components along the sums, 11. of their squares: evaluations × 2, for ranges and for all weights;
12. none since noise is compared with the draws of its keys: its share keeps the other bounds of recorded runs;
13. sum of the sample sizes' scores, 14. of their squares: evaluations (twice as many);
15. number of draws beyond 2.5, 3.5 and 4.5 standard deviations: evaluations × limits;
16. number of samples that contain each sentence, by the largest score and the sum of squares: evaluations × sentences,
    and evaluations, each with half the share.

Norms of contributions, gaps between sums, and comparisons of noise, samples and settings are deterministic and take no
share.
"""
VERDICTS = 64
"""Most evaluations of a run: one for each of its records, and a few more. Clients of a real federation evaluate each
round, which may be more (:attr:`engine.privacy.noise_check.schedule.Watch.verdicts`)."""
_EXACT = 1e7
"""Largest half of a number of draws for which the lower quantile is computed directly."""


def share(asked: int) -> float:
    """Return the false-alarm probability of each of ``asked`` tests of one family."""
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
    # Runs at each step: for one number, the functions for Cython take a fifth of the time.
    if square < draws:  # the smaller side keeps its digits
        return float(cython_special.ndtri(max(cython_special.gammainc(draws / 2, square / 2), 1e-300)))
    return -float(cython_special.ndtri(max(cython_special.gammaincc(draws / 2, square / 2), 1e-300)))


def count_bounds(draws: int, probability: float, chance: float) -> tuple[float, float]:
    """Return the interval that holds a binomial count except with probability ``chance``.

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
    bound: np.ndarray = np.sqrt(2 * np.asarray(draws, dtype=np.float64) * math.log(2 / chance))
    return bound


def distance_bound(draws: np.ndarray | float, chance: float) -> np.ndarray:
    """Return the same bound for the largest distance between an empirical distribution and its own distribution."""
    bound: np.ndarray = np.sqrt(math.log(2 / chance) / (2 * np.maximum(1.0, np.asarray(draws, dtype=np.float64))))
    return bound


def normal_scores(counts: np.ndarray, uniform: np.ndarray, number: int, probability: float) -> np.ndarray:
    """Return binomial counts as standard normal values, float64 [n].

    Args:
        counts: Draws of Binomial(number, probability), [n].
        uniform: Draws from [0, 1), [n].
        number: Number of trials of the binomial distribution.
        probability: Success probability of the binomial distribution.
    """
    first, probs = _distribution(number, probability)
    indices = counts - first
    inside = (indices >= 0) & (indices < probs.shape[1])
    equal, below, above = probs[:, np.where(inside, indices, 0)]
    low, high = below + uniform * equal, above + (1 - uniform) * equal
    scores = np.where(low < 0.5, ndtri(np.maximum(low, 1e-300)), -ndtri(np.maximum(high, 1e-300)))
    return np.asarray(np.where(inside, scores, np.copysign(40.0, indices)))


def normal_score(count: int, uniform: float, number: int, probability: float) -> float:
    """Return one value of :func:`normal_scores`, faster.

    Args:
        count: Draw of Binomial(number, probability).
        uniform: Draw from [0, 1).
        number: Number of trials of the binomial distribution.
        probability: Success probability of the binomial distribution.
    """
    first, probs = _distribution(number, probability)
    if not 0 <= count - first < probs.shape[1]:
        return math.copysign(40.0, count - first)
    equal, below, above = probs[:, count - first].tolist()
    low, high = below + uniform * equal, above + (1 - uniform) * equal
    if low < 0.5:
        return float(cython_special.ndtri(max(low, 1e-300)))
    return -float(cython_special.ndtri(max(high, 1e-300)))


@lru_cache(maxsize=256)
def _distribution(number: int, probability: float) -> tuple[int, np.ndarray]:
    """Return the first relevant count, and P(= k), P(< k), P(> k) of each count from there on, float64 [3, counts]."""
    mean, reach = number * probability, 40 * math.sqrt(number * probability * (1 - probability)) + 40
    first = max(0, math.floor(mean - reach))
    counts = np.arange(first, min(number, math.ceil(mean + reach)) + 1)
    probs = (
        binom.pmf(counts, number, probability),
        binom.cdf(counts - 1, number, probability),
        binom.sf(counts, number, probability),
    )
    return first, np.stack(probs)
