"""Which numbers a secure sum has room for."""

from engine.config import SimulationConfig
from engine.federated.secagg.aggregation_round import max_dropouts
from engine.federated.secagg.distributed_noise import per_client_noise_std
from engine.federated.secagg.quantization import DEVIATIONS

_PLAIN = 8.0
"""Weights of a tagger, and so their changes, stay well within."""


def span(config: SimulationConfig) -> float:
    """The largest change of a weight, on either side of zero, that an upload has room for; more is cut off, after the
    noise. Where whole clients are protected: the clip norm and ten standard deviations of a client's noise."""
    privacy, clients = config.privacy, config.federation.clients
    if not (privacy.kind.client_level and privacy.private and privacy.clip_norm):
        return _PLAIN
    std = privacy.noise_multiplier * privacy.clip_norm
    if privacy.kind.distributed_noise:
        std = per_client_noise_std(std, clients, max_dropouts(clients))
    return privacy.clip_norm + DEVIATIONS * std
