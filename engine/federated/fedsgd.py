"""FedNER's training (Ge et al. 2020, algorithm 1): at each step every platform sends the gradient of what is shared.

Each draws a batch of its own sentences, in proportion to how many it has, and moves the parts that it keeps to itself
with its own optimiser. The server joins the gradients of the shared parts, Σ |S_i| ÷ Σ|S_j| · ∂L_i/∂θ (Eq. 2), and
moves these with an optimiser of its own. A round is one step. Where nothing is kept, that is FedSGD (McMahan et al.
2017).

Under DP-SGD a platform clips and adds noise to the gradient of all its weights at once, the kept ones too: what is sent
is part of that, and what is kept has learned nothing else. Were only what is sent clipped and noised, a sentence would
still change the kept parts freely, and through them what all others send later.

Platforms may part (``together``): after so many rounds each goes on by itself, from the weights and with the moments
that all have then; nothing is sent any more.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from engine.config import TrainingConfig
from engine.errors import TrainingFailed
from engine.federated.fedavg import ClientData, Federation, Progress
from engine.federated.plan import FederatedPlan, LocalTraining
from engine.federated.server import Server
from engine.privacy.noise_check.kernels import picked
from engine.training.dpsgd import DPSGD, StepStatistics
from engine.training.optimisers import Optimiser


class Upload(Optimiser):
    """A platform's optimiser: it moves all weights but the ``shared`` first ones, whose gradient is what it sends.

    sent: that gradient, float32 [size], zero beyond the shared ones. The noise check sees it as the platform's
    neighbours do, from outside, and the kept weights as they moved.
    """

    def __init__(self, config: TrainingConfig, size: int, shared: int) -> None:
        super().__init__(config, size, first=shared)
        self.sent = np.zeros(size, dtype=np.float32)
        self._is_sent = np.arange(size) < shared

    def part(self, moments: Mapping[str, np.ndarray]) -> None:
        """From now on all weights are its own. moments: of what was shared, by name, each [shared]."""
        for name, array in moments.items():
            self.state[name][: self.first] = array
        self.first = 0
        self.sent[:], self._is_sent[:] = 0, False

    def move(self, weights: np.ndarray, gradient: np.ndarray, step: int) -> None:
        """Change the kept ones of ``weights`` [size] in place."""
        self.sent[: self.first] = gradient[: self.first]
        super().move(weights, gradient, step)

    def look(self, weights: np.ndarray, where: slice, fixed: np.ndarray) -> dict[str, np.ndarray]:
        """See :meth:`Optimiser.look`; with what was sent."""
        more = {"sent": self.sent, "is sent": self._is_sent}
        seen = {name: picked(array, where.start, where.stop, fixed) for name, array in more.items()}
        return super().look(weights, where, fixed) | seen

    def gradient_between(
        self, before: dict[str, np.ndarray], after: dict[str, np.ndarray], step: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """See :meth:`Optimiser.gradient_between`; of the shared weights it is what was sent."""
        gradient, error = super().gradient_between(before, after, step)
        sent = after["is sent"]
        return np.where(sent, after["sent"], gradient), np.where(sent, 0.0, error)


class GradientFederation(Federation):
    """See :class:`Federation`: the same, but that gradients travel at each step and no weights do.

    uploads: the optimiser of each client, or platform.
    """

    def __init__(
        self,
        plan: FederatedPlan,
        holdings: Sequence[ClientData],
        weights: np.ndarray,
        training: TrainingConfig,
        **streams: Any,
    ) -> None:
        super().__init__(plan, holdings, weights, training, **streams)
        self._begins = self.holdings[0].initial_size
        if self._begins:
            self._common = self.holdings[0].weights(weights)[: self._begins].copy()
        self.optimiser = Optimiser(training, self._common.size)
        self._mean = np.zeros(self._common.size)
        self._server = Server(plan, self._mean, self._streams)
        sizes = [self.holding(client).weights(weights).size for client in range(len(plan.shards))]
        self.uploads = [Upload(training, size, self._common.size) for size in sizes]

    @property
    def state(self) -> dict[str, np.ndarray]:
        """See :meth:`Federation.state`."""
        own = {
            f"platform {number}/{name}": array
            for number, upload in enumerate(self.uploads)
            for name, array in upload.state.items()
        }
        return super().state | own

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """See :meth:`Federation.restore`."""
        super().restore(arrays)
        for number, upload in enumerate(self.uploads):
            upload.state = {name: arrays[f"platform {number}/{name}"].copy() for name in upload.state}
        if self._begins:
            self._common[:] = self.holdings[0].weights(self.weights)[: self._begins]

    def train(self, rounds_done: int = 0, steps_done: int = 0) -> Iterator[Progress]:
        """See :meth:`Federation.train`; a round is a step, so none is ever left half done. Raises TrainingFailed."""
        taken = self.plan.steps_before(rounds_done)
        learners = [
            self._learner(visit, self.uploads[visit.client], self.holding(visit.client).weights(self.weights).copy())
            for visit in self.plan.rounds[0]
        ]
        size, parting = self._common.size, self.plan.joint_fraction
        for number in range(rounds_done, len(self.plan.rounds)):
            visits, together = self.plan.rounds[number], parting is None or number < parting
            if not together:
                self._part(number)
            self._server.begin()
            for visit, learner in zip(visits, learners, strict=True):
                holding = self.holding(visit.client)
                if together or number == parting:
                    learner.weights[:size] = self._common
                last = self._step(learner, visit)
                self.weights[holding.private_slice] = learner.weights[holding.shared :]
                if together:
                    sent = self.uploads[visit.client].sent[:size].astype(np.float64)
                    self._server.receive(visit.client, sent, len(learner.split))
                taken += visit.steps
                if visit is not visits[-1]:
                    yield Progress(taken, last)
            exchange = self._server.finish(number) if together else None
            if together:
                self._move(number)
            self.average.follow()
            if not np.isfinite(self._common).all():
                raise TrainingFailed(
                    f"The shared weights are no longer finite after step {number + 1} of {len(self.plan.rounds)}; a "
                    f"smaller learning rate than {self._training.learning_rate:g} or less noise may help"
                )
            yield Progress(taken, last, number, exchange)

    def _step(self, learner: DPSGD, visit: LocalTraining) -> StepStatistics:
        """One platform's. All wait for it at each step, so a run without it would be another: it ends. Raises
        TrainingFailed."""
        try:
            return learner.step(visit.first)
        except TrainingFailed as error:
            who = "Platform" if self.plan.platforms else "Client"
            raise TrainingFailed(f"{who} {visit.client + 1} of {len(self.plan.shards)}: {error}") from error

    def _move(self, round: int) -> None:
        """The server moves what is shared by what it has joined, and all get it."""
        self.optimiser.move(self._common, self._mean.astype(np.float32), round)
        self._mean[:] = 0
        if self._begins:
            for holding in self.holdings:
                self.weights[holding.private_slice][: self._begins] = self._common

    def _part(self, round: int) -> None:
        """Each goes on by itself, if it does not yet. A run that was resumed has its moments already."""
        for upload in self.uploads:
            if upload.first:
                upload.part(self.optimiser.state if round == self.plan.joint_fraction else {})
