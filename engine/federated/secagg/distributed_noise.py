"""Distributed noise: the share of the noise that each client adds, so that the sum has at least the planned noise.

The variances of independent Gaussian noises add up: the sum of k shares with standard deviation s has √k·s. Dropouts
are unknown beforehand, so shares are sized for the least number of uploads that a sum is unmasked for; more uploads
give more noise. Truex et al. 2019 (*A Hybrid Approach to Privacy-Preserving Federated Learning*) share the noise among
trusted clients in this way.

A client that colludes with the server reveals its share, which can be subtracted from the sum. With c such clients, the
remaining noise is ``aggregate_noise_std(share, arrived - c)``; to allow for them, count them as dropouts.
"""

import math

from engine import validation


def per_client_noise_std(noise_std: float, parties: int, max_dropouts: int) -> float:
    """Return the standard deviation of a client's noise share, per weight, in the unit of the weights.

    Args:
        noise_std: Planned standard deviation of the sum's noise, σC. The sum has it with ``max_dropouts`` dropouts, and
            more with fewer.
        parties: Number of clients in the round.
        max_dropouts: Largest number of clients that may drop out.

    Raises:
        InvalidConfig: If a value is out of range, or no client would be left.
    """
    validation.number("noise_std", noise_std, 0, math.inf, "a finite number, 0 or more")
    validation.integer("parties", parties, 1, 1_000_000)
    validation.integer("max_dropouts", max_dropouts, 0, parties - 1)
    return noise_std / math.sqrt(parties - max_dropouts)


def aggregate_noise_std(share: float, arrived: int) -> float:
    """Return the standard deviation, per weight, of the sum of ``arrived`` shares.

    It is the planned one with ``max_dropouts`` dropouts, and √(parties / (parties − max_dropouts)) times that without
    any.
    """
    return share * math.sqrt(arrived)
