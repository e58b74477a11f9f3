"""What the server does with what clients send: FederatedAveraging and its two private forms.

*FederatedAveraging* (McMahan et al. 2017, algorithm 1): the new weights are the mean of the clients', by examples or
equal; written here as w + Σ a_k (w_k − w) / Σ a_k. *DP-FedAvg* (McMahan et al. 2018, algorithm 1, with fixed
denominator): each update w_k − w is scaled down to L2 norm C, the sum gets N(0, σ²C²) on each weight and is divided by
the expected number of participants. *Local*: each client adds that noise to its own scaled update, before it is sent
(:mod:`engine.federated.client_update`), and the server takes the mean. *Secure sum*: updates come under masks, and the
server opens their sum alone (:mod:`engine.federated.secagg.aggregation_round`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.federated.client_update import clip, server_noise
from engine.federated.plan import FederatedPlan
from engine.federated.secagg.aggregation_round import SecureRound, bytes_of
from engine.seeds import Secrets, Seeds

BYTES_PER_WEIGHT = 4
"""Weights travel as float32."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One round seen from the server. clients: who sent an update. drift: root mean square, over them, of the L2
    distance between a client's weights and their plain mean, 0 where nobody sees them. norms: of the updates, L2,
    before clipping, none where nobody sees them. signal: L2 norm of the sum of what counted of them. bytes_down,
    bytes_up: weights sent to clients and received from them, and keys and shares of a secure sum."""

    clients: tuple[int, ...]
    drift: float
    norms: tuple[float, ...]
    signal: float
    bytes_down: int
    bytes_up: int


class Server:
    """Keeps ``weights`` [size], which :meth:`finish` changes in place. streams: of the run."""

    def __init__(self, plan: FederatedPlan, weights: np.ndarray, streams: Secrets | Seeds) -> None:
        self.plan, self.weights, self._streams = plan, weights, streams
        self._sum, self._plain = np.zeros(weights.size), np.zeros(weights.size)
        self._clients: list[int] = []
        self.begin()

    def begin(self) -> None:
        """A round begins; what was received and not finished is forgotten."""
        if self._clients:
            self._sum[:], self._plain[:] = 0, 0
        self._squares, self._share = 0.0, 0.0
        self._clients = []
        self._norms: list[float] = []
        self._hidden: list[np.ndarray] = []

    def receive(self, client: int, update: np.ndarray, examples: int) -> None:
        """What a client sent, float64 [size], after its training on so many sentences."""
        self._clients.append(client)
        if self.plan.mechanism.distributed_noise and self.plan.server:
            self._hidden.append(update)  # for its masks, in :meth:`finish`; the server looks at none of them
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
        """Join what was received into the weights. Without a client they stay, but for the server's noise. Raises
        TrainingFailed where a secure sum stays closed."""
        if secure := self.plan.secure_round(round, self.weights.size):
            return self._opened(secure, [visit.client for visit in self.plan.rounds[round]])
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

    def _opened(self, secure: SecureRound, parties: Sequence[int]) -> Exchange:
        """The mean of updates that nobody saw: neither their norms nor how far apart they are. parties: the clients of
        the round; of those who have sent nothing it goes on without."""
        if not isinstance(self._streams, Secrets):
            raise TypeError("streams of a seed alone are shared between runs: masks need Secrets")
        uploads = {parties.index(client): upload for client, upload in zip(self._clients, self._hidden, strict=True)}
        opened = secure.opened(uploads, self._streams)
        self.weights[:] = self.weights + opened.total / len(opened.arrived)
        down, up = bytes_of(opened)
        exchange = Exchange(
            clients=tuple(self._clients),
            drift=0.0,
            norms=(),
            signal=float(np.linalg.norm(opened.total)),
            bytes_down=BYTES_PER_WEIGHT * self.weights.size * len(self._clients) + down,
            bytes_up=up,
        )
        self.begin()
        return exchange
