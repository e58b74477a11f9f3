"""Optimiser steps, and their inversion from the weights, compared with the published formulas in float64."""

import math

import numpy as np
import pytest

from engine.config import TrainingConfig
from engine.training import optimisers
from engine.training.optimisers import Optimiser

NAMES = ("sgd", "momentum", "adam")
RATE = 0.125
FIXED = np.array([0, 3])
NONE = np.zeros(0, dtype=np.int64)


def optimiser_of(name: str, size: int = 1, rate: float = RATE) -> Optimiser:
    return Optimiser(TrainingConfig(optimiser=name, learning_rate=rate), size)


def by_formula(name: str, weights: np.ndarray, gradients: np.ndarray, rate: float = RATE) -> np.ndarray:
    """Return the weights after these gradients [steps, size]: Polyak 1964 with 0.9, Kingma and Ba 2015 with 0.9, 0.999,
    1e-8."""
    weights, first, second = (np.array(array, dtype=np.float64) for array in (weights, 0 * weights, 0 * weights))
    for number, gradient in enumerate(gradients.astype(np.float64), start=1):
        if name == "adam":
            first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
            weights -= rate * (first / (1 - 0.9**number)) / (np.sqrt(second / (1 - 0.999**number)) + 1e-8)
        else:
            first = (0.9 if name == "momentum" else 0.0) * first + gradient
            weights -= rate * first
    return weights


@pytest.mark.parametrize("scale", [1.0, 1e-8])
@pytest.mark.parametrize("name", NAMES)
def test_weights_equal_published_formulas(name: str, scale: float) -> None:
    """With gradients of 1e-8, the ε of Adam halves its steps."""
    random = np.random.default_rng(0)
    gradients = (scale * random.standard_normal((9, 6))).astype(np.float32)
    start = (scale * random.standard_normal(6) if name != "adam" else np.zeros(6)).astype(np.float32)
    weights, optimiser = start.copy(), optimiser_of(name, 6)
    for step, gradient in enumerate(gradients):
        optimiser.move(weights, gradient, step)
        expected = by_formula(name, start, gradients[: step + 1])
        np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


def by_operations(name: str, weights: np.ndarray, state: list[np.ndarray], gradient: np.ndarray, step: int) -> None:
    """Take one step by operations on whole arrays, each rounded separately, as published runs did."""
    rate, float32 = np.float32(RATE), np.float32
    if name == "sgd":
        weights -= rate * gradient
    elif name == "momentum":
        (velocity,) = state
        velocity *= float32(0.9)
        velocity += gradient
        weights -= rate * velocity
    else:
        mean, square = state
        mean += float32(1 - 0.9) * (gradient - mean)
        square += float32(1 - 0.999) * (gradient * gradient - square)
        unbiased = square / float32(1 - 0.999 ** (step + 1))
        weights -= rate * (mean / float32(1 - 0.9 ** (step + 1))) / (np.sqrt(unbiased) + float32(1e-8))


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_bitwise_equal_to_array_operations(name: str) -> None:
    """With a tagger's size and gradients of all sizes: no compiler contracts two operations to one rounding."""
    random, size = np.random.default_rng(3), 300_000
    optimiser, weights = optimiser_of(name, size), random.standard_normal(size).astype(np.float32)
    expected, state = weights.copy(), [array.copy() for array in optimiser.state.values()]
    for step in range(5):
        gradient = (10.0 ** random.uniform(-12, 3, size) * random.standard_normal(size)).astype(np.float32)
        optimiser.move(weights, gradient, step)
        by_operations(name, expected, state, gradient, step)
        np.testing.assert_array_equal(weights, expected)
        for mine, its in zip(optimiser.state.values(), state, strict=True):
            np.testing.assert_array_equal(mine, its)


@pytest.mark.parametrize(("name", "kept"), [("sgd", []), ("momentum", ["velocity"]), ("adam", ["mean", "square"])])
def test_look_copies_weights_and_state(name: str, kept: list[str]) -> None:
    optimiser, weights = optimiser_of(name, 8), np.arange(8, dtype=np.float32)
    optimiser.move(weights, np.ones(8, dtype=np.float32), 0)
    seen = optimiser.look(weights, slice(4, 7), FIXED)
    assert list(seen) == ["weights", *kept]
    assert list(optimiser.state) == kept
    for title, array in {"weights": weights, **optimiser.state}.items():
        np.testing.assert_array_equal(seen[title], array[[4, 5, 6, 0, 3]])
        assert array.any()
    before = seen["weights"].copy()
    weights += 1
    np.testing.assert_array_equal(seen["weights"], before)  # a copy


