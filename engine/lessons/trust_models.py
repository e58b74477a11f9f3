"""Whom do you trust? How many of n people say yes, asked in four ways that all keep the same ε for each of them.

* each lies alone: randomised response (Warner 1965), the truth with probability π = e^ε/(1 + e^ε);
* each adds noise alone: Laplace noise of scale 1/ε to 0 or 1;
* a sum that nobody can look into (secure aggregation): each adds a share of Gaussian noise, and the sum has what
  (ε, δ) takes (:mod:`engine.federated.secagg.distributed_noise`), whoever of a stated number of people works with the
  server;
* one curator: Laplace noise of scale 1/ε to the sum.

Errors are standard deviations of the estimated share, for people who are fixed: only the noise is random.
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
    """What is asked. people: n. share: of them who would say yes, 0 to 1. epsilon: of each of them. delta: of the
    secure sum. colluding: the largest share of people who may tell the server their own noise, below 1."""

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
        """People who would say yes."""
        return round(self.share * self.people)

    @property
    def truth(self) -> float:
        """The true share, which is a whole number of people."""
        return self.yes / self.people


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way of asking. trusted: whom people have to trust. error: standard deviation of the estimated share.
    estimates: so many surveys of the same people, [size]."""

    name: str
    title: str
    trusted: str
    error: Callable[[Survey], float]
    estimates: Callable[[Survey, np.random.Generator, int], "NDArray[np.float64]"]


def truthful(epsilon: float) -> float:
    """π: how often randomised response says the truth."""
    return 1 / (1 + math.exp(-epsilon))


def _response_error(survey: Survey) -> float:
    """Each answer is a coin with variance π(1 − π); dividing by 2π − 1 takes the bias out."""
    truth = truthful(survey.epsilon)
    return math.sqrt(truth * (1 - truth) / survey.people) / (2 * truth - 1)


def _response(survey: Survey, random: np.random.Generator, size: int) -> "NDArray[np.float64]":
    truth = truthful(survey.epsilon)
    heard = random.binomial(survey.yes, truth, size) + random.binomial(survey.people - survey.yes, 1 - truth, size)
    return (heard / survey.people - (1 - truth)) / (2 * truth - 1)


def _local_error(survey: Survey) -> float:
    return math.sqrt(2 / survey.people) / survey.epsilon


def _local(survey: Survey, random: np.random.Generator, size: int) -> "NDArray[np.float64]":
    """A sum of n Laplace draws is the difference of two Gamma(n) draws: exact, and no loop over people."""
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
        title="each lies",
        trusted="nobody",
        error=_response_error,
        estimates=_response,
    ),
    Way(name="local", title="each adds noise", trusted="nobody", error=_local_error, estimates=_local),
    Way(
        name="secure",
        title="secure sum",
        trusted="that not too many work with the server",
        error=_secure_error,
        estimates=_secure,
    ),
    Way(
        name="curator",
        title="one curator",
        trusted="the curator, with every answer",
        error=_curator_error,
        estimates=_curator,
    ),
)
"""From trusting nobody to trusting one with everything."""


def estimates(survey: Survey, way: Way, size: int) -> "NDArray[np.float64]":
    """So many surveys in that way, the same each time: estimated shares [size], which may lie outside 0 to 1."""
    return way.estimates(survey, Seeds(_SEED).stream(way.name), size)
