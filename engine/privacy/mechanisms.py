"""Random mechanisms of DP-SGD: who is sampled, and the noise."""

import math

import numpy as np

from engine.seeds import Seeds


def poisson_sample(random: np.random.Generator, examples: int, probability: float) -> np.ndarray:
    """Indices of the sampled examples, ascending, int64 [b]: each joins independently with ``probability``."""
    return np.flatnonzero(random.random(examples) < probability)


def shuffled_batch(seeds: Seeds, examples: int, batch_size: int, step: int) -> np.ndarray:
    """Batch number ``step`` (from 0) of an endless sequence of permutations, int64 [b]; an epoch's last is short."""
    epoch, batch = divmod(step, math.ceil(examples / batch_size))
    order = seeds.stream("shuffle", epoch=epoch).permutation(examples)
    return order[batch * batch_size : (batch + 1) * batch_size]


def gaussian_noise(random: np.random.Generator, size: int, std: float) -> np.ndarray:
    """Independent N(0, std²) draws, float32 [size]."""
    return random.standard_normal(size, dtype=np.float32) * np.float32(std)
