"""Optimisers on one flat vector of weights: SGD, momentum (Polyak) and Adam (Kingma and Ba 2015)."""

import numpy as np
from numba import njit, prange

from engine.config import TrainingConfig
from engine.privacy.noise_check.kernels import picked

_MOMENTUM = 0.9
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8
_TINY = 1e-37
"""Value below which float32 has fewer digits (subnormal numbers)."""


class Optimiser:
    """An optimiser with its state.

    Attributes:
        config: training settings.
        first: number of leading weights that it does not change.
        state: arrays by name, each [size], saved in checkpoints.
    """

    def __init__(self, config: TrainingConfig, size: int, first: int = 0) -> None:
        self.config, self.first = config, first
        names = {"sgd": (), "momentum": ("velocity",), "adam": ("mean", "square")}[config.optimiser]
        self.state = {name: np.zeros(size, dtype=np.float32) for name in names}

    def look(self, weights: np.ndarray, where: slice, fixed: np.ndarray) -> dict[str, np.ndarray]:
        """Copy a part of the weights and of the state for :meth:`gradient_between`.

        Args:
            weights: float32 [size].
            where: a contiguous range of k weights.
            fixed: indices of further weights, int [m].

        Returns:
            Copies by name, each float32 [k + m].
        """
        seen = {"weights": weights, **self.state}
        return {name: picked(array, where.start, where.stop, fixed) for name, array in seen.items()}

    def gradient_between(
        self, before: dict[str, np.ndarray], after: dict[str, np.ndarray], step: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient applied between two copies and its largest rounding error, float64 [k + m] each.

        The update is solved for the gradient: by the weights where possible, in Adam by the first moment. The gradient
        is NaN where the weights do not follow the moments, or the moments do not follow the gradient. Any other value
        added to a moment would change the weights later.

        Args:
            before: copies from :meth:`look` before the step.
            after: copies from :meth:`look` after the step.
            step: number of the step.
        """
        rate, weights = self.config.learning_rate, (before["weights"], after["weights"])
        if self.config.optimiser == "sgd":
            return _sgd_gradient(*weights, rate)
        if self.config.optimiser == "momentum":
            return _momentum_gradient(*weights, before["velocity"], after["velocity"], rate)
        moments = (before["mean"], after["mean"], after["square"])
        result = _adam_gradient(*weights, *moments, rate, 1 - _BETA1 ** (step + 1), 1 - _BETA2 ** (step + 1))
        _hold_against(before["square"], after["square"], *result)
        return result

    def move(self, weights: np.ndarray, gradient: np.ndarray, step: int) -> None:
        """Change the weights in place by one step.

        Args:
            weights: float32 [size].
            gradient: float32 [size].
            step: number of the step, from 0.
        """
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


# One weight at a time, while it and its state are in the cache. With a million weights this takes a tenth of the time
# of separate array operations. The rounding of each weight is the same.


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


# Rounding changes a sum by at most half its last digit, a relative error of 2⁻²⁴; the bounds use twice that.


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
    """Set the gradient to NaN where Adam's second moment did not follow it."""
    for i in range(gradient.size):
        past, now = np.float64(square[i]), np.float64(new_square[i])
        learned = (1 - _BETA2) * gradient[i] ** 2
        unsure = (1 - _BETA2) * error[i] * (2 * abs(gradient[i]) + error[i]) + 2.0**-21 * (max(past, now) + learned)
        if not abs(now - (_BETA2 * past + learned)) <= unsure + _TINY:
            gradient[i] = np.nan


def compile_optimisers() -> None:
    """Compile the functions of this module for float32 and cache the result on disk."""
    some, one = np.zeros(2, dtype=np.float32), np.float32(1)
    _sgd(some, some, one)
    _momentum(some, some, some, one)
    _adam(some, some, some, some, one, one, one)
    _sgd_gradient(some, some, 1.0)
    _momentum_gradient(some, some, some, some, 1.0)
    _adam_gradient(some, some, some, some, some, 1.0, 1.0, 1.0)
    _hold_against(some, some, some.astype(np.float64), some.astype(np.float64))
