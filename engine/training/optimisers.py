"""How a gradient moves the weights: SGD, momentum (Polyak) and Adam (Kingma and Ba 2015), on one flat vector."""

import numpy as np
from numba import njit, prange

from engine.config import TrainingConfig
from engine.privacy.noise_check.kernels import picked

_MOMENTUM = 0.9
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8
_TINY = 1e-37
"""Below which float32 keeps fewer digits of a square."""


class Optimiser:
    """One optimiser and its state. first: how many of the weights, the first ones, it leaves alone. state: arrays by
    name, as long as the weights; kept in checkpoints."""

    def __init__(self, config: TrainingConfig, size: int, first: int = 0) -> None:
        self.config, self.first = config, first
        names = {"sgd": (), "momentum": ("velocity",), "adam": ("mean", "square")}[config.optimiser]
        self.state = {name: np.zeros(size, dtype=np.float32) for name in names}

    def look(self, weights: np.ndarray, where: slice, fixed: np.ndarray) -> dict[str, np.ndarray]:
        """Copies of the weights and of the state at a stretch and at some places (int [m]), float32 [k + m], for
        :meth:`gradient_between`."""
        seen = {"weights": weights, **self.state}
        return {name: picked(array, where.start, where.stop, fixed) for name, array in seen.items()}

    def gradient_between(
        self, before: dict[str, np.ndarray], after: dict[str, np.ndarray], step: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The gradient [k + m] that was applied between two looks, and how far rounding may have moved it, float64.

        Found by solving the update for it: from the weights where that is possible, in Adam from the first moment;
        NaN where the weights did not follow the moments, or these the gradient: what was put into a moment beside it
        moves the weights later.
        """
        rate, weights = self.config.learning_rate, (before["weights"], after["weights"])
        if self.config.optimiser == "sgd":
            return _sgd_gradient(*weights, rate)
        if self.config.optimiser == "momentum":
            return _momentum_gradient(*weights, before["velocity"], after["velocity"], rate)
        moments = (before["mean"], after["mean"], after["square"])
        found = _adam_gradient(*weights, *moments, rate, 1 - _BETA1 ** (step + 1), 1 - _BETA2 ** (step + 1))
        _hold_against(before["square"], after["square"], *found)
        return found

    def move(self, weights: np.ndarray, gradient: np.ndarray, step: int) -> None:
        """Change ``weights`` [size] in place by one step; ``step`` counts from 0."""
        rate = np.float32(self.config.learning_rate)
        weights, gradient = weights[self.first :], gradient[self.first :]
        state = {name: array[self.first :] for name, array in self.state.items()}
        if self.config.optimiser == "sgd":
            _sgd(weights, gradient, rate)
        elif self.config.optimiser == "momentum":
            _momentum(weights, gradient, state["velocity"], rate)
        else:
            mean_share, square_share = (np.float32(1 - beta ** (step + 1)) for beta in (_BETA1, _BETA2))
            _adam(weights, gradient, state["mean"], state["square"], rate, mean_share, square_share)


# A weight at a time, while it and what belongs to it are in the cache: with a million weights a tenth of the time that
# one operation after the other on all of them takes. Each is rounded by itself, so the digits are the same.


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _sgd(weights, gradient, rate):  # type: ignore[no-untyped-def]
    for i in prange(weights.size):
        weights[i] -= rate * gradient[i]


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _momentum(weights, gradient, velocity, rate):  # type: ignore[no-untyped-def]
    for i in prange(weights.size):
        velocity[i] = velocity[i] * np.float32(_MOMENTUM) + gradient[i]
        weights[i] -= rate * velocity[i]


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _adam(weights, gradient, mean, square, rate, mean_share, square_share):  # type: ignore[no-untyped-def]
    for i in prange(weights.size):
        mean[i] += np.float32(1 - _BETA1) * (gradient[i] - mean[i])
        square[i] += np.float32(1 - _BETA2) * (gradient[i] * gradient[i] - square[i])
        moved = rate * (mean[i] / mean_share)
        weights[i] -= moved / (np.sqrt(square[i] / square_share) + np.float32(_EPSILON))


# Sums are rounded by at most half their last digit, a share of 2⁻²⁴ of them; twice that leaves room.


@njit(cache=True, nogil=True)
def _sgd_gradient(before, after, rate):  # type: ignore[no-untyped-def]
    gradient, error = np.empty(before.size), np.empty(before.size)
    for i in range(before.size):
        old, new = np.float64(before[i]), np.float64(after[i])
        gradient[i] = (old - new) / rate
        error[i] = 2.0**-23 * max(abs(old), abs(new)) / rate + 2.0**-22 * abs(gradient[i])
    return gradient, error


@njit(cache=True, nogil=True)
def _momentum_gradient(before, after, velocity, new_velocity, rate):  # type: ignore[no-untyped-def]
    gradient, error = _sgd_gradient(before, after, rate)
    for i in range(before.size):
        kept, moved = _MOMENTUM * np.float64(velocity[i]), gradient[i]
        gradient[i] -= kept
        error[i] += 2.0**-22 * abs(kept)
        if not abs(moved - np.float64(new_velocity[i])) <= error[i]:
            gradient[i] = np.nan
    return gradient, error


@njit(cache=True, nogil=True)
def _adam_gradient(before, after, mean, new_mean, new_square, rate, mean_share, square_share):  # type: ignore[no-untyped-def]
    gradient, error = np.empty(before.size), np.empty(before.size)
    for i in range(before.size):
        old, new, moment = np.float64(before[i]), np.float64(after[i]), np.float64(new_mean[i])
        gradient[i] = np.float64(mean[i]) + (moment - np.float64(mean[i])) / (1 - _BETA1)
        error[i] = 2.0**-22 / (1 - _BETA1) * max(abs(np.float64(mean[i])), abs(moment)) + 2.0**-22 * abs(gradient[i])
        expected = rate * (moment / mean_share) / (np.sqrt(np.float64(new_square[i]) / square_share) + _EPSILON)
        if not abs(old - new - expected) <= 2.0**-23 * max(abs(old), abs(new)) + 1e-4 * abs(expected):
            gradient[i] = np.nan
    return gradient, error


@njit(cache=True, nogil=True)
def _hold_against(square, new_square, gradient, error):  # type: ignore[no-untyped-def]
    """NaN in place of a gradient that Adam's second moment did not follow."""
    for i in range(gradient.size):
        past, now = np.float64(square[i]), np.float64(new_square[i])
        learned = (1 - _BETA2) * gradient[i] ** 2
        unsure = (1 - _BETA2) * error[i] * (2 * abs(gradient[i]) + error[i]) + 2.0**-21 * (max(past, now) + learned)
        if not abs(now - (_BETA2 * past + learned)) <= unsure + _TINY:
            gradient[i] = np.nan


def compile_optimisers() -> None:
    """Compile for float32 and keep the result on disk."""
    some, one = np.zeros(2, dtype=np.float32), np.float32(1)
    _sgd(some, some, one)
    _momentum(some, some, some, one)
    _adam(some, some, some, some, one, one, one)
    _sgd_gradient(some, some, 1.0)
    _momentum_gradient(some, some, some, some, 1.0)
    _adam_gradient(some, some, some, some, some, 1.0, 1.0, 1.0)
    _hold_against(some, some, some.astype(np.float64), some.astype(np.float64))
