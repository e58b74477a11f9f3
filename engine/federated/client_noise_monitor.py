"""The noise check of client-level mechanisms, measured outside the process that adds the noise.

The monitor knows the common weights before and after a round, the weights of each participant after its training, and
each message. It clips the updates itself. The rest of a message (local), or of the change of the common weights
(DP-FedAvg), must be noise as planned: in standard deviation, in shape, and along none of the updates. Under secure
aggregation it knows the unmasked upload of each client, which contains a share of the noise. The server's result is
compared with the monitor's own mean of the messages, so that the server adds nothing else.
"""

import math
from typing import cast

import numpy as np

from engine.federated.plan import FederatedPlan
from engine.privacy.noise_check.kernels import picked
from engine.privacy.noise_check.monitor import NoiseMonitor
from engine.privacy.noise_check.schedule import drawn
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets, Seeds

_UPDATES = 8
"""Number of participants of a round whose updates the noise is compared with, beside the sum of all updates."""


class ClientNoiseMonitor:
    """Observer of the rounds of a run, which passes its measurements to a noise monitor.

    Attributes:
        signal: L2 norm of the sum of the clipped updates of the last finished round.
    """

    def __init__(
        self,
        plan: FederatedPlan,
        server: PrivacyPlan,
        monitor: NoiseMonitor,
        streams: Secrets | Seeds,
        first: int = 0,
    ) -> None:
        """Prepare the observer.

        Args:
            plan: The federated plan.
            server: The plan of the mechanism on whole clients.
            monitor: Receives the measurements.
            streams: Random streams of the run.
            first: Number of the first observed client.
        """
        self._plan, self._server, self._monitor = plan, server, monitor
        self._streams, self._first = cast(Secrets, streams), first
        self.signal = 0.0

    def start_round(self, common: np.ndarray, round: int) -> None:
        """Start a round.

        Args:
            common: Common weights at the start of the round, [size].
            round: Number of the round, from 0.
        """
        self._secure, self._round = self._plan.secure_round(round, common.size), round
        self._before = common.astype(np.float64)
        self._total, self._sent = np.zeros(common.size), np.zeros(common.size)
        self._clients: list[int] = []
        self._updates: list[np.ndarray] = []

    def observe(self, client: int, trained: np.ndarray | None, message: np.ndarray | None) -> None:
        """Measure the noise of a participant's message.

        With client-side noise, a client without a message has dropped out and is in no sum.

        Args:
            client: Number of the client.
            trained: Weights of the client after its training, [size]; None if the training diverged.
            message: The message of the client, [size]; None if it sent nothing.
        """
        if self._plan.local and message is None:
            return
        update = np.zeros(self._before.size) if trained is None else trained.astype(np.float64) - self._before
        norm, bound = math.sqrt(float(update @ update)), float(self._server.clip_norm or 0.0)
        clipped = update * min(1.0, bound / norm) if norm else update
        self._clients.append(client)
        self._total += clipped
        if not self._plan.local:
            self._updates += [clipped] if len(self._updates) < _UPDATES else []
        elif message is not None:
            self._sent += message
            scale, error = 1.0, 0.0
            if self._secure:  # a share of the noise, on a grid: rounded twice
                scale, error = self._secure.scale, 1.5 * self._secure.grid.quantum
            noise, rounding = scale * (message - clipped), np.full(clipped.size, scale * error)
            self._noise(noise, rounding, [clipped], self._key("server noise", client=client))
            self._monitor.saw_sample(np.array([client - self._first]))

    def end_round(self, common: np.ndarray) -> None:
        """End the round and check the result of the server.

        Args:
            common: Common weights at the end of the round, [size].
        """
        after, self.signal = common.astype(np.float64), float(np.linalg.norm(self._total))
        # Rounding changes a weight by at most half its last digit; this allows for twice that.
        spacing = 2.0**-23 * np.maximum(np.abs(self._before), np.abs(after))
        if self._plan.local:
            expected = self._before + self._sent / max(1, len(self._clients))
            difference = np.abs(after - expected)
            off = float(np.linalg.norm(difference[~(difference <= spacing + 2.0**-22 * np.abs(expected))]))
            self._monitor.observe_sum(np.zeros(0), off * max(1, len(self._clients)), lambda: 0.0)
            return
        number = self._server.batch_size
        directions = [self._total, *self._updates]
        noise = (after - self._before) * number - self._total
        self._noise(noise, spacing * number, directions, self._key("server noise"))
        key = self._key("participants") if drawn(self._server) else None
        self._monitor.saw_sample(np.array(self._clients, dtype=np.int64), key=key)

    def _key(self, name: str, **keys: int) -> bytes:
        """Return the planned key of a stream in this round."""
        return self._streams.stream(name, round=self._round, **keys).key

    def _noise(self, noise: np.ndarray, error: np.ndarray, directions: list[np.ndarray], key: bytes) -> None:
        monitor = self._monitor
        step, fixed = monitor.steps_seen, monitor.watch.fixed
        where = monitor.watch.stretch(step)
        arrays = (noise, error, *directions)
        measured, rounding, *compared = (picked(array, where.start, where.stop, fixed) for array in arrays)
        monitor.saw_noise(step, measured, rounding, compared, key)
