"""What ε promises: two data sets that differ in one person, and what one answer may tell apart.

A curator counts. The true count is n without the person and n + 1 with them; the answer is that plus noise
(:mod:`engine.lessons.noise_mechanisms`). Points are answers less n, so that the two worlds are centred at 0 and 1.
Whoever held it for likely with probability p that the person is in there holds it, having seen one answer, for likely
with odds p/(1 − p) · f₁(x)/f₀(x), and the ratio stays between e^−ε and e^ε (Wasserman and Zhou 2010; Kasiviswanathan
and Smith 2014). With δ, that may fail for some answers.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from engine.config.parts import SYNTHETIC
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
    """The privacy loss at each answer: ln of how much likelier it is with the person than without."""
    answer = np.asarray(answer, dtype=np.float64)
    return noise.log_density(answer - 1) - noise.log_density(answer)


def belief(noise: Noise, answer: "ArrayLike", prior: float) -> "NDArray[np.float64]":
    """The probability, after each answer, that the person is in there; before it, it was ``prior``."""
    _check(prior)
    return np.asarray(1 / (1 + np.exp(-(math.log(prior / (1 - prior)) + log_ratio(noise, answer)))))


def bounds(epsilon: float, prior: float) -> tuple[float, float]:
    """Between what pure ε keeps that probability: p e^∓ε / (1 − p + p e^∓ε)."""
    _check(prior)
    start = math.log(prior / (1 - prior))
    return 1 / (1 + math.exp(epsilon - start)), 1 / (1 + math.exp(-epsilon - start))


def epsilon_of(sure: float, prior: float) -> float:
    """The smallest ε that allows somebody to become so sure, from ``prior``; ∞ for certainty, 0 for no change."""
    _check(prior)
    if sure in (0.0, 1.0):
        return math.inf
    return abs(math.log(sure / (1 - sure)) - math.log(prior / (1 - prior)))


def answer_of(noise: Noise, sure: float, prior: float) -> float | None:
    """The answer that makes somebody so sure, who held ``prior``; None where none does."""
    _check(prior)
    if sure in (0.0, 1.0):
        return None
    ratio = math.log(sure / (1 - sure)) - math.log(prior / (1 - prior))
    if noise.kind == "gaussian":
        return ratio * noise.scale**2 + 0.5
    return (ratio * noise.scale + 1) / 2 if abs(ratio) <= 1 / noise.scale else None


def answers(noise: Noise, size: int, *, present: bool) -> "NDArray[np.float64]":
    """Answers [size] of one world, the same each time, in the unit of the noise around 0 or 1."""
    return present + noise.draws(Seeds(_SEED).stream("answers", present=int(present)), size)


def right_bets(noise: Noise) -> float:
    """How often somebody is right who bets, at even odds, on the world in which the answer is likelier.

    (1 + total variation)/2: 1 − e^(−1/2b)/2 for Laplace noise, Φ(1/2σ) for Gaussian.
    """
    return 1 - noise.beyond(0.5) / 2


def chance_beyond(noise: Noise, epsilon: float) -> float:
    """The probability, with the person in there, of an answer whose privacy loss is above ε.

    Gaussian: Φ(μ/2 − ε/μ) with μ = 1/σ. It is above δ: δ also weighs by how much ε is missed.
    """
    if noise.kind == "laplace":
        return 0.0 if epsilon >= 1 / noise.scale else 1 - math.exp((epsilon - 1 / noise.scale) / 2) / 2
    mu = 1 / noise.scale
    return math.erfc((epsilon / mu - mu / 2) / math.sqrt(2)) / 2


def published(delta: float, people: int) -> float:
    """The probability that somebody's record is out where each of ``people`` is published, as it is, with probability
    δ. This keeps (0, δ), the best ε there is: what a δ that is too large allows."""
    number("delta", delta, 0, 1, "a number from 0 to 1")
    return -math.expm1(people * math.log1p(-delta)) if delta < 1 else 1.0


def group_epsilon(kind: str, epsilon: float, delta: float, size: int) -> float:
    """ε at the same δ for a person who moves the number by ``size``, from the ε of one who moves it by 1.

    Laplace noise: ``size`` times ε. Gaussian noise: exact, and more than that.
    """
    integer("size", size, 1, 1000)
    return size * epsilon if kind == "laplace" else gaussian_epsilon(size * gaussian_mu(epsilon, delta), delta)


def training_epsilon(epsilon: float, size: int) -> float:
    """The same for a tagger trained by DP-SGD as good practice has it, on the embedded corpus: ε of a person with
    ``size`` sentences, where one sentence has ``epsilon``, one of
    :data:`engine.experiments.recommended_settings.EPSILONS`."""
    sentences = synthetic.SIZES["train"]
    plan = PrivacyPlan.from_config(recommended_settings.recommended_settings(SYNTHETIC, sentences, epsilon), sentences)
    return group_epsilon_of_training([(plan, plan.steps)], size)


def _check(prior: float) -> None:
    number("prior", prior, 0, 1, "a number between 0 and 1", low_open=True, high_open=True)
