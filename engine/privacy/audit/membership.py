"""Membership inference: predict from a model's loss on a sentence whether the sentence was in its training set.

Shadow (reference) models, each trained on a random half of the sentences, show the expected loss with and without the
sentence. The statistic is φ = log(p ÷ (1 − p)), where p is the probability that a model gives to a sentence's true tags
(Carlini et al. 2022, section VI-A).

``phi`` is float64 [models, sentences]. ``inside`` is bool of the same shape: whether a model was trained on a sentence.
A higher score means a likelier member. Scores are of one model, ``target``; the others are its references.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, digamma, logsumexp, polygamma
from scipy.stats import norm, t

Attack = Callable[[np.ndarray, np.ndarray, int], np.ndarray]
_LEAST_LOSS = 1e-12
"""Smallest loss; a float64 cannot resolve smaller ones."""
_SAME = 1e6
"""Degrees of freedom above which all sentences share one variance."""


def phi_of(losses: np.ndarray) -> np.ndarray:
    """Return φ of sentences with these losses, −log p."""
    kept = np.maximum(losses, _LEAST_LOSS)
    return np.asarray(-(kept + np.log(-np.expm1(-kept))))


def loss_threshold(phi: np.ndarray, inside: np.ndarray, target: int) -> np.ndarray:
    """Score by the model's own loss alone, [sentences] (Yeom et al. 2018, section III).

    Args:
        phi: φ, float64 [models, sentences].
        inside: Memberships, bool [models, sentences]; not used.
        target: Index of the attacked model.
    """
    return np.asarray(phi[target])


def lira(phi: np.ndarray, inside: np.ndarray, target: int) -> np.ndarray:
    """Score by the log likelihood ratio of φ with and without the sentence, [sentences].

    It uses two normal distributions for each sentence, with variances shared by all sentences, as for few references
    (Carlini et al. 2022, algorithm 1 and section VI-D). If no reference was trained on any sentence, the score is the
    distance of φ from its mean without the sentence (section VI-C).

    Args:
        phi: φ, float64 [models, sentences].
        inside: Memberships, bool [models, sentences].
        target: Index of the attacked model.
    """
    groups = _groups(phi, inside, target)
    if not groups[0].count.any():
        return np.asarray(phi[target] - groups[1].mean)
    logs = [
        norm.logpdf(phi[target], group.mean, np.sqrt(max(group.squares.sum() / max(group.freedom.sum(), 1), 1e-12)))
        for group in groups
    ]
    return np.asarray(logs[0] - logs[1])


def rmia(phi: np.ndarray, inside: np.ndarray, target: int) -> np.ndarray:
    """Score by the log ratio of the model's probability to the average over models trained with and without the
    sentence.

    This is equation 4 of Zarifzadeh et al. 2024. They count the share of other sentences with a smaller ratio, which
    gives the same order of sentences.

    Args:
        phi: φ, float64 [models, sentences].
        inside: Memberships, bool [models, sentences].
        target: Index of the attacked model.
    """
    log_p = -np.logaddexp(0.0, -phi)
    others = np.arange(len(phi)) != target
    average = np.full((2, phi.shape[1]), -np.inf)
    for row, selected in enumerate((inside[others], ~inside[others])):
        counts = selected.sum(0)
        covered = counts > 0
        masked = np.where(selected[:, covered], log_p[others][:, covered], -np.inf)
        average[row, covered] = logsumexp(masked, axis=0) - np.log(counts[covered])
    seen = np.isfinite(average).sum(0)
    return np.asarray(log_p[target] - (logsumexp(average, axis=0) - np.log(np.maximum(seen, 1))))


def bayes(phi: np.ndarray, inside: np.ndarray, target: int) -> np.ndarray:
    """Score by the likelihood ratio of :func:`lira` with the uncertainty of few references, [sentences].

    Mean and variance of each sentence have a conjugate normal-inverse-gamma prior, so φ has a Student t distribution
    (as in Brännvall 2026, *BaVarIA*). The priors are fitted to all sentences: variances by the moments of their
    logarithms (Smyth 2004, section 6.2), and the gap between *in* and *out* by its variance over sentences. If no
    reference was trained on a sentence, its gap is the prior's. If no sentence has a gap, the score is the distance of
    φ from its mean without the sentence.

    Args:
        phi: φ, float64 [models, sentences].
        inside: Memberships, bool [models, sentences].
        target: Index of the attacked model.
    """
    members, out = _groups(phi, inside, target)
    both = (members.count > 0) & (out.count > 0)
    variances = [_prior_of_variance(group) for group in (members, out)]
    if not both.any():
        freedom, scale = variances[1]
        spread = (freedom * scale + out.squares) / (freedom + out.freedom) * (1 + 1 / np.maximum(out.count, 1))
        return np.asarray((phi[target] - out.mean) / np.sqrt(spread))
    gaps = (members.mean - out.mean)[both]
    noise = np.mean(variances[0][1] / members.count[both] + variances[1][1] / out.count[both])
    gap, spread = float(gaps.mean()), max(float(gaps.var() - noise), 1e-3 * float(noise))
    logs = []
    for group, other, sign, (freedom, scale) in ((members, out, 1, variances[0]), (out, members, -1, variances[1])):
        weight = scale / spread
        prior = np.where(other.count > 0, other.mean + sign * gap, group.mean)
        mean = np.where(group.count > 0, group.mean, prior)
        certain = weight + group.count
        apart = weight * group.count / certain * (mean - prior) ** 2
        variance = (freedom * scale + group.squares + apart) / (freedom + group.count)
        center = (weight * prior + group.count * mean) / certain
        logs.append(t.logpdf(phi[target], freedom + group.count, center, np.sqrt(variance * (1 + 1 / certain))))
    return np.asarray(logs[0] - logs[1])


ATTACKS: dict[str, Attack] = {"loss": loss_threshold, "LiRA": lira, "RMIA": rmia, "Bayes": bayes}
"""Attacks by name, the simplest first."""


@dataclass(frozen=True)
class _Group:
    """Statistics over the references trained on a sentence, or over the others.

    Attributes:
        count: Number of references, [sentences].
        mean: Mean φ, [sentences].
        squares: Sum of squared distances from the mean, [sentences].
    """

    count: np.ndarray
    mean: np.ndarray
    squares: np.ndarray

    @property
    def freedom(self) -> np.ndarray:
        return np.asarray(np.maximum(self.count - 1, 0))


def _groups(phi: np.ndarray, inside: np.ndarray, target: int) -> tuple[_Group, _Group]:
    others = np.arange(len(phi)) != target
    references, groups = phi[others], []
    for selected in (inside[others], ~inside[others]):
        count = selected.sum(0)
        mean = np.where(selected, references, 0.0).sum(0) / np.maximum(count, 1)
        groups.append(_Group(count, mean, np.where(selected, (references - mean) ** 2, 0.0).sum(0)))
    return groups[0], groups[1]


def _prior_of_variance(group: _Group) -> tuple[float, float]:
    """Return degrees of freedom d₀ and scale s₀² of a scaled inverse χ² distribution of variances."""
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
    """Return the largest TPR at each of these FPRs, [F].

    Args:
        scores: Scores of the sentences, [n].
        members: Whether each sentence was in the training set, bool [n].
        false_positives: Largest FPRs, [F].
    """
    others, ours = np.sort(scores[~members])[::-1], np.sort(scores[members])
    allowed = np.floor(false_positives * len(others) + 1e-9).astype(np.int64)
    thresholds = np.where(allowed < len(others), others[np.minimum(allowed, len(others) - 1)], -np.inf)
    return np.asarray(1 - np.searchsorted(ours, thresholds, side="right") / max(len(ours), 1))


def area(scores: np.ndarray, members: np.ndarray) -> float:
    """Return the area under the ROC curve: the probability that a member scores above a non-member, ties counted by
    half.
    """
    others = np.sort(scores[~members])
    below, most = (np.searchsorted(others, scores[members], side=side).mean() for side in ("left", "right"))
    return float((below + most) / 2 / max(len(others), 1))


def interval(share: float, number: int, error: float = 0.05) -> tuple[float, float]:
    """Return the confidence interval of a share at level 1 − error (Clopper and Pearson 1934).

    Args:
        share: Observed share, 0 to 1.
        number: Number of observations.
        error: Probability that the interval misses the true share.
    """
    hits = round(share * number)
    low = 0.0 if hits == 0 else float(betaincinv(hits, number - hits + 1, error / 2))
    high = 1.0 if hits == number else float(betaincinv(hits + 1, number - hits, 1 - error / 2))
    return low, high


def allowed(false_positives: np.ndarray, epsilon: float, delta: float) -> np.ndarray:
    """Return the largest TPR that (ε, δ) allows any attacker at these FPRs (Kairouz, Oh, Viswanath 2015, theorem 2.1).

    Args:
        false_positives: FPRs, [F].
        epsilon: ε.
        delta: δ.
    """
    if np.isinf(epsilon):
        return np.ones_like(false_positives)
    line = np.exp(epsilon) * false_positives + delta
    return np.asarray(np.clip(np.minimum(line, 1 - np.exp(-epsilon) * (1 - delta - false_positives)), 0.0, 1.0))
