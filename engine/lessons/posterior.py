"""The meaning of ε: the posterior of an attacker who sees one noisy count.

Two adjacent data sets differ in one person. The true count is n without this person and n + 1 with them; the answer is
the count plus noise (:mod:`engine.lessons.noise_mechanisms`). Answers are given minus n, so that the two worlds are
centred at 0 and 1. The attacker's prior is the probability p that the person is in the data. After an answer x, the
posterior odds are p/(1 − p) · f₁(x)/f₀(x). The likelihood ratio is between e^−ε and e^ε (Wasserman and Zhou 2010;
Kasiviswanathan and Smith 2014). With δ > 0, some answers may exceed these bounds.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from engine.config import SYNTHETIC
from engine.corpus import synthetic
from engine.experiments import recommended_settings
from engine.lessons.noise_mechanisms import Noise, gaussian_mu
from engine.privacy.accounting import gaussian_epsilon
from engine.privacy.group_privacy import group_epsilon as group_epsilon_of_training
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Seeds
from engine.validation import integer, number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_SEED = 16


def log_ratio(noise: Noise, answer: "ArrayLike") -> "NDArray[np.float64]":
    """Return the privacy loss at each answer: ln of the likelihood ratio, with the person ÷ without."""
    answer = np.asarray(answer, dtype=np.float64)
    return noise.log_density(answer - 1) - noise.log_density(answer)


def belief(noise: Noise, answer: "ArrayLike", prior: float) -> "NDArray[np.float64]":
    """Return the posterior probability, after each answer, that the person is in the data."""
    _check(prior)
    return np.asarray(1 / (1 + np.exp(-(math.log(prior / (1 - prior)) + log_ratio(noise, answer)))))


def bounds(epsilon: float, prior: float) -> tuple[float, float]:
    """Return the bounds of pure ε on the posterior: p e^∓ε / (1 − p + p e^∓ε)."""
    _check(prior)
    prior_log_odds = math.log(prior / (1 - prior))
    return 1 / (1 + math.exp(epsilon - prior_log_odds)), 1 / (1 + math.exp(-epsilon - prior_log_odds))


def epsilon_of(sure: float, prior: float) -> float:
    """Return the smallest ε that allows the posterior ``sure``; ∞ for certainty, 0 if it equals the prior."""
    _check(prior)
    if sure in (0.0, 1.0):
        return math.inf
    return abs(math.log(sure / (1 - sure)) - math.log(prior / (1 - prior)))


def answer_of(noise: Noise, sure: float, prior: float) -> float | None:
    """Return the answer after which the posterior is ``sure``; None if there is none."""
    _check(prior)
    if sure in (0.0, 1.0):
        return None
    ratio = math.log(sure / (1 - sure)) - math.log(prior / (1 - prior))
    if noise.kind == "gaussian":
        return ratio * noise.scale**2 + 0.5
    return (ratio * noise.scale + 1) / 2 if abs(ratio) <= 1 / noise.scale else None


def answers(noise: Noise, size: int, *, present: bool) -> "NDArray[np.float64]":
    """Return answers of one world around 0 or 1, [size]; equal arguments give equal answers."""
    return present + noise.draws(Seeds(_SEED).stream("answers", present=int(present)), size)


def right_bets(noise: Noise) -> float:
    """Return the accuracy of the best attack at equal priors: it guesses the world with the larger likelihood.

    It is (1 + total variation)/2: 1 − e^(−1/2b)/2 for Laplace noise, Φ(1/2σ) for Gaussian noise.
    """
    return 1 - noise.beyond(0.5) / 2


def chance_beyond(noise: Noise, epsilon: float) -> float:
    """Return the probability, with the person in the data, of an answer whose privacy loss exceeds ε.

    Gaussian: Φ(μ/2 − ε/μ) with μ = 1/σ. It is larger than δ, since δ also weights the excess over ε.
    """
    if noise.kind == "laplace":
        return 0.0 if epsilon >= 1 / noise.scale else 1 - math.exp((epsilon - 1 / noise.scale) / 2) / 2
    mu = 1 / noise.scale
    return math.erfc((epsilon / mu - mu / 2) / math.sqrt(2)) / 2


def published(delta: float, people: int) -> float:
    """Return the probability that at least one record is published unchanged.

    The mechanism publishes each of ``people`` records with probability δ. It satisfies (0, δ), with the smallest
    possible ε: it shows what too large a δ allows.
    """
    number("delta", delta, 0, 1, "a number from 0 to 1")
    return -math.expm1(people * math.log1p(-delta)) if delta < 1 else 1.0


def group_epsilon(kind: str, epsilon: float, delta: float, size: int) -> float:
    """Return ε at the same δ for a person who changes the number by ``size`` (group privacy).

    Args:
        kind: One of :data:`engine.lessons.noise_mechanisms.KINDS`. Laplace noise gives ``size`` times ε; the exact
            value for Gaussian noise is larger.
        epsilon: ε of a person who changes the number by 1.
        delta: δ.
        size: Change of the number.
    """
    integer("size", size, 1, 1000)
    return size * epsilon if kind == "laplace" else gaussian_epsilon(size * gaussian_mu(epsilon, delta), delta)


def training_epsilon(epsilon: float, size: int) -> float:
    """Return ε of a person with ``size`` sentences in DP-SGD (group privacy).

    The tagger is trained with the recommended settings with MiniLM on the built-in corpus.

    Args:
        epsilon: ε of one sentence, one of :data:`engine.experiments.recommended_settings.EPSILONS`.
        size: Sentences of the person.
    """
    sentences = synthetic.SIZES["train"]
    plan = PrivacyPlan.from_config(recommended_settings.with_minilm(SYNTHETIC, sentences, epsilon), sentences)
    return group_epsilon_of_training([(plan, plan.steps)], size)


def _check(prior: float) -> None:
    number("prior", prior, 0, 1, "a number between 0 and 1", low_open=True, high_open=True)
