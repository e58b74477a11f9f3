"""Random mechanisms of DP-SGD: sampling and noise."""

import math

import numpy as np

from engine.seeds import KeyStream, Secrets, Seeds, Stream


def poisson_sample(random: Stream, examples: int, probability: float) -> np.ndarray:
    """Return the indices of the sampled examples, ascending, int64 [b]; each joins independently.

    Args:
        random: Stream of random numbers.
        examples: Number of examples, n.
        probability: Probability q of each example.
    """
    return np.flatnonzero(random.random(examples) < probability)


def shuffled_batch(streams: Seeds | Secrets, examples: int, batch_size: int, step: int) -> np.ndarray:
    """Return one batch of an endless sequence of permutations, int64 [b]; the last batch of an epoch may be short.

    Args:
        streams: Streams of the run.
        examples: Number of examples, n.
        batch_size: Examples in a batch.
        step: Number of the batch, from 0.
    """
    epoch, batch = divmod(step, math.ceil(examples / batch_size))
    order = streams.stream("shuffle", epoch=epoch).permutation(examples)
    return order[batch * batch_size : (batch + 1) * batch_size]


def add_gaussian_noise(total: np.ndarray, random: KeyStream, std: float) -> None:
    """Add independent N(0, std²) draws to ``total`` in place.

    Args:
        total: Array to change, float32 [n].
        random: Stream that gives the key of the draws.
        std: Standard deviation, in the unit of ``total``.
    """
    from engine.privacy import (
        gaussian_sampler,  # it imports Numba, which the pages that import this file do not need
    )

    gaussian_sampler.add_normal(total, np.frombuffer(random.key, dtype="<u4"), np.float32(std))
