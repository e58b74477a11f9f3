"""Bounds from below: what a training costs at least, for the data for which it costs most.

Where the ε of a ledger is an upper bound that may be far from the truth, an attacker who is known to succeed says how
far at most: for data chosen by him, he looks at one number of each epoch or step, and the privacy loss of that number
alone is composed exactly, but for rounding in his disfavour.

* **Fixed batches of a permutation** (Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang 2024, "How Private are DP-SGD
  Implementations?", section 4): every other sentence has the gradient −C, the one that counts C. Of each epoch he looks
  at the largest of the sums of its T batches, each measured from what it is without that sentence: N(2, σ²) of the one
  batch that has it, N(0, σ²) of the others. Emptied, the sentence leaves N(1, σ²); exchanged for one of the others,
  N(0, σ²); left out, N(0, σ²) too, in so far as its batch is not the last.
* **An exchange under Poisson sampling**: a sentence with the gradient C becomes one with −C; a step shows
  (1 − q)·N(0, σ²) + q·N(±1, σ²).
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engine.privacy.assumptions.evaluation import passes
from engine.privacy.assumptions.scenario import Choices, Part, Training, plans

_POINTS = 20_000
"""Intervals into which what he looks at is cut."""
_WIDTH = 0.02
"""By how much rounding may make the sum of all losses too small."""
_FINEST = 2e-6
_SURPLUS = 1e-12
"""More than composing by Fourier transform may add to δ."""
_LEAST_DELTA = 1e-10


def at_least(training: Training, choices: Choices) -> float | None:
    """A bound from below on the ε of a training under these choices; None where the ε is exact, but for rounding, where
    none is known, and for δ below 1e-10."""
    plain = choices.sentences == 1 and not choices.seed_known and not choices.whole_client
    if not plain or training.noise_multiplier == 0 or choices.delta < _LEAST_DELTA or training.unit == "client":
        return None
    if choices.sampling == "none":
        found = [_of_permutations(training, part, choices) for part in training.own]
    elif choices.sampling == "poisson" and choices.neighbours == "replace":
        told = {(plan.sampling_probability, plan.noise_multiplier, plan.steps) for plan in plans(training, choices)}
        found = [_of_exchange(*each, choices.delta) for each in _heaviest(told)]
    else:
        return None
    return max(found) or None


def _heaviest(told: set[tuple[float, float, int]]) -> list[tuple[float, float, int]]:
    """Those of the largest q²·steps: any is a bound from below."""
    return sorted(told, key=lambda each: -(each[0] ** 2) * each[2])[:2]


def _of_permutations(training: Training, part: Part, choices: Choices) -> float:
    batches = math.ceil(part.examples / part.batch_size)
    whole = passes(training, part)
    ended = part.steps >= batches * whole if training.parts else training.epochs >= whole
    whole -= not ended  # an epoch that was not ended
    times = whole * choices.trainings
    return of_permutations(batches, times, training.noise_multiplier, choices.delta, choices.neighbours)


@lru_cache(maxsize=256)
def of_permutations(batches: int, epochs: int, sigma: float, delta: float, neighbours: str) -> float:
    """At least so much of so many epochs of permutations cut into so many batches; 0 where nothing follows."""
    if epochs < 1:
        return 0.0
    edges = np.linspace(-9.0 * sigma, 2 + 9.0 * sigma, _POINTS)
    one, other = (_of_largest(edges, sigma, batches, shift) for shift in (2.0, 1.0))
    if neighbours != "zero-out":
        other = _of_largest(edges, sigma, batches, 0.0)
    if neighbours == "add-or-remove":
        # By chance the sentence is in the last batch, which is not looked at then: all others are as without it.
        if batches == 1:
            return 0.0
        one, other = (_of_largest(edges, sigma, batches - 1, shift) for shift in (2.0, 0.0))
        one = (one * (batches - 1) + other) / batches
    return _composed(one, other, epochs, delta)


def _of_largest(edges: NDArray[np.float64], sigma: float, batches: int, shift: float) -> NDArray[np.float64]:
    """Chances of the largest of so many normal draws, one of them of mean ``shift``, in (−∞, first edge], between the
    edges, and above the last, [edges + 1]."""
    from scipy.special import log_ndtr, ndtr

    below = np.exp(log_ndtr((edges - shift) / sigma) + (batches - 1) * log_ndtr(edges / sigma))
    beyond, others = ndtr((shift - edges) / sigma), -np.expm1((batches - 1) * log_ndtr(edges / sigma))
    above = beyond + others - beyond * others
    return _between(below, above)


def _between(below: NDArray[np.float64], above: NDArray[np.float64]) -> NDArray[np.float64]:
    """Chances of the intervals whose edges have so much below and above, by the smaller of both."""
    by_lower, by_upper = np.diff(below), -np.diff(above)
    inner = np.where(below[1:] < 0.5, by_lower, by_upper)
    found: NDArray[np.float64] = np.maximum(np.concatenate([below[:1], inner, above[-1:]]), 0.0)
    return found


@lru_cache(maxsize=256)
def _of_exchange(probability: float, sigma: float, steps: int, delta: float) -> float:
    """At least so much of an exchange under Poisson sampling."""
    from scipy.special import ndtr

    edges = np.linspace(-1 - 9.0 * sigma, 1 + 9.0 * sigma, _POINTS)

    def chances(shift: float) -> NDArray[np.float64]:
        below, above = (
            (1 - probability) * ndtr(sign * edges / sigma) + probability * ndtr(sign * (edges - shift) / sigma)
            for sign in (1, -1)
        )
        return _between(below, above)

    # The other direction is the mirror image of this one.
    return _of_losses(chances(1.0), chances(-1.0), steps, delta)


def _composed(one: NDArray[np.float64], other: NDArray[np.float64], times: int, delta: float) -> float:
    """The larger ε of the two directions, of so many independent draws from one of two distributions, [m] each."""
    return max(_of_losses(one, other, times, delta), _of_losses(other, one, times, delta))


def _of_losses(one: NDArray[np.float64], other: NDArray[np.float64], times: int, delta: float) -> float:
    """Losses are rounded down to a grid. Where only ``one`` has any chance the loss is taken for the largest of the
    others, and what has next to none is left out."""
    from engine.privacy.pld import FastDensePLDPmf

    seen = (one > 1e-300) & (other > 1e-300)
    if not seen.any():
        return 0.0
    losses = np.log(one[seen]) - np.log(other[seen])
    width = max(_FINEST, _WIDTH / times)
    places = np.floor(losses / width).astype(np.int64)
    kept = one[seen] > delta * 1e-6 / (times * len(one))
    low, high = int(places[kept].min()), int(places[kept].max())
    probs = np.bincount(np.clip(places, low, high)[places >= low] - low, one[seen][places >= low], high - low + 1)
    if len(probs) < 2:
        return 0.0
    whole = FastDensePLDPmf(width, low, probs, 0.0, True).self_compose(times)
    return whole.get_epsilon_for_delta(delta + _SURPLUS)
