"""Lower bounds on the ε of a training, for the data with the largest privacy loss.

An upper bound on ε may be far from the true value. A known attack bounds the gap: the attacker chooses the data and
observes one number of each epoch or step. The privacy loss of that number alone is composed exactly, except for
rounding, which only lowers the bound.

* **Shuffled batches** (Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang 2024, "How Private are DP-SGD
  Implementations?", section 4). The protected sentence has the gradient C, every other sentence −C. In each epoch the
  attacker observes the largest of the sums of the T batches. Each sum is measured from its value without the protected
  sentence: N(2, σ²) for the batch that contains it, N(0, σ²) for the others. Zeroing out the sentence gives N(1, σ²).
  Replacing it by one of the others gives N(0, σ²). Removing it gives N(0, σ²) too, unless its batch is the last.
* **Replace-one adjacency under Poisson sampling.** A sentence with the gradient C is replaced by one with −C; a step
  shows (1 − q)·N(0, σ²) + q·N(±1, σ²).
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engine.privacy.assumptions.evaluation import passes
from engine.privacy.assumptions.scenario import Choices, Part, Training, plans

_POINTS = 20_000
"""Number of edges of the intervals into which the observed number is binned."""
_MAX_ROUNDING = 0.02
"""Most by which rounding may lower the sum of all privacy losses."""
_MIN_GRID_WIDTH = 2e-6
"""Smallest grid width of the privacy losses, which bounds the size of the grid."""
_FFT_ERROR, _FFT_ERROR_OF_A_STEP = 1e-12, 1e-16
"""Upper bounds on what composition by Fourier transform adds to δ, in all and for each composition; twice the largest
measured error, 5e-11 after a million (docs/metrics.md)."""
_MIN_DELTA = 1e-10
"""Smallest δ with a lower bound: far above the error of the Fourier transform."""


def at_least(training: Training, choices: Choices) -> float | None:
    """Return a lower bound on the ε of a training under these choices.

    Returns None if ε is exact except for rounding, if no lower bound is known, or if δ is below 1e-10.
    """
    plain = choices.sentences == 1 and not choices.seed_known and not choices.whole_client
    if not plain or training.noise_multiplier == 0 or choices.delta < _MIN_DELTA or training.unit == "client":
        return None
    if choices.sampling == "none":
        bounds = [_shuffled_part_bound(training, part, choices) for part in training.own]
    elif choices.sampling == "poisson" and choices.neighbours == "replace":
        parts = {(plan.sampling_probability, plan.noise_multiplier, plan.steps) for plan in plans(training, choices)}
        bounds = [_replacement_bound(*part, choices.delta) for part in _most_sampled(parts)]
    else:
        return None
    return max(bounds) or None


def has_incomplete_epoch(training: Training, part: Part) -> bool:
    """Return whether shuffled training ends before the last batch of an epoch, which the lower bound leaves out."""
    epochs = passes(training, part)
    if not training.parts:
        return training.epochs < epochs
    return part.steps < math.ceil(part.examples / part.batch_size) * epochs


def _most_sampled(parts: set[tuple[float, float, int]]) -> list[tuple[float, float, int]]:
    """Return the two parts (q, σ, steps) with the largest q²·steps; each part alone gives a lower bound."""
    return sorted(parts, key=lambda part: -(part[0] ** 2) * part[2])[:2]


def _shuffled_part_bound(training: Training, part: Part, choices: Choices) -> float:
    """Return the lower bound of one part with shuffled batches; counts completed epochs only."""
    batches = math.ceil(part.examples / part.batch_size)
    times = (passes(training, part) - has_incomplete_epoch(training, part)) * choices.trainings
    by_addition = training.bounds_by_addition and choices.neighbours == "add-or-remove"
    neighbours = "zero-out" if by_addition else choices.neighbours
    return shuffled_lower_bound(batches, times, training.noise_multiplier, choices.delta, neighbours)


@lru_cache(maxsize=256)
def shuffled_lower_bound(batches: int, epochs: int, sigma: float, delta: float, neighbours: str) -> float:
    """Return the lower bound on ε for shuffled batches; 0 where none follows.

    Args:
        batches: Batches per epoch, T.
        epochs: Completed epochs.
        sigma: Noise multiplier σ.
        delta: δ.
        neighbours: Adjacency, a key of ``NEIGHBOURS``.
    """
    if epochs < 1:
        return 0.0
    edges = np.linspace(-9.0 * sigma, 2 + 9.0 * sigma, _POINTS)
    one, other = (_largest_sum(edges, sigma, batches, shift) for shift in (2.0, 1.0))
    if neighbours != "zero-out":
        other = _largest_sum(edges, sigma, batches, 0.0)
    if neighbours == "add-or-remove":
        # With probability 1/T the sentence is in the last batch, which the attacker then ignores: all other batches
        # are as without the sentence.
        if batches == 1:
            return 0.0
        one, other = (_largest_sum(edges, sigma, batches - 1, shift) for shift in (2.0, 0.0))
        one = (one * (batches - 1) + other) / batches
    return _larger_direction(one, other, epochs, delta)


def _largest_sum(edges: NDArray[np.float64], sigma: float, batches: int, shift: float) -> NDArray[np.float64]:
    """Return the distribution of the largest of ``batches`` draws from N(0, σ²), one of which has mean ``shift``.

    The result, [edges + 1], holds the probabilities of (−∞, first edge], of each interval between edges, and of the
    values above the last edge.
    """
    from scipy.special import log_ndtr, ndtr

    below = np.exp(log_ndtr((edges - shift) / sigma) + (batches - 1) * log_ndtr(edges / sigma))
    beyond, others = ndtr((shift - edges) / sigma), -np.expm1((batches - 1) * log_ndtr(edges / sigma))
    above = beyond + others - beyond * others
    return _interval_probabilities(below, above)


def _interval_probabilities(below: NDArray[np.float64], above: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of the intervals between edges, [edges + 1].

    ``below`` and ``above`` are the probabilities on either side of each edge, [edges]. The smaller of the two gives the
    difference, which keeps its digits.
    """
    by_lower, by_upper = np.diff(below), -np.diff(above)
    inner = np.where(below[1:] < 0.5, by_lower, by_upper)
    probs: NDArray[np.float64] = np.maximum(np.concatenate([below[:1], inner, above[-1:]]), 0.0)
    return probs


