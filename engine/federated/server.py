"""What the server does with what clients send: FederatedAveraging and its two private forms.

*FederatedAveraging* (McMahan et al. 2017, algorithm 1): the new weights are the mean of the clients', by examples or
equal; written here as w + Σ a_k (w_k − w) / Σ a_k. *DP-FedAvg* (McMahan et al. 2018, algorithm 1, with fixed
denominator): each update w_k − w is scaled down to L2 norm C, the sum gets N(0, σ²C²) on each weight and is divided by
the expected number of participants. *Local*: each client adds that noise to its own scaled update, before it is sent.
"""

from dataclasses import dataclass

import numpy as np

from engine.federated.plan import FederatedPlan
from engine.privacy.mechanisms import add_gaussian_noise
from engine.privacy.noise_check import NoiseMonitor
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Seeds

BYTES_PER_WEIGHT = 4
"""Weights travel as float32."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One round seen from the server. clients: who sent an update. drift: root mean square, over them, of the L2
    distance between a client's weights and their plain mean. norms: of the updates, L2, before clipping. signal: L2
    norm of the sum of what counted of them. bytes_down, bytes_up: weights sent to clients and received from them."""

    clients: tuple[int, ...]
    drift: float
    norms: tuple[float, ...]
    signal: float
    bytes_down: int
    bytes_up: int


class Server:
    """Keeps ``weights`` [size], which :meth:`finish` changes in place."""

    def __init__(
        self, plan: FederatedPlan, weights: np.ndarray, seeds: Seeds, *, equal: bool, monitor: NoiseMonitor | None
    ) -> None:
        self.plan, self.weights, self.seeds = plan, weights, seeds
        self._equal, self._monitor = equal, monitor if plan.server else None
        self.begin()

    def begin(self) -> None:
        """A round begins; what was received and not finished is forgotten."""
        self._sum, self._plain = np.zeros(self.weights.size), np.zeros(self.weights.size)
        self._squares, self._share = 0.0, 0.0
        self._clients: list[int] = []
        self._norms: list[float] = []
        self._lengths: list[float] = []
        self._signal = np.zeros(self.weights.size if self.plan.local else 0)

    def receive(self, client: int, weights: np.ndarray, examples: int, round: int) -> None:
        """A client's weights [size] after its training on so many sentences."""
        update = weights.astype(np.float64) - self.weights
        norm = float(np.linalg.norm(update))
        self._plain += update
        self._squares += norm**2
        self._clients.append(client)
        self._norms.append(norm)
        if self.plan.server:
            update = self._sent(self.plan.server, client, update, norm, round)
        share = 1.0 if self._equal else float(examples)
        update = share * update
        self._sum += update
        self._share += share
        self._lengths.append(float(np.linalg.norm(update)))

    def _sent(self, server: PrivacyPlan, client: int, update: np.ndarray, norm: float, round: int) -> np.ndarray:
        """What leaves the client, or counts at the server: scaled down to the clip norm, with its noise if local."""
        bound = float(server.clip_norm or 0.0)
        clipped = update * min(1.0, bound / norm) if norm else update
        if not self.plan.local:
            return clipped
        self._signal += clipped
        sent = clipped + self._noise(server, client=client, round=round)
        if self._monitor:
            number = self._monitor.steps_seen
            where = self._monitor.coordinates(number)
            self._monitor.saw_contributions(np.array([np.linalg.norm(clipped)]), 0.0, 0.0)
            self._monitor.saw_noise(number, sent[where] - clipped[where], 0.0)
            self._monitor.saw_sample(np.array([client]))
        return sent

    def finish(self, round: int) -> Exchange:
        """Join what was received into the weights. Without a client they stay, but for the server's noise."""
        received, server = len(self._clients), self.plan.server
        if server and not self.plan.local:
            self._noisy_mean(server, round)
        elif received:
            self.weights[:] = self.weights + self._sum / self._share
        mean = self._plain / max(1, received)
        drift = self._squares / max(1, received) - float(mean @ mean)
        sent = BYTES_PER_WEIGHT * self.weights.size * received
        exchange = Exchange(
            clients=tuple(self._clients),
            drift=float(np.sqrt(max(0.0, drift))),
            norms=tuple(self._norms),
            signal=float(np.linalg.norm(self._signal if self.plan.local else self._sum)),
            bytes_down=sent,
            bytes_up=sent,
        )
        self.begin()
        return exchange

    def _noisy_mean(self, server: PrivacyPlan, round: int) -> None:
        before = self.weights.astype(np.float64)
        self.weights[:] = before + (self._sum + self._noise(server, round=round)) / server.batch_size
        if self._monitor:
            number = self._monitor.steps_seen
            where = self._monitor.coordinates(number)
            applied = (self.weights[where].astype(np.float64) - before[where]) * server.batch_size
            spacing = np.spacing(np.abs(self.weights[where])).astype(np.float64)
            rounding = float(np.sqrt(np.mean(spacing**2) / 12)) * server.batch_size
            self._monitor.saw_contributions(np.array(self._lengths), 0.0, 0.0)
            self._monitor.saw_noise(number, applied - self._sum[where], rounding)
            self._monitor.saw_sample(np.array(self._clients, dtype=np.int64))

    def _noise(self, server: PrivacyPlan, **keys: int) -> np.ndarray:
        noise = np.zeros(self.weights.size, dtype=np.float32)
        add_gaussian_noise(noise, self.seeds.stream("server noise", **keys), server.noise_std)
        return noise
