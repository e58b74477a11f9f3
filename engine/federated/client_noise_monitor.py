"""The noise check of the mechanisms on whole clients, seen from outside the party that adds the noise.

The witness knows the common weights before and after a round, each participant's weights after its training, and each
message. It clips the updates itself: what a message (local) or the change of the common weights (DP-FedAvg) holds
beyond that must be noise as planned, in spread and shape, and lie along none of the updates. Of a secure sum it knows
what each client put under its masks, which holds a share of the noise. That the server joins what
was sent, and nothing else, is held against its own mean of the messages.
"""

import math

import numpy as np

from engine.federated.plan import FederatedPlan
from engine.privacy.noise_check.kernels import picked
from engine.privacy.noise_check.monitor import NoiseMonitor
from engine.privacy.plan import PrivacyPlan

_WATCHED = 8
"""Participants of a round, the first so many, whose own update noise is held against, beside the sum of all."""


class ClientNoiseMonitor:
    """Tells ``monitor`` what it sees, round by round. signal: L2 norm of the sum of the round's clipped updates, known
    once the round has ended."""

    def __init__(self, plan: FederatedPlan, server: PrivacyPlan, monitor: NoiseMonitor) -> None:
        self._plan, self._server, self._monitor = plan, server, monitor
        self.signal = 0.0

    def start_round(self, common: np.ndarray, round: int) -> None:
        """A round begins with these weights [size]."""
        self._secure = self._plan.secure_round(round, common.size)
        self._before = common.astype(np.float64)
        self._total, self._sent = np.zeros(common.size), np.zeros(common.size)
        self._clients: list[int] = []
        self._watched: list[np.ndarray] = []

    def observe(self, client: int, trained: np.ndarray | None, message: np.ndarray | None) -> None:
        """A participant's own weights after its training, None if it diverged, and what it sent. A local one that sent
        nothing has vanished: it is in no sum."""
        if self._plan.local and message is None:
            return
        update = np.zeros(self._before.size) if trained is None else trained.astype(np.float64) - self._before
        norm, bound = math.sqrt(float(update @ update)), float(self._server.clip_norm or 0.0)
        clipped = update * min(1.0, bound / norm) if norm else update
        self._clients.append(client)
        self._total += clipped
        if not self._plan.local:
            self._watched += [clipped] if len(self._watched) < _WATCHED else []
        elif message is not None:
            self._sent += message
            scale, error = 1.0, 0.0
            if self._secure:  # a share of the noise, on a grid: rounded twice
                scale, error = self._secure.scale, 1.5 * self._secure.grid.quantum
            self._noise(scale * (message - clipped), np.full(clipped.size, scale * error), [clipped])
            self._monitor.saw_sample(np.array([client]))

    def end_round(self, common: np.ndarray) -> None:
        """The round ends with these weights."""
        after, self.signal = common.astype(np.float64), float(np.linalg.norm(self._total))
        # A weight is rounded by at most half its last digit; twice that leaves room.
        spacing = 2.0**-23 * np.maximum(np.abs(self._before), np.abs(after))
        if self._plan.local:
            joined = self._before + self._sent / max(1, len(self._clients))
            apart = np.abs(after - joined)
            off = float(np.linalg.norm(apart[~(apart <= spacing + 2.0**-22 * np.abs(joined))]))
            self._monitor.observe_sum(np.zeros(0), off * max(1, len(self._clients)), lambda: 0.0)
            return
        number = self._server.batch_size
        directions = [self._total, *self._watched]
        self._noise((after - self._before) * number - self._total, spacing * number, directions)
        self._monitor.saw_sample(np.array(self._clients, dtype=np.int64))

    def _noise(self, noise: np.ndarray, error: np.ndarray, directions: list[np.ndarray]) -> None:
        monitor = self._monitor
        step, fixed = monitor.steps_seen, monitor.watch.fixed
        where = monitor.watch.stretch(step)
        seen, far, *held = (picked(each, where.start, where.stop, fixed) for each in (noise, error, *directions))
        monitor.saw_noise(step, seen, far, held)