@lru_cache(maxsize=256)
def _replacement_bound(probability: float, sigma: float, steps: int, delta: float) -> float:
    """Return the lower bound on ε for replace-one adjacency under Poisson sampling with ``probability`` q."""
    from scipy.special import ndtr

    edges = np.linspace(-1 - 9.0 * sigma, 1 + 9.0 * sigma, _POINTS)

    def probabilities(shift: float) -> NDArray[np.float64]:
        below, above = (
            (1 - probability) * ndtr(sign * edges / sigma) + probability * ndtr(sign * (edges - shift) / sigma)
            for sign in (1, -1)
        )
        return _interval_probabilities(below, above)

    # The other direction is the mirror image of this one.
    return _composed_epsilon(probabilities(1.0), probabilities(-1.0), steps, delta)


def _larger_direction(one: NDArray[np.float64], other: NDArray[np.float64], times: int, delta: float) -> float:
    """Return the larger ε of both directions, for ``times`` independent draws from one of two distributions, [m]."""
    return max(_composed_epsilon(one, other, times, delta), _composed_epsilon(other, one, times, delta))


def _composed_epsilon(one: NDArray[np.float64], other: NDArray[np.float64], times: int, delta: float) -> float:
    """Return a lower bound on ε of ``times`` draws from ``one`` against ``other``, [m], by their loss distribution.

    Privacy losses are rounded down to a grid. Where only ``one`` has a positive probability, the loss counts as the
    largest of the other losses. Values of negligible probability are left out.
    """
    from engine.privacy.pld import LossPmf

    seen = (one > 1e-300) & (other > 1e-300)
    if not seen.any():
        return 0.0
    losses = np.log(one[seen]) - np.log(other[seen])
    width = max(_MIN_GRID_WIDTH, _MAX_ROUNDING / times)
    indices = np.floor(losses / width).astype(np.int64)
    kept = one[seen] > delta * 1e-6 / (times * len(one))
    low, high = int(indices[kept].min()), int(indices[kept].max())
    probs = np.bincount(np.clip(indices, low, high)[indices >= low] - low, one[seen][indices >= low], high - low + 1)
    if len(probs) < 2:
        return 0.0
    composed = LossPmf(width, low, probs.astype(np.float64), 0.0).self_compose(times)
    return composed.get_epsilon_for_delta(delta + max(_FFT_ERROR, _FFT_ERROR_OF_A_STEP * times))
