"""Secure aggregation of one round: noise share, quantisation grid and tolerated dropouts.

The server learns the sum of the updates and no single update (:mod:`engine.federated.secagg.protocol`). Each client
adds a share of the noise. The shares together have the planned noise even with the largest number of dropouts, and a
little more with fewer (:mod:`engine.federated.secagg.distributed_noise`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.errors import SecAggFailed, TrainingFailed
from engine.federated.secagg.distributed_noise import per_client_noise_std
from engine.federated.secagg.protocol import SecAggParams, SecAggResult, simulate_round
from engine.federated.secagg.quantization import FixedPoint
from engine.seeds import Secrets

_DROPOUT_DIVISOR = 3
"""One in three clients of a round may drop out, or reveal its share of the noise to the server."""


@dataclass(frozen=True)
class SecureRound:
    """The public parameters of secure aggregation in one round.

    Attributes:
        plan: Parameters of the protocol.
        grid: Quantisation of the uploads.
        share: Standard deviation, per weight, of the noise that each client adds.
        scale: Planned noise of the sum, as a multiple of ``share``.
    """

    plan: SecAggParams
    grid: FixedPoint
    share: float
    scale: float

    def upload(self, clipped: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return the unmasked upload of a client, float64 [weights].

        The update is put on the grid before the noise is added, so that rounding reveals nothing about the update.

        Args:
            clipped: Clipped update, [weights].
            noise: Noise share, [weights].
        """
        values: np.ndarray = self.grid.values(self.grid.integers(self.grid.truncate(clipped) + noise))
        return values

    def aggregate(self, uploads: Mapping[int, np.ndarray], secrets: Secrets) -> SecAggResult:
        """Return the sum of the uploads by the protocol.

        A client without an upload drops out after sending its shares, when the other clients have added masks for it.

        Args:
            uploads: Uploads by number of the client in the round.
            secrets: Source of the keys.

        Raises:
            TrainingFailed: If too few clients are left, or an upload does not fit.
        """
        dropped = [number for number in range(self.plan.parties) if number not in uploads]
        nothing = np.zeros(self.plan.weights)
        complete = dict.fromkeys(dropped, nothing) | dict(uploads)
        try:
            return simulate_round(self.plan, self.grid, complete, secrets=secrets, dropouts={"masked": dropped})
        except SecAggFailed as error:
            raise TrainingFailed(str(error)) from error


def secure_round(parties: int, weights: int, clip_norm: float, noise_std: float, round: int) -> SecureRound:
    """Return the parameters of secure aggregation in a round.

    Args:
        parties: Number of clients in the round.
        weights: Number of weights in an upload.
        clip_norm: C, the L2 norm bound of an update.
        noise_std: Planned standard deviation of the sum's noise, σC.
        round: Number of the round, from 0.

    Raises:
        InvalidConfig: If a value is out of range.
    """
    dropouts = max_dropouts(parties)
    share = per_client_noise_std(noise_std, parties, dropouts)
    plan = SecAggParams(parties=parties, weights=weights, max_dropouts=dropouts, round=round)
    grid = FixedPoint(parties=parties, clip_norm=clip_norm, noise_std=share)
    return SecureRound(plan, grid, share, math.sqrt(parties - dropouts))


def max_dropouts(parties: int) -> int:
    """Return how many clients of a round may drop out: a third, and always fewer than half."""
    return min(parties // _DROPOUT_DIVISOR, (parties - 1) // 2)


def bytes_of(result: SecAggResult) -> tuple[int, int]:
    """Return the bytes to and from all clients together, without the common weights that the server sends."""
    return _total(result.bytes_down), _total(result.bytes_up)


def _total(phases: Mapping[str, int]) -> int:
    return sum(phases.values())
