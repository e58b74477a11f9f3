"""The server of a federated run: FederatedAveraging and its private variants.

*FederatedAveraging* (McMahan et al. 2017, algorithm 1): the new weights are the mean of the clients' weights, with
weights by examples or equal ones: w + Σ a_k (w_k − w) / Σ a_k. *DP-FedAvg* (McMahan et al. 2018, algorithm 1, with
fixed denominator): the server scales each update w_k − w down to L2 norm C and adds N(0, σ²C²) to each weight of the
sum. It divides the sum by the expected number of participants. *Local*: each client adds that noise to its own clipped
update before sending it (:mod:`engine.federated.client_update`), and the server takes the mean. *Secure aggregation*:
updates are masked, and the server unmasks only their sum (:mod:`engine.federated.secagg.aggregation_round`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.federated.client_update import clip, server_noise
from engine.federated.plan import FederatedPlan
from engine.federated.secagg.aggregation_round import SecureRound, bytes_of
from engine.seeds import Secrets, Seeds

BYTES_PER_WEIGHT = 4
"""Bytes of a weight in messages, which have float32."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One round as the server sees it.

    Attributes:
        clients: Clients that sent an update.
        drift: Root mean square, over these clients, of the L2 distance of their weights from the unweighted mean; 0
            under secure aggregation.
        norms: L2 norms of the updates before clipping; empty under secure aggregation.
        signal: L2 norm of the sum of the clipped and weighted updates.
        bytes_down: Bytes sent to clients: weights, and keys and shares of secure aggregation.
        bytes_up: Bytes received from clients, likewise.
    """

    clients: tuple[int, ...]
    drift: float
    norms: tuple[float, ...]
    signal: float
    bytes_down: int
    bytes_up: int


class Server:
    """The server, which aggregates the updates of each round.

    Attributes:
        plan: The federated plan.
        weights: Common weights, [size]; :meth:`finish` changes them in place.
    """

    def __init__(self, plan: FederatedPlan, weights: np.ndarray, streams: Secrets | Seeds) -> None:
        """Start the first round.

        Args:
            plan: The federated plan.
            weights: Common weights, [size].
            streams: Random streams of the run.
        """
        self.plan, self.weights, self._streams = plan, weights, streams
        self._sum, self._plain = np.zeros(weights.size), np.zeros(weights.size)
        self._clients: list[int] = []
        self.begin()

    def begin(self) -> None:
        """Start a round, and discard the updates of an unfinished one."""
        if self._clients:
            self._sum[:], self._plain[:] = 0, 0
        self._squares, self._share = 0.0, 0.0
        self._clients = []
        self._norms: list[float] = []
        self._secure_uploads: list[np.ndarray] = []

    def receive(self, client: int, update: np.ndarray, examples: int) -> None:
        """Receive the message of a client.

        Args:
            client: Number of the client.
            update: Its message, float64 [size].
            examples: Number of sentences that it trained on.
        """
        self._clients.append(client)
        if self.plan.mechanism.distributed_noise and self.plan.server:
            self._secure_uploads.append(update)  # :meth:`finish` masks them; the server reads none of them
            return
        norm = float(np.linalg.norm(update))
        self._plain += update
        self._squares += norm**2
        self._norms.append(norm)
        if self.plan.server and not self.plan.local:
            update = clip(update, self.plan.server.clip_norm)
        share = 1.0 if self.plan.equal else float(examples)
        self._sum += share * update
        self._share += share

    def finish(self, round: int) -> Exchange:
        """Aggregate the received updates into the weights.

        Without an update, the weights change only by the server's noise. Raises TrainingFailed if secure aggregation
        fails.
        """
        if secure := self.plan.secure_round(round, self.weights.size):
            return self._aggregate_securely(secure, [visit.client for visit in self.plan.rounds[round]])
        received, server = len(self._clients), self.plan.server
        signal = float(np.linalg.norm(self._sum))
        if server and not self.plan.local:
            noise = server_noise(self.plan, self.weights.size, self._streams, round=round)
            self.weights[:] = self.weights + (self._sum + noise) / server.batch_size
        elif received:
            self._sum /= self._share
            self.weights += self._sum
        self._plain /= max(1, received)
        drift = self._squares / max(1, received) - float(self._plain @ self._plain)
        sent = BYTES_PER_WEIGHT * self.weights.size * received
        exchange = Exchange(
            clients=tuple(self._clients),
            drift=float(np.sqrt(max(0.0, drift))),
            norms=tuple(self._norms),
            signal=signal,
            bytes_down=sent,
            bytes_up=sent,
        )
        self.begin()
        return exchange

    def _aggregate_securely(self, secure: SecureRound, participants: Sequence[int]) -> Exchange:
        """Add the mean of masked updates to the weights; their norms and drift remain unknown.

        Args:
            secure: Parameters of secure aggregation.
            participants: Clients of the round; those that sent nothing have dropped out.
        """
        if not isinstance(self._streams, Secrets):
            raise TypeError("expected Secrets for masks: runs with the same seed share its streams")
        received = zip(self._clients, self._secure_uploads, strict=True)
        result = secure.aggregate({participants.index(client): upload for client, upload in received}, self._streams)
        self.weights[:] = self.weights + result.total / len(result.arrived)
        down, up = bytes_of(result)
        exchange = Exchange(
            clients=tuple(self._clients),
            drift=0.0,
            norms=(),
            signal=float(np.linalg.norm(result.total)),
            bytes_down=BYTES_PER_WEIGHT * self.weights.size * len(self._clients) + down,
            bytes_up=up,
        )
        self.begin()
        return exchange
