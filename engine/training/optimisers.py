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
