"""Membership inference: from how well a model knows a sentence, whether it was trained on it.

Models of the same making, each trained on a half of the sentences of its own, tell what to expect of a sentence with
and without it. What is compared is φ = log(p ÷ (1 − p)), where p is the probability that a model gives to a sentence's
true tags (Carlini et al. 2022, section VI-A).

phi: float64 [models, sentences]; inside: which model was trained on which sentence, bool, of the same shape. A score is
higher for what looks trained on; scores are of one model, ``target``, with the others as references.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, digamma, logsumexp, polygamma
from scipy.stats import norm, t

Attack = Callable[[np.ndarray, np.ndarray, int], np.ndarray]
_LEAST_LOSS = 1e-12
"""Below that a model is as sure as a number can say."""
_SAME = 1e6
"""Degrees of freedom from which on all sentences have one variance."""


def phi_of(losses: np.ndarray) -> np.ndarray:
    """φ of sentences with these losses, −log p."""
    kept = np.maximum(losses, _LEAST_LOSS)
    return np.asarray(-(kept + np.log(-np.expm1(-kept))))


def loss_threshold(phi: np.ndarray, inside: np.ndarray, target: int) -> np.ndarray:
    """The model's own opinion alone, [sentences] (Yeom et al. 2018, section III)."""
    return np.asarray(phi[target])


def lira(phi: np.ndarray, inside: np.ndarray, target: int) -> np.ndarray:
    """How much likelier φ is with the sentence than without, by two normal distributions a sentence, whose variances
    all sentences have in common, as for few references (Carlini et al. 2022, algorithm 1 and section VI-D). Where no
    reference was trained on any, how far φ stands above what it is without (section VI-C)."""
    groups = _groups(phi, inside, target)
    if not groups[0].count.any():
        return np.asarray(phi[target] - groups[1].mean)
    logs = [
        norm.logpdf(phi[target], group.mean, np.sqrt(max(group.squares.sum() / max(group.freedom.sum(), 1), 1e-12)))
        for group in groups
    ]
    return np.asarray(logs[0] - logs[1])


def rmia(phi: np.ndarray, inside: np.ndarray, target: int) -> np.ndarray:
    """How much more probable the model finds the sentence than models do on average, trained on it or not: log ratio
    (Zarifzadeh et al. 2024, equation 4). They count the share of other sentences whose ratio is smaller, which puts
    sentences into the same order."""
    every = -np.logaddexp(0.0, -phi)  # log p
    others = np.arange(len(phi)) != target
    average = np.full((2, phi.shape[1]), -np.inf)
    for row, there in enumerate((inside[others], ~inside[others])):
        counts = there.sum(0)
        known = counts > 0
        masked = np.where(there[:, known], every[others][:, known], -np.inf)
        average[row, known] = logsumexp(masked, axis=0) - np.log(counts[known])
    seen = np.isfinite(average).sum(0)
    return np.asarray(every[target] - (logsumexp(average, axis=0) - np.log(np.maximum(seen, 1))))


def bayes(phi: np.ndarray, inside: np.ndarray, target: int) -> np.ndarray:
    """The likelihood ratio of :func:`lira` with what few references leave unsure: means and variances of each sentence
    have a conjugate normal-inverse-gamma prior, and φ a Student t distribution (as in Brännvall 2026, *BaVarIA*).

    The priors are fitted to all sentences: variances by the moments of their logarithms (Smyth 2004, section 6.2), and
    the gap between *in* and *out* by its variance over sentences. Where no reference was trained on a sentence, its
    gap is the prior's; where none has a gap, the score is how far φ stands above what it is without the sentence.
    """
    there, out = _groups(phi, inside, target)
    both = (there.count > 0) & (out.count > 0)
    variances = [_prior_of_variance(group) for group in (there, out)]
    if not both.any():
        freedom, scale = variances[1]
        spread = (freedom * scale + out.squares) / (freedom + out.freedom) * (1 + 1 / np.maximum(out.count, 1))
        return np.asarray((phi[target] - out.mean) / np.sqrt(spread))
    gaps = (there.mean - out.mean)[both]
    noise = np.mean(variances[0][1] / there.count[both] + variances[1][1] / out.count[both])
    gap, spread = float(gaps.mean()), max(float(gaps.var() - noise), 1e-3 * float(noise))
    logs = []
    for group, other, sign, (freedom, scale) in ((there, out, 1, variances[0]), (out, there, -1, variances[1])):
        weight = scale / spread
        prior = np.where(other.count > 0, other.mean + sign * gap, group.mean)
        mean = np.where(group.count > 0, group.mean, prior)
        certain = weight + group.count
        apart = weight * group.count / certain * (mean - prior) ** 2
        variance = (freedom * scale + group.squares + apart) / (freedom + group.count)
        place = (weight * prior + group.count * mean) / certain
        logs.append(t.logpdf(phi[target], freedom + group.count, place, np.sqrt(variance * (1 + 1 / certain))))
    return np.asarray(logs[0] - logs[1])


