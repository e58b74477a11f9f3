"""Privacy of fixed batches of a permutation, by enumeration: all permutations of a small corpus, all positions of an
additional sentence, and the two distributions that an attacker must distinguish."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import norm

from engine.config import PrivacyConfig, SimulationConfig, TrainingConfig
from engine.privacy.accounting import gaussian_epsilon, shuffled_epsilon
from engine.privacy.mechanisms import shuffled_batch
from engine.privacy.plan import PrivacyPlan

Order = tuple[int, ...]


class Fixed:
    """A stream with a known permutation."""

    def __init__(self, order: Order) -> None:
        self._order = order

    def stream(self, name: str, **keys: int) -> "Fixed":
        return self

    def permutation(self, size: int) -> np.ndarray:
        assert size == len(self._order)
        return np.array(self._order)


def batches(order: Order, batch_size: int, number: int) -> list[set[int]]:
    """Return the batches of an epoch as in training, padded with empty ones to ``number``."""
    taken = math.ceil(len(order) / batch_size)
    found = [shuffled_batch(Fixed(order), len(order), batch_size, step) for step in range(taken)]
    return [set(batch.tolist()) for batch in found] + [set()] * (number - taken)


def coupled(order: Order, place: int) -> Order:
    """Insert one sentence, number n, at ``place``; the previous one there moves to the end."""
    n = len(order)
    return (*order, n) if place == n else (*order[:place], n, *order[place + 1 :], order[place])


def pairs(n: int) -> Iterator[tuple[Order, Order]]:
    for order in itertools.permutations(range(n)):
        for place in range(n + 1):
            yield order, coupled(order, place)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_coupling_is_uniform_over_permutations(n: int) -> None:
    found = Counter(other for _, other in pairs(n))
    assert set(found) == set(itertools.permutations(range(n + 1)))
    assert set(found.values()) == {1}


@pytest.mark.parametrize(
    ("n", "batch_size", "squared"), [(4, 2, 5), (5, 2, 5), (5, 3, 5), (6, 3, 5), (4, 1, 5), (4, 5, 1), (3, 7, 1)]
)
def test_sensitivity_of_an_epoch_is_at_most_root_five(n: int, batch_size: int, squared: int) -> None:
    """Sums of vectors with norm at most 1, in the worst case: the distance of two sums is the size of the difference of
    their sets."""
    number = math.ceil((n + 1) / batch_size)
    largest = 0
    for order, other in pairs(n):
        both = zip(batches(order, batch_size, number), batches(other, batch_size, number), strict=True)
        apart = [len(one ^ two) for one, two in both]
        assert max(apart) <= 2
        assert sum(moved > 0 for moved in apart) <= 2
        largest = max(largest, sum(moved**2 for moved in apart))
    assert largest == squared


@pytest.mark.parametrize("sigma", [0.7, 2.0])
def test_claimed_epsilon_bounds_true_delta_of_toy_example(sigma: float) -> None:
    """One sentence alone, or with an opposite one, one per batch: the true δ at the claimed ε, by summing two densities
    in float64, in both directions."""
    delta, axis = 1e-3, np.linspace(-8 * sigma - 1, 8 * sigma + 1, 1201)
    cell = (axis[1] - axis[0]) ** 2

    def density(*means: tuple[float, float]) -> np.ndarray:
        both = [np.outer(norm.pdf(axis, first, sigma), norm.pdf(axis, second, sigma)) for first, second in means]
        return sum(both) / len(means)  # type: ignore[return-value]

    alone, together = density((1, 0)), density((1, -1), (-1, 1))

    def true_delta(epsilon: float) -> float:
        odds = math.exp(epsilon)
        return float(max(np.maximum(0, p - odds * q).sum() for p, q in ((alone, together), (together, alone))) * cell)

    config = SimulationConfig(
        training=TrainingConfig(batch_size=1, epochs=1),
        privacy=PrivacyConfig(noise_multiplier=sigma, sampling="shuffle", delta=delta),
    )
    claimed = shuffled_epsilon(PrivacyPlan.from_config(config, 1), 1)
    assert true_delta(claimed) <= delta
    # The test has power: if only one batch moved by C, the guarantee would be violated.
    assert true_delta(gaussian_epsilon(1 / sigma, delta)) > delta
