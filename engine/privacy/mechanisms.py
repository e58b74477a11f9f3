"""Random mechanisms of DP-SGD: who is sampled, and the noise."""

import math

import numpy as np

from engine.seeds import KeyStream, Secrets, Seeds, Stream


def poisson_sample(random: Stream, examples: int, probability: float) -> np.ndarray:
    """Indices of the sampled examples, ascending, int64 [b]: each joins independently with ``probability``."""
    return np.flatnonzero(random.random(examples) < probability)


def shuffled_batch(streams: Seeds | Secrets, examples: int, batch_size: int, step: int) -> np.ndarray:
    """Batch number ``step`` (from 0) of an endless sequence of permutations, int64 [b]; an epoch's last is short."""
    epoch, batch = divmod(step, math.ceil(examples / batch_size))
    order = streams.stream("shuffle", epoch=epoch).permutation(examples)
    return order[batch * batch_size : (batch + 1) * batch_size]


def add_gaussian_noise(total: np.ndarray, random: KeyStream, std: float) -> None:
    """Add independent N(0, std²) draws to ``total``, float32 [n], in place; ``random`` gives their key."""
    from engine.privacy import (
        gaussian_sampler,  # Numba comes with it, which the pages, that plan with this file, do without
    )

    gaussian_sampler.add_normal(total, np.frombuffer(random.key, dtype="<u4"), np.float32(std))