@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("name", NAMES)
def test_gradient_between_recovers_the_applied_gradient(name: str, scale: float) -> None:
    """Within the possible rounding error, which is at most a few last digits."""
    random = np.random.default_rng(1)
    weights, optimiser = random.standard_normal(4000).astype(np.float32), optimiser_of(name, 4000)
    everything, looks = slice(0, 4000), []
    for step in range(7):
        gradient = (scale * random.standard_normal(4000)).astype(np.float32)
        before = optimiser.look(weights, everything, NONE)
        optimiser.move(weights, gradient, step)
        after = optimiser.look(weights, everything, NONE)
        found, error = optimiser.gradient_between(before, after, step)
        off = np.abs(found - gradient)
        assert (off <= error).all(), step
        looks.append(off.max() / error.max())
    assert found.dtype == error.dtype == np.float64
    assert max(looks) > 0.1


def between(name: str, rate: float, step: int = 0, **arrays: tuple[float, float]) -> tuple[float, float]:
    """Return the gradient and its error from one weight's values before and after."""
    before, after = (
        {title: np.array([pair[when]], dtype=np.float32) for title, pair in arrays.items()} for when in (0, 1)
    )
    gradient, error = optimiser_of(name, 1, rate).gradient_between(before, after, step)
    return float(gradient[0]), float(error[0])


def test_rounding_error_of_sgd() -> None:
    """2⁻²³ of the larger weight, divided by the rate, and 2⁻²² of the gradient."""
    for one, other in ((1.0, -4.0), (-4.0, 1.0), (-1.0, 4.0)):
        gradient, error = between("sgd", 0.5, weights=(one, other))
        assert gradient == (one - other) / 0.5
        assert error == 2**-23 * 4 / 0.5 + 2**-22 * 10
    assert between("sgd", 0.25, weights=(3.0, 3.0)) == (0.0, 2**-23 * 3 / 0.25)


@pytest.mark.parametrize("velocity", [8.0, -8.0])
def test_rounding_error_of_momentum(velocity: float) -> None:
    """As with SGD, plus 2⁻²² of the subtracted velocity."""
    gradient, error = between("momentum", 0.5, weights=(1.0, -4.0), velocity=(velocity, 10.0))
    assert gradient == pytest.approx(10 - 0.9 * velocity, rel=1e-15)
    assert error == pytest.approx(2**-23 * 4 / 0.5 + 2**-22 * 10 + 2**-22 * 0.9 * 8, rel=1e-12)


def adam_moved(mean: float, square: float, rate: float, step: int) -> float:
    """Return the movement of a weight by Adam with these moments after the step."""
    return rate * mean / (1 - 0.9 ** (step + 1)) / (math.sqrt(square / (1 - 0.999 ** (step + 1))) + 1e-8)


def square_before(gradient: float, after: float) -> float:
    """Return Adam's second moment before a step with this gradient that led to ``after``."""
    return (after - 0.001 * gradient**2) / 0.999


