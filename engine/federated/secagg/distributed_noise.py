"""Noise that nobody adds alone: how much each party adds, so that the sum of those who arrive has what was planned.

Independent Gaussian noises add up by their variances: of k shares with standard deviation s, the sum has √k·s. Nobody
knows beforehand who drops out, so shares are made for the fewest that a sum is opened for, and the more arrive, the
more noise there is (Truex et al. 2019, *A Hybrid Approach to Privacy-Preserving Federated Learning*, who share noise
among those who can be trusted).

A party that works with the server takes its own share out of the sum again. Against c such parties the noise of the
others protects, ``noise_of_sum(share, arrived - c)``: who fears them counts them among the dropped.
"""

import math

from engine import validation


def per_client_noise_std(noise_std: float, parties: int, dropped_most: int) -> float:
    """The standard deviation, per weight, of what each of ``parties`` adds, in the unit of the weights.

    noise_std: planned for the sum, σC: what it has if ``dropped_most`` parties are missing, and never less before that.
    Raises InvalidConfig where nobody could be left.
    """
    validation.number("noise_std", noise_std, 0, math.inf, "a finite number, 0 or more")
    validation.integer("parties", parties, 1, 1_000_000)
    validation.integer("dropped_most", dropped_most, 0, parties - 1)
    return noise_std / math.sqrt(parties - dropped_most)


def aggregate_noise_std(share: float, arrived: int) -> float:
    """The standard deviation, per weight, of the sum of ``arrived`` such shares: as planned where ``dropped_most`` are
    missing, √(parties / (parties − dropped_most)) times that where nobody is."""
    return share * math.sqrt(arrived)