ATTACKS: dict[str, Attack] = {"loss": loss_threshold, "LiRA": lira, "RMIA": rmia, "Bayes": bayes}
"""By their names, the simplest first."""


@dataclass(frozen=True)
class _Group:
    """Of the references trained on a sentence, or of the others: how many, their mean φ, and the sum of squared
    distances from it, each [sentences]."""

    count: np.ndarray
    mean: np.ndarray
    squares: np.ndarray

    @property
    def freedom(self) -> np.ndarray:
        return np.maximum(self.count - 1, 0)


def _groups(phi: np.ndarray, inside: np.ndarray, target: int) -> tuple[_Group, _Group]:
    others = np.arange(len(phi)) != target
    known, found = phi[others], []
    for there in (inside[others], ~inside[others]):
        count = there.sum(0)
        mean = np.where(there, known, 0.0).sum(0) / np.maximum(count, 1)
        found.append(_Group(count, mean, np.where(there, (known - mean) ** 2, 0.0).sum(0)))
    return found[0], found[1]


def _prior_of_variance(group: _Group) -> tuple[float, float]:
    """Degrees of freedom d₀ and scale s₀² of a scaled inverse χ² distribution of variances."""
    enough = (group.freedom > 0) & (group.squares > 0)
    if enough.sum() < 2:
        return _SAME, 1.0
    freedom = group.freedom[enough]
    logs = np.log(group.squares[enough] / freedom) - digamma(freedom / 2) + np.log(freedom / 2)
    extra = float(logs.var() - polygamma(1, freedom / 2).mean())
    if extra <= float(polygamma(1, _SAME / 2)):
        return _SAME, float(np.exp(logs.mean()))
    prior = float(np.exp(brentq(lambda d: polygamma(1, np.exp(d) / 2) - extra, np.log(1e-3), np.log(_SAME))))
    return prior, float(np.exp(logs.mean() + digamma(prior / 2) - np.log(prior / 2)))


def tpr_at_fpr(scores: np.ndarray, members: np.ndarray, false_positives: np.ndarray) -> np.ndarray:
    """The largest share of members that score above a threshold above which at most each of these shares of others
    does, [F]."""
    others, ours = np.sort(scores[~members])[::-1], np.sort(scores[members])
    allowed = np.floor(false_positives * len(others) + 1e-9).astype(np.int64)
    thresholds = np.where(allowed < len(others), others[np.minimum(allowed, len(others) - 1)], -np.inf)
    return np.asarray(1 - np.searchsorted(ours, thresholds, side="right") / max(len(ours), 1))


def area(scores: np.ndarray, members: np.ndarray) -> float:
    """The chance that a member scores higher than another sentence, ties by halves: the area below the curve."""
    others = np.sort(scores[~members])
    below, most = (np.searchsorted(others, scores[members], side=side).mean() for side in ("left", "right"))
    return float((below + most) / 2 / max(len(others), 1))


def interval(share: float, number: int, error: float = 0.05) -> tuple[float, float]:
    """Between which shares the true one lies at 1 − error, if ``share`` of ``number`` were seen (Clopper and Pearson
    1934)."""
    hits = round(share * number)
    low = 0.0 if hits == 0 else float(betaincinv(hits, number - hits + 1, error / 2))
    high = 1.0 if hits == number else float(betaincinv(hits + 1, number - hits, 1 - error / 2))
    return low, high


def allowed(false_positives: np.ndarray, epsilon: float, delta: float) -> np.ndarray:
    """The largest share of members that (ε, δ) lets anybody catch at these shares of others (Kairouz, Oh, Viswanath
    2015, theorem 2.1)."""
    if np.isinf(epsilon):
        return np.ones_like(false_positives)
    line = np.exp(epsilon) * false_positives + delta
    return np.asarray(np.clip(np.minimum(line, 1 - np.exp(-epsilon) * (1 - delta - false_positives)), 0.0, 1.0))
