"""The moving average of weights, compared with its definition."""

import numpy as np
import pytest

from engine.training.averaging import Average


def test_average_is_weighted_mean_of_followed_weights() -> None:
    weights = np.array([1.0, 10.0], np.float32)
    average = Average(0.75, weights)
    seen = []
    for step in range(4):
        weights += step
        seen.append(weights.astype(np.float64))
        average.follow()
    shares = 0.75 ** np.arange(3, -1, -1)
    assert average.weights == pytest.approx(np.average(seen, axis=0, weights=shares), rel=1e-6)


def test_average_is_bitwise_equal_to_float32_operations() -> None:
    random = np.random.default_rng(0)
    weights = random.standard_normal(10_000).astype(np.float32)
    average, expected = Average(0.98, weights), np.zeros_like(weights)
    for _ in range(5):
        weights += random.standard_normal(weights.size).astype(np.float32)
        average.follow()
        expected += np.float32(1 - 0.98) * (weights - expected)
    assert np.array_equal(average.state["average"], expected)


def test_average_equals_weights_initially_and_without_decay() -> None:
    weights = np.ones(3, np.float32)
    assert Average(0.9, weights).weights is weights
    plain = Average(0.0, weights)
    plain.follow()
    assert plain.weights is weights
    assert plain.state == {}


def test_average_resumes_from_its_state() -> None:
    weights = np.array([2.0], np.float32)
    first = Average(0.5, weights)
    first.follow()
    second = Average(0.5, weights)
    second.state = {name: array.copy() for name, array in first.state.items()}
    weights[:] = 5.0
    first.follow()
    second.follow()
    assert first.weights == second.weights == pytest.approx((0.5 * 2 + 5) / 1.5)
