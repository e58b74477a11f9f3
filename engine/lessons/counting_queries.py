"""A real question, answered with noise that fits: how many letters mention a hospital?

The letters are the embedded corpus (:mod:`engine.corpus.synthetic`): those that name somebody belong to the family of
the first person they name. One family may have many letters. If each counts for m of them at most, one family moves
the count by m at most: that is the sensitivity, and m/ε the scale of Laplace noise. A small m loses letters, a large
one takes more noise.

k answers, each with noise of its own, cost more than one. Three ways to add up, from loose to tight: basic composition
(Dwork and Roth 2014, theorem 3.16), Rényi accounting (Mironov 2017, table II; conversion of Canonne, Kamath and
Steinke 2020, proposition 12), and privacy loss distributions by dp_accounting, which are exact for Gaussian noise.
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
    "person": "name somebody",
}
KINDS = ("hospital", "other org.", "place", "date", "none")
"""Of letters: the first of these that a letter mentions."""
ACCOUNTINGS = ("basic", "renyi", "pld")
MOST_ANSWERS = 10_000
_HOSPITALS = {"Hospital", "Infirmary", "Clinic", "Hospice", "Surgery"}
_ORDERS = np.concatenate([np.linspace(1.01, 10.9, 150), np.geomspace(11, 1e5, 250)])


@dataclass(frozen=True, eq=False)
class Letters:
    """Letters that name somebody. families: how many there are. family: whose each is [letters]. kind: its number in
    :data:`KINDS` [letters]. mentions: which letters each of :data:`QUESTIONS` counts, [letters] each."""

    families: int
    family: "NDArray[np.int64]"
    kind: "NDArray[np.int64]"
    mentions: "dict[str, NDArray[np.bool_]]"

    def each(self, question: str) -> "NDArray[np.int64]":
        """How many letters of each family the question counts, [families]."""
        return np.bincount(self.family[self.mentions[question]], minlength=self.families)

    def table(self, clip: int) -> "NDArray[np.int64]":
        """Letters of each kind, of each family its first ``clip`` ones, [kinds]. One family moves them by ``clip`` in
        sum at most."""
        order = np.argsort(self.family, kind="stable")
        sizes = np.bincount(self.family, minlength=self.families)
        place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.bincount(self.kind[order[place < clip]], minlength=len(KINDS))


@lru_cache(maxsize=1)
def letters() -> Letters:
    """All letters of the embedded corpus that name somebody; it is made on the first call, in about two seconds."""
    corpus = synthetic.corpus()
    found = [seen for sentence in (*corpus.train, *corpus.validation, *corpus.test) if (seen := _seen(sentence))]
    names = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in found))}
    said = [things for _, things in found]
    mentions = {question: np.array([question in things for things in said]) for question in QUESTIONS}
    first = [next((place for place, key in enumerate(QUESTIONS) if key in things), 0) for things in said]
    return Letters(len(names), np.array([names[name] for name, _ in found]), np.array(first), mentions)


def _seen(sentence: Sentence) -> tuple[str, set[str]] | None:
    """The family that a letter belongs to and which of :data:`QUESTIONS` count it; None if it names nobody."""
    family, things = None, {"person"}
    for kind, start, stop in entities(sentence.tags):
        if kind == "PER":
            family = family or sentence.tokens[stop - 1].title()
        elif kind == "ORG":
            hospital = _HOSPITALS & {token.title() for token in sentence.tokens[start:stop]}
            things |= {"organisation", "hospital"} if hospital else {"organisation"}
        else:
            things.add("place" if kind == "LOC" else "date")
    return (family, things) if family else None


@dataclass(frozen=True, kw_only=True)
class Clipped:
    """A count in which each family counts for a limited number of letters. lost: letters that clipping leaves out.
    noise: what the limit takes. error: root mean square of what is wrong, √(lost² + sd²)."""

    count: int
    lost: int
    noise: Noise

    @property
    def error(self) -> float:
        """Root mean square."""
        return math.hypot(self.lost, self.noise.sd)


def clipped(each: "NDArray[np.int64]", clip: int, kind: str, epsilon: float, delta: float) -> Clipped:
    """The count of ``each`` [families] with ``clip`` letters of a family at most, and the noise that fits."""
    integer("clip", clip, 1, 1000)
    count = int(np.minimum(each, clip).sum())
    return Clipped(count=count, lost=int(each.sum()) - count, noise=fitting(kind, epsilon, delta, clip))


def spent(accounting: str, kind: str, epsilon: float, delta: float, answers: int) -> float:
    """ε at δ of ``answers`` answers, each with noise that keeps ε alone (at δ, if it is Gaussian)."""
    one_of("accounting", accounting, ACCOUNTINGS)
    integer("answers", answers, 1, MOST_ANSWERS)
    if accounting == "basic":
        return _basic(kind, epsilon, delta, answers)
    if accounting == "renyi":
        found = _converted(answers * _divergences(fitting(kind, epsilon, delta)), delta)
        return min(found, answers * epsilon) if kind == "laplace" else found
    if kind == "gaussian":
        return gaussian_epsilon(gaussian_mu(epsilon, delta) * math.sqrt(answers), delta)
    return _composed_laplace(epsilon, delta, answers)


def until(budget: float, cost: Callable[[int], float]) -> int:
    """The most answers whose ``cost`` is within the budget: 0 if one alone is beyond it, MOST_ANSWERS at most."""
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
    """The noise on each of so many answers where all together keep (ε, δ), without knowing that they are about
    different letters: Laplace by basic composition, Gaussian exactly."""
    share = fitting(kind, epsilon, delta, sensitivity)
    return Noise(kind, share.scale * (answers if kind == "laplace" else math.sqrt(answers)))


def _basic(kind: str, epsilon: float, delta: float, answers: int) -> float:
    """k·ε; of Gaussian noise each answer's ε at δ/k, so that the δ add up to δ."""
    one = epsilon if kind == "laplace" else gaussian_epsilon(gaussian_mu(epsilon, delta), delta / answers)
    return answers * one


def _divergences(noise: Noise) -> "NDArray[np.float64]":
    """Rényi divergences of noise on a number that one person moves by 1, at :data:`_ORDERS`."""
    order, scale = _ORDERS, noise.scale
    if noise.kind == "gaussian":
        return np.asarray(order / (2 * scale**2))
    above = np.log(order / (2 * order - 1)) + (order - 1) / scale
    below = np.log((order - 1) / (2 * order - 1)) - order / scale
    return np.asarray(np.logaddexp(above, below) / (order - 1))


def _converted(divergences: "NDArray[np.float64]", delta: float) -> float:
    """The smallest ε at δ that these Rényi divergences give."""
    order = _ORDERS
    epsilon = divergences + np.log1p(-1 / order) - (math.log(delta) + np.log(order)) / (order - 1)
    return max(0.0, float(epsilon.min()))


@lru_cache(maxsize=4096)
def _composed_laplace(epsilon: float, delta: float, answers: int) -> float:
    return float(_laplace_losses(epsilon).self_compose(answers).get_epsilon_for_delta(delta))


@lru_cache(maxsize=32)
def _laplace_losses(epsilon: float):  # type: ignore[no-untyped-def]
    from dp_accounting.pld.privacy_loss_distribution import from_laplace_mechanism

    # Finer for a smaller ε, since rounding adds up over the answers; a hundredth of it costs less than 1 in 1,000.
    return from_laplace_mechanism(1 / epsilon, value_discretization_interval=epsilon / 100)