@pytest.mark.parametrize(("old", "new"), [(1.0, 2.0), (2.0, 1.0), (-1.0, -2.0), (-2.0, 1.0), (1.0, -2.0)])
@pytest.mark.parametrize("step", [0, 4])
def test_rounding_error_of_adam(old: float, new: float, step: int) -> None:
    """The gradient contributes a tenth to the first moment: ten times 2⁻²² of the larger one, plus 2⁻²² of itself."""
    moved = adam_moved(new, 4.0, 0.5, step)
    exact = old + 10 * (new - old)
    kept = {"mean": (old, new), "square": (square_before(exact, 4.0), 4.0)}
    gradient, error = between("adam", 0.5, step, weights=(1.0, 1.0 - moved), **kept)
    assert gradient == pytest.approx(exact, rel=1e-12)
    assert error == pytest.approx(2**-22 * (10 * 2 + abs(exact)), rel=1e-12)


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("way", [1, -1])
def test_weights_inconsistent_with_adam_moments_give_nan(side: int, way: int) -> None:
    """Allowed: 1e-4 of the step, and 2⁻²³ of the larger weight."""
    moved = way * adam_moved(2.0, 4.0, 0.5, 3)
    kept = {"mean": (1.0 * way, 2.0 * way), "square": (square_before(11.0, 4.0), 4.0)}
    for off, followed in ((0.9e-4, True), (1.1e-4, False), (0.5, False), (-1.0, False), (-2.0, False)):
        after = -moved * (1 + side * off)
        found, _ = between("adam", 0.5, 3, weights=(0.0, after), **kept)
        assert math.isnan(found) != followed, off
    # A large weight, in last digits: 2⁻²³ of it is one or two of them.
    still = {"mean": (0.0, 0.0), "square": (square_before(0.0, 1.0), 1.0)}
    digit = 2.0**-23
    for old, new, followed in (
        (side * 1.5, side * (1.5 + digit), True),
        (side * 1.5, side * (1.5 - digit), True),
        (side * (1.5 + digit), side * 1.5, True),
        (side * 1.5, side * (1.5 + 2 * digit), False),
        (side * 1.5, side * (1.5 - 2 * digit), False),
        (side * 1.5, -side * 1.5, False),
        (side * 2.0, side * (2.0 - digit), True),
        (side * (2.0 - digit), side * 2.0, True),
        (side * (2.0 - 2 * digit), side * 2.0, True),
        (side * 2.0, side * (2.0 - 2 * digit), True),
        (side * 1.0, side * (1.0 + digit), True),
        (side * (1.0 + digit), side * 1.0, True),
    ):
        assert math.isnan(between("adam", 0.5, 3, weights=(old, new), **still)[0]) != followed, (old, new)


@pytest.mark.parametrize(("off", "followed"), [(0.0, True), (1e-7, True), (1e-4, False), (-1e-4, False), (-2.0, False)])
def test_moments_inconsistent_with_gradient_give_nan(off: float, followed: bool) -> None:
    """An additional term in Adam's second moment, or in the velocity, moves the weights at later steps."""
    moved = adam_moved(2.0, 4.0, 0.5, 3)
    for before in (0.0, 1.0, 2.0):  # gradients of 20, 11 and 2
        old = square_before(before + 10 * (2.0 - before), 4.0)
        kept = {"mean": (before, 2.0), "square": (old * (1 + off), 4.0)}
        assert math.isnan(between("adam", 0.5, 3, weights=(1.0, 1.0 - moved), **kept)[0]) != followed or not old
    found, _ = between("momentum", 0.5, weights=(1.0, -4.0), velocity=(8.0, 10.0 * (1 + off)))
    assert math.isnan(found) != followed


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [1e-25, 1e-12, 1e-3, 1e9])
def test_correct_moments_are_accepted_at_any_scale(name: str, scale: float) -> None:
    random = np.random.default_rng(3)
    weights, optimiser = random.standard_normal(4000).astype(np.float32), optimiser_of(name, 4000, 0.02)
    for step in range(30):
        gradient = (scale * random.standard_normal(4000) * (random.random(4000) < 0.5)).astype(np.float32)
        before = optimiser.look(weights, slice(0, 4000), NONE)
        optimiser.move(weights, gradient * np.float32(100 if step % 7 == 0 else 1), step)
        after = optimiser.look(weights, slice(0, 4000), NONE)
        assert np.isfinite(optimiser.gradient_between(before, after, step)[0]).all()


def test_nan_stays_nan() -> None:
    for name, kept in (("sgd", {}), ("momentum", {"velocity": (0.0, 0.0)})):
        assert math.isnan(between(name, 0.5, weights=(0.0, math.nan), **kept)[0])
    assert math.isnan(between("adam", 0.5, weights=(0.0, math.nan), mean=(0.0, 0.1), square=(0.0, 1.0))[0])


def test_state_begins_at_zero_and_is_float32() -> None:
    for name in NAMES:
        for array in optimiser_of(name, 5).state.values():
            assert array.dtype == np.float32
            assert array.shape == (5,)
            assert not array.any()


def test_compile_optimisers_covers_the_calls_of_a_run() -> None:
    optimisers.compile_optimisers()
    every = ("_sgd", "_momentum", "_adam", "_sgd_gradient", "_momentum_gradient", "_adam_gradient", "_hold_against")
    for function in (vars(optimisers)[name] for name in every):
        compiled = set(function.signatures)
        for name in NAMES:
            zeros = {title: np.zeros(1, dtype=np.float32) for title in ("weights", *optimiser_of(name).state)}
            optimiser_of(name).gradient_between(zeros, zeros, 0)
            optimiser_of(name).move(np.zeros(1, dtype=np.float32), np.zeros(1, dtype=np.float32), 0)
        assert set(function.signatures) == compiled
