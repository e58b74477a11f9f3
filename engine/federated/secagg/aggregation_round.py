"""The secure sum of one round: how much noise each client adds, on which grid its update stands, and how many of the
round's clients may vanish.

The server opens the sum of the updates and never sees one (:mod:`engine.federated.secagg.protocol`). Each client adds a
share of the noise, and all shares together have what was planned, even where as many as may vanish are missing; where
nobody does, there is a little more (:mod:`engine.federated.secagg.distributed_noise`).
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

_MAY_VANISH = 3
"""One of so many clients of a round may vanish, or tell the server its share of the noise."""


@dataclass(frozen=True)
class SecureRound:
    """What all know of it beforehand. plan: of the sum; grid: of the uploads; share: standard deviation, per weight, of
    the noise that each client adds; scale: what the noise planned for the sum is of that."""

    plan: SecAggParams
    grid: FixedPoint
    share: float
    scale: float

    def upload(self, clipped: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """What a client puts under its masks, float64 [weights]: its clipped update, on the grid before its noise is
        added, so that rounding tells nothing of it."""
        values: np.ndarray = self.grid.values(self.grid.integers(self.grid.shortened(clipped) + noise))
        return values

    def opened(self, uploads: Mapping[int, np.ndarray], secrets: Secrets) -> SecAggResult:
        """The sum, by the protocol, of uploads by the numbers of their parties. Who has none has vanished after its
        letters, when others have put masks on theirs for it. Raises TrainingFailed where too few are left, or an upload
        does not fit."""
        vanished = [number for number in range(self.plan.parties) if number not in uploads]
        nothing = np.zeros(self.plan.weights)
        every = dict.fromkeys(vanished, nothing) | dict(uploads)
        try:
            return simulate_round(self.plan, self.grid, every, secrets=secrets, vanish={"masked": vanished})
        except SecAggFailed as error:
            raise TrainingFailed(str(error)) from error


def secure_round(parties: int, weights: int, clip_norm: float, noise_std: float, round: int) -> SecureRound:
    """Of so many clients with so many weights. noise_std: planned for the sum, σC. Raises InvalidConfig."""
    dropped = max_dropouts(parties)
    share = per_client_noise_std(noise_std, parties, dropped)
    plan = SecAggParams(parties=parties, weights=weights, max_dropouts=dropped, round=round)
    grid = FixedPoint(parties=parties, clip_norm=clip_norm, noise_std=share)
    return SecureRound(plan, grid, share, math.sqrt(parties - dropped))


def max_dropouts(parties: int) -> int:
    """How many of a round's clients may, always fewer than half."""
    return min(parties // _MAY_VANISH, (parties - 1) // 2)


def bytes_of(opened: SecAggResult) -> tuple[int, int]:
    """Bytes to and from all clients together, beside the weights that they were sent."""
    return _total(opened.bytes_down), _total(opened.bytes_up)


def _total(phases: Mapping[str, int]) -> int:
    return sum(phases.values())
