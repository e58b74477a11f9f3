"""Counting queries with calibrated noise: how many letters mention a hospital?

The letters are those of the built-in corpus (:mod:`engine.corpus.synthetic`) that name a person. A letter belongs to
the family of the first person that it names, and one family can have many letters. The count includes at most m letters
of each family. One family therefore changes the count by at most m: the sensitivity is m, and the scale of Laplace
noise is m/ε. A small m excludes letters; a large m requires more noise.

The ε of k answers, each with its own noise, must be composed. Three methods, from loose to tight: basic composition
(Dwork and Roth 2014, theorem 3.16); Rényi accounting (Mironov 2017, table II; conversion of Canonne, Kamath and
Steinke 2020, proposition 12); privacy loss distributions by dp_accounting, which are exact for Gaussian noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from engine.corpus import synthetic
from engine.corpus.sentences import Sentence, entities
from engine.lessons.noise_mechanisms import Noise, fitting, gaussian_mu
from engine.privacy.accounting import gaussian_epsilon
from engine.validation import integer, one_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUESTIONS = {
    "hospital": "mention a hospital",
    "organisation": "mention an organisation",
    "place": "mention a place",
    "date": "give a date",
    "person": "name a person",
}
KINDS = ("hospital", "other org.", "place", "date", "none")
"""Kinds of letters: the first of these that a letter mentions."""
ACCOUNTINGS = ("basic", "renyi", "pld")
MOST_ANSWERS = 10_000
_HOSPITALS = {"Hospital", "Infirmary", "Clinic", "Hospice", "Surgery"}
_ORDERS = np.concatenate([np.linspace(1.01, 10.9, 150), np.geomspace(11, 1e5, 250)])


@dataclass(frozen=True, eq=False)
class Letters:
    """Letters that name a person.

    Attributes:
        families: Number of families.
        family: Index of the family of each letter, [letters].
        kind: Index of each letter in :data:`KINDS`, [letters].
        mentions: Letters that each of :data:`QUESTIONS` counts, a mask [letters] each.
    """

    families: int
    family: "NDArray[np.int64]"
    kind: "NDArray[np.int64]"
    mentions: "dict[str, NDArray[np.bool_]]"

    def each(self, question: str) -> "NDArray[np.int64]":
        """Return the number of letters that the question counts in each family, [families]."""
        return np.bincount(self.family[self.mentions[question]], minlength=self.families)

    def table(self, clip: int) -> "NDArray[np.int64]":
        """Return the number of letters of each kind among the first ``clip`` letters of each family, [kinds].

        One family changes these numbers by at most ``clip`` in total (L1).
        """
        order = np.argsort(self.family, kind="stable")
        sizes = np.bincount(self.family, minlength=self.families)
        rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.bincount(self.kind[order[rank < clip]], minlength=len(KINDS))


@lru_cache(maxsize=1)
def letters() -> Letters:
    """Return all letters of the built-in corpus that name a person; the first call generates them in two seconds."""
    corpus = synthetic.corpus()
    sentences = (*corpus.train, *corpus.validation, *corpus.test)
    found = [letter for sentence in sentences if (letter := _classified(sentence))]
    names = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in found))}
    counted = [questions for _, questions in found]
    mentions = {question: np.array([question in questions for questions in counted]) for question in QUESTIONS}
    kinds = [next((index for index, key in enumerate(QUESTIONS) if key in questions), 0) for questions in counted]
    return Letters(len(names), np.array([names[name] for name, _ in found]), np.array(kinds), mentions)


def _classified(sentence: Sentence) -> tuple[str, set[str]] | None:
    """Return the family of a letter and those of :data:`QUESTIONS` that count it; None if it names no person."""
    family, questions = None, {"person"}
    for kind, start, stop in entities(sentence.tags):
        if kind == "PER":
            family = family or sentence.tokens[stop - 1].title()
        elif kind == "ORG":
            hospital = _HOSPITALS & {token.title() for token in sentence.tokens[start:stop]}
            questions |= {"organisation", "hospital"} if hospital else {"organisation"}
        else:
            questions.add("place" if kind == "LOC" else "date")
    return (family, questions) if family else None


@dataclass(frozen=True, kw_only=True)
class Clipped:
    """A count with a limited number of letters per family.

    Attributes:
        count: The count after clipping.
        lost: Letters that clipping excludes.
        noise: The noise that the sensitivity requires.
    """

    count: int
    lost: int
    noise: Noise

    @property
    def error(self) -> float:
        """Root mean square error of the noisy count, √(lost² + sd²)."""
        return math.hypot(self.lost, self.noise.sd)


def clipped(each: "NDArray[np.int64]", clip: int, kind: str, epsilon: float, delta: float) -> Clipped:
    """Return a clipped count with its noise.

    Args:
        each: Letters of each family, [families].
        clip: Largest number of letters that count per family.
        kind: One of :data:`engine.lessons.noise_mechanisms.KINDS`.
        epsilon: ε of the answer.
        delta: δ of the answer, if the noise is Gaussian.
    """
    integer("clip", clip, 1, 1000)
    count = int(np.minimum(each, clip).sum())
    return Clipped(count=count, lost=int(each.sum()) - count, noise=fitting(kind, epsilon, delta, clip))


def spent(accounting: str, kind: str, epsilon: float, delta: float, answers: int) -> float:
    """Return the composed ε at δ of several answers.

    Args:
        accounting: One of ``ACCOUNTINGS``.
        kind: One of :data:`engine.lessons.noise_mechanisms.KINDS`.
        epsilon: ε of each answer alone (at ``delta``, if its noise is Gaussian).
        delta: δ of all answers together.
        answers: Number of answers.
    """
    one_of("accounting", accounting, ACCOUNTINGS)
    integer("answers", answers, 1, MOST_ANSWERS)
    if accounting == "basic":
        return _basic(kind, epsilon, delta, answers)
    if accounting == "renyi":
        composed = _converted(answers * _divergences(fitting(kind, epsilon, delta)), delta)
        return min(composed, answers * epsilon) if kind == "laplace" else composed
    if kind == "gaussian":
        return gaussian_epsilon(gaussian_mu(epsilon, delta) * math.sqrt(answers), delta)
    return _composed_laplace(epsilon, delta, answers)


def until(budget: float, cost: Callable[[int], float]) -> int:
    """Return the largest number of answers whose ``cost`` is within the budget, 0 to ``MOST_ANSWERS``."""
    if cost(1) > budget:
        return 0
    low, high = 1, 2
    while high <= MOST_ANSWERS and cost(high) <= budget:
        low, high = high, 2 * high
    high = min(high, MOST_ANSWERS + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cost(middle) <= budget else (low, middle)
    return low


def apart(kind: str, epsilon: float, delta: float, sensitivity: float, answers: int) -> Noise:
    """Return the noise of each answer if all answers together guarantee (ε, δ).

    The composition assumes that every answer can depend on the same letters: Laplace noise by basic composition,
    Gaussian noise exactly.

    Args:
        kind: One of :data:`engine.lessons.noise_mechanisms.KINDS`.
        epsilon: ε of all answers together.
        delta: δ of all answers together.
        sensitivity: Largest change of each answer by one family.
        answers: Number of answers.
    """
    single = fitting(kind, epsilon, delta, sensitivity)
    return Noise(kind, single.scale * (answers if kind == "laplace" else math.sqrt(answers)))


def _basic(kind: str, epsilon: float, delta: float, answers: int) -> float:
    """Return k·ε; for Gaussian noise with ε of each answer at δ/k, since δ is composed too."""
    one = epsilon if kind == "laplace" else gaussian_epsilon(gaussian_mu(epsilon, delta), delta / answers)
    return answers * one


def _divergences(noise: Noise) -> "NDArray[np.float64]":
    """Return the Rényi divergences at :data:`_ORDERS` of noise on a number of sensitivity 1."""
    order, scale = _ORDERS, noise.scale
    if noise.kind == "gaussian":
        return np.asarray(order / (2 * scale**2))
    above = np.log(order / (2 * order - 1)) + (order - 1) / scale
    below = np.log((order - 1) / (2 * order - 1)) - order / scale
    return np.asarray(np.logaddexp(above, below) / (order - 1))


def _converted(divergences: "NDArray[np.float64]", delta: float) -> float:
    """Return the smallest ε at δ that follows from Rényi divergences at :data:`_ORDERS`."""
    order = _ORDERS
    epsilon = divergences + np.log1p(-1 / order) - (math.log(delta) + np.log(order)) / (order - 1)
    return max(0.0, float(epsilon.min()))


@lru_cache(maxsize=4096)
def _composed_laplace(epsilon: float, delta: float, answers: int) -> float:
    return float(_laplace_losses(epsilon).self_compose(answers).get_epsilon_for_delta(delta))


@lru_cache(maxsize=32)
def _laplace_losses(epsilon: float):  # type: ignore[no-untyped-def]
    from dp_accounting.pld.privacy_loss_distribution import from_laplace_mechanism

    # Rounding accumulates over the answers, so the interval is proportional to ε: at ε/100 the error is below 0.1 %.
    return from_laplace_mechanism(1 / epsilon, value_discretization_interval=epsilon / 100)
