"""Range of the numbers in a secure aggregation."""

from engine.config import SimulationConfig
from engine.federated.secagg.aggregation_round import max_dropouts
from engine.federated.secagg.distributed_noise import per_client_noise_std
from engine.federated.secagg.quantization import DEVIATIONS

_PLAIN = 8.0
"""Bound on the absolute weights of a tagger, and so on their changes, with a wide margin."""


def span(config: SimulationConfig) -> float:
    """Return the largest absolute change of a weight in an upload; larger changes are clipped after the noise.

    For client-level mechanisms it is the clip norm plus ten standard deviations of a client's noise.
    """
    privacy, clients = config.privacy, config.federation.clients
    if not (privacy.protects_clients and privacy.clip_norm):
        return _PLAIN
    std = privacy.noise_multiplier * privacy.clip_norm
    if privacy.kind.distributed_noise:
        std = per_client_noise_std(std, clients, max_dropouts(clients))
    return privacy.clip_norm + DEVIATIONS * std
