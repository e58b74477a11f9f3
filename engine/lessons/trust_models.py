"""Trust models: four methods to estimate how many of n people would say yes, all with the same ε per person.

* Randomised response (Warner 1965): each person answers truthfully with probability π = e^ε/(1 + e^ε).
* Local noise: each person adds Laplace noise of scale 1/ε to 0 or 1.
* Secure aggregation: each person adds a share of Gaussian noise, and the server sees only the sum. The sum has the
  noise that (ε, δ) requires (:mod:`engine.federated.secagg.distributed_noise`), even if a stated number of people
  collude with the server.
* Trusted curator: the curator adds Laplace noise of scale 1/ε to the sum.

Errors are standard deviations of the estimated share. The people are fixed; only the noise is random.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from engine.federated.secagg.distributed_noise import aggregate_noise_std, per_client_noise_std
from engine.lessons.noise_mechanisms import fitting
from engine.seeds import Seeds
from engine.validation import integer, number

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_PEOPLE = 1_000_000
_SEED = 16


@dataclass(frozen=True, kw_only=True)
class Survey:
    """A survey.

    Attributes:
        people: Number of people, n.
        share: Share of them who would say yes, 0 to 1.
        epsilon: ε of each person.
        delta: δ under secure aggregation.
        colluding: Largest share of people who collude with the server: they reveal their own noise to it. Below 1.
    """

    people: int
    share: float
    epsilon: float
    delta: float = 1e-6
    colluding: float = 0.0

    def __post_init__(self) -> None:
        integer("people", self.people, 2, MOST_PEOPLE)
        number("share", self.share, 0, 1, "a number from 0 to 1")
        number("epsilon", self.epsilon, 0, 50, "a positive number, 50 at most", low_open=True)
        number("colluding", self.colluding, 0, 1, "a number from 0 to below 1", high_open=True)

    @property
    def yes(self) -> int:
        """Number of people who would say yes."""
        return round(self.share * self.people)

    @property
    def truth(self) -> float:
        """True share, that of a whole number of people."""
        return self.yes / self.people


@dataclass(frozen=True, kw_only=True)
class Way:
    """A method of asking.

    Attributes:
        name: Key.
        title: Label.
        trusted: What people must trust.
        error: Returns the standard deviation of the estimated share.
        estimates: Returns the estimated shares of repeated surveys of the same people, [size].
    """

    name: str
    title: str
    trusted: str
    error: Callable[[Survey], float]
    estimates: Callable[[Survey, np.random.Generator, int], "NDArray[np.float64]"]


def truthful(epsilon: float) -> float:
    """Return π, the probability of a truthful answer in randomised response."""
    return 1 / (1 + math.exp(-epsilon))


def _response_error(survey: Survey) -> float:
    """Return the error of randomised response.

    Each answer is a Bernoulli draw with variance π(1 − π); division by 2π − 1 removes the bias.
    """
    truth = truthful(survey.epsilon)
    return math.sqrt(truth * (1 - truth) / survey.people) / (2 * truth - 1)


def _response(survey: Survey, random: np.random.Generator, size: int) -> "NDArray[np.float64]":
    truth = truthful(survey.epsilon)
    answers = random.binomial(survey.yes, truth, size) + random.binomial(survey.people - survey.yes, 1 - truth, size)
    return (answers / survey.people - (1 - truth)) / (2 * truth - 1)


def _local_error(survey: Survey) -> float:
    return math.sqrt(2 / survey.people) / survey.epsilon


def _local(survey: Survey, random: np.random.Generator, size: int) -> "NDArray[np.float64]":
    """Return surveys with local noise.

    A sum of n Laplace draws is the difference of two Gamma(n) draws; this is exact and needs no loop over people.
    """
    noise = random.gamma(survey.people, 1 / survey.epsilon, size) - random.gamma(
        survey.people, 1 / survey.epsilon, size
    )
    return survey.truth + noise / survey.people


def _secure_error(survey: Survey) -> float:
    planned = fitting("gaussian", survey.epsilon, survey.delta).scale
    share = per_client_noise_std(
        planned, survey.people, min(math.ceil(survey.colluding * survey.people), survey.people - 1)
    )
    return aggregate_noise_std(share, survey.people) / survey.people


def _secure(survey: Survey, random: np.random.Generator, size: int) -> "NDArray[np.float64]":
    return survey.truth + random.normal(0, _secure_error(survey), size)


def _curator_error(survey: Survey) -> float:
    return fitting("laplace", survey.epsilon, survey.delta).sd / survey.people


def _curator(survey: Survey, random: np.random.Generator, size: int) -> "NDArray[np.float64]":
    return survey.truth + fitting("laplace", survey.epsilon, survey.delta).draws(random, size) / survey.people


WAYS = (
    Way(
        name="response",
        title="randomised response",
        trusted="no one",
        error=_response_error,
        estimates=_response,
    ),
    Way(name="local", title="local noise", trusted="no one", error=_local_error, estimates=_local),
    Way(
        name="secure",
        title="secure aggregation",
        trusted="that few people collude with the server",
        error=_secure_error,
        estimates=_secure,
    ),
    Way(
        name="curator",
        title="trusted curator",
        trusted="the curator, with every answer",
        error=_curator_error,
        estimates=_curator,
    ),
)
"""Methods from no trust at all to full trust in one curator."""


def estimates(survey: Survey, way: Way, size: int) -> "NDArray[np.float64]":
    """Return the estimated shares of repeated surveys, [size]; they may be outside 0 to 1. Equal calls agree."""
    return way.estimates(survey, Seeds(_SEED).stream(way.name), size)
