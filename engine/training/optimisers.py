"""How a gradient moves the weights: SGD, momentum (Polyak) and Adam (Kingma and Ba 2015), on one flat vector."""

import numpy as np

from engine.config import TrainingConfig

_MOMENTUM = 0.9
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8


class Optimiser:
    """One optimiser and its state. state: arrays by name, as long as the weights; kept in checkpoints."""

    def __init__(self, config: TrainingConfig, size: int) -> None:
        self.config = config
        names = {"sgd": (), "momentum": ("velocity",), "adam": ("mean", "square")}[config.optimiser]
        self.state = {name: np.zeros(size, dtype=np.float32) for name in names}

    def look(self, weights: np.ndarray, where: np.ndarray) -> dict[str, np.ndarray]:
        """Copies of the weights and of the state at some coordinates (int [k]), float64, for
        :meth:`gradient_between`."""
        seen = {"weights": weights, **self.state}
        return {name: array[where].astype(np.float64) for name, array in seen.items()}

    def gradient_between(
        self, before: dict[str, np.ndarray], after: dict[str, np.ndarray], step: int
    ) -> tuple[np.ndarray, float]:
        """The gradient [k] that was applied between two looks, and the standard deviation of its error by rounding.

        Found by solving the update for it: from the weights where that is possible, in Adam from the first moment;
        NaN where the weights did not follow the moments.
        """
        rate, moved = self.config.learning_rate, before["weights"] - after["weights"]
        # A weight is rounded to a multiple of its spacing: evenly spread over it, hence 1/√12.
        spacing = np.spacing(np.abs(after["weights"]).astype(np.float32)).astype(np.float64)
        rounding = float(np.sqrt(np.mean(spacing**2) / 12)) if len(spacing) else 0.0
        if self.config.optimiser == "sgd":
            return moved / rate, rounding / rate
        if self.config.optimiser == "momentum":
            return moved / rate - _MOMENTUM * before["velocity"], rounding / rate
        gradient = before["mean"] + (after["mean"] - before["mean"]) / (1 - _BETA1)
        unbiased_mean = after["mean"] / (1 - _BETA1 ** (step + 1))
        unbiased_square = after["square"] / (1 - _BETA2 ** (step + 1))
        expected = rate * unbiased_mean / (np.sqrt(unbiased_square) + _EPSILON)
        followed = np.abs(moved - expected) <= spacing + 1e-4 * np.abs(expected)
        return np.where(followed, gradient, np.nan), 0.0

    def move(self, weights: np.ndarray, gradient: np.ndarray, step: int) -> None:
        """Change ``weights`` [size] in place by one step; ``step`` counts from 0."""
        rate = np.float32(self.config.learning_rate)
        if self.config.optimiser == "sgd":
            weights -= rate * gradient
        elif self.config.optimiser == "momentum":
            velocity = self.state["velocity"]
            velocity *= np.float32(_MOMENTUM)
            velocity += gradient
            weights -= rate * velocity
        else:
            mean, square = self.state["mean"], self.state["square"]
            mean += np.float32(1 - _BETA1) * (gradient - mean)
            square += np.float32(1 - _BETA2) * (gradient * gradient - square)
            unbiased_mean = mean / np.float32(1 - _BETA1 ** (step + 1))
            unbiased_square = square / np.float32(1 - _BETA2 ** (step + 1))
            weights -= rate * unbiased_mean / (np.sqrt(unbiased_square) + np.float32(_EPSILON))
