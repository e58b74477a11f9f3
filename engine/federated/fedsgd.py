"""The training of FedNER (Ge et al. 2020, algorithm 1): at each step, every client sends the gradient of shared layers.

Each client (silo) samples a batch of its own sentences, in proportion to how many it has, and updates its private head
with its own optimiser. The server aggregates the gradients of the shared layers, Σ |S_i| ÷ Σ|S_j| · ∂L_i/∂θ (Eq. 2),
and updates these layers with its own optimiser. A round is one step. Without private heads this is FedSGD (McMahan et
al. 2017).

Under DP-SGD a client clips the gradient of all its weights and adds noise to it, including the private head. The
message is a part of that gradient, and the private head learns from nothing else. If only the message were clipped and
noisy, a sentence could still change the private head without bound. Through it, the sentence could change the later
messages of all clients.

Joint training can end early (``together``): after that share of the rounds, each client trains alone, from its current
weights and with the common moments. Nothing is sent any more.
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
    """The optimiser of a client: it updates the private weights, and sends the gradient of the shared weights.

    The noise check measures the sent gradient, as other parties receive it, and the change of the private weights.

    Attributes:
        sent: Gradient of the shared weights, float32 [size]; zero at the private weights.
    """

    def __init__(self, config: TrainingConfig, size: int, shared: int) -> None:
        super().__init__(config, size, first=shared)
        self.sent = np.zeros(size, dtype=np.float32)
        self._is_sent = np.arange(size) < shared

    def part(self, moments: Mapping[str, np.ndarray]) -> None:
        """Make all weights private.

        Args:
            moments: Moments of the shared weights by name, float32 [shared] each.
        """
        for name, array in moments.items():
            self.state[name][: self.first] = array
        self.first = 0
        self.sent[:], self._is_sent[:] = 0, False

    def move(self, weights: np.ndarray, gradient: np.ndarray, step: int) -> None:
        """Store the gradient of the shared weights, and update the private weights in place.

        Args:
            weights: Weights of the client, float32 [size].
            gradient: Gradient, float32 [size].
            step: Number of the step, from 0.
        """
        self.sent[: self.first] = gradient[: self.first]
        super().move(weights, gradient, step)

    def look(self, weights: np.ndarray, where: slice, fixed: np.ndarray) -> dict[str, np.ndarray]:
        """Copy a part of the weights, the state and the sent gradient; see :meth:`Optimiser.look`.

        Args:
            weights: Weights of the client, float32 [size].
            where: A contiguous range of weights.
            fixed: Indices of further weights.
        """
        arrays = {"sent": self.sent, "is sent": self._is_sent}
        copies = {name: picked(array, where.start, where.stop, fixed) for name, array in arrays.items()}
        return super().look(weights, where, fixed) | copies

    def gradient_between(
        self, before: dict[str, np.ndarray], after: dict[str, np.ndarray], step: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the applied gradient and its largest rounding error; see :meth:`Optimiser.gradient_between`.

        For the shared weights, it is the sent gradient, without a rounding error.

        Args:
            before: Copies from :meth:`look` before the step.
            after: Copies from :meth:`look` after the step.
            step: Number of the step.
        """
        gradient, error = super().gradient_between(before, after, step)
        sent = after["is sent"]
        return np.where(sent, after["sent"], gradient), np.where(sent, 0.0, error)


class GradientFederation(Federation):
    """A federated training run in which clients exchange gradients at each step instead of weights.

    Attributes:
        uploads: Optimiser of each client (silo).
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
        self._initial_size = self.holdings[0].initial_size
        if self._initial_size:
            self._common = self.holdings[0].weights(weights)[: self._initial_size].copy()
        self.optimiser = Optimiser(training, self._common.size)
        self._mean = np.zeros(self._common.size)
        self._server = Server(plan, self._mean, self._streams)
        sizes = [self.holding(client).weights(weights).size for client in range(len(plan.shards))]
        self.uploads = [Upload(training, size, self._common.size) for size in sizes]

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The arrays that training changes, by name; see :attr:`Federation.state`."""
        clients = {
            f"platform {number}/{name}": array
            for number, upload in enumerate(self.uploads)
            for name, array in upload.state.items()
        }
        return super().state | clients

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set the state to a copy of an earlier :attr:`state`."""
        super().restore(arrays)
        for number, upload in enumerate(self.uploads):
            upload.state = {name: arrays[f"platform {number}/{name}"].copy() for name in upload.state}
        if self._initial_size:
            self._common[:] = self.holdings[0].weights(self.weights)[: self._initial_size]

    def train(self, rounds_done: int = 0, steps_done: int = 0) -> Iterator[Progress]:
        """Train, and yield the progress after each step of each client; see :meth:`Federation.train`.

        Args:
            rounds_done: Finished rounds.
            steps_done: Not used: a round is one step, so a run never stops within a round.

        Raises:
            TrainingFailed: If the training of a client fails, or the shared weights are not finite.
        """
        taken = self.plan.steps_before(rounds_done)
        learners = [
            self._learner(visit, self.uploads[visit.client], self.holding(visit.client).weights(self.weights).copy())
            for visit in self.plan.rounds[0]
        ]
        size, joint_rounds = self._common.size, self.plan.joint_fraction
        for number in range(rounds_done, len(self.plan.rounds)):
            visits, joint = self.plan.rounds[number], joint_rounds is None or number < joint_rounds
            if not joint:
                self._end_joint_training(number)
            self._server.begin()
            for visit, learner in zip(visits, learners, strict=True):
                holding = self.holding(visit.client)
                if joint or number == joint_rounds:
                    learner.weights[:size] = self._common
                last = self._step(learner, visit)
                self.weights[holding.private_slice] = learner.weights[holding.shared :]
                if joint:
                    sent = self.uploads[visit.client].sent[:size].astype(np.float64)
                    self._server.receive(visit.client, sent, len(learner.split))
                taken += visit.steps
                if visit is not visits[-1]:
                    yield Progress(taken, last)
            exchange = self._server.finish(number) if joint else None
            if joint:
                self._update_shared(number)
            self.average.follow()
            if not np.isfinite(self._common).all():
                raise TrainingFailed(
                    f"The shared weights are no longer finite after step {number + 1} of {len(self.plan.rounds)}; a "
                    f"smaller learning rate than {self._training.learning_rate:g} or less noise may help"
                )
            yield Progress(taken, last, number, exchange)

    def _step(self, learner: DPSGD, visit: LocalTraining) -> StepStatistics:
        """Take one step of a client.

        Every step needs all clients, so a failed client ends the run with TrainingFailed.
        """
        try:
            return learner.step(visit.first)
        except TrainingFailed as error:
            party = "Silo" if self.plan.platforms else "Client"
            raise TrainingFailed(f"{party} {visit.client + 1} of {len(self.plan.shards)}: {error}") from error

    def _update_shared(self, round: int) -> None:
        """Update the shared weights by the aggregated gradient, and send them to all clients."""
        self.optimiser.move(self._common, self._mean.astype(np.float32), round)
        self._mean[:] = 0
        if self._initial_size:
            for holding in self.holdings:
                self.weights[holding.private_slice][: self._initial_size] = self._common

    def _end_joint_training(self, round: int) -> None:
        """Make all weights of each client private, unless they already are.

        The clients of a resumed run already have their moments.
        """
        for upload in self.uploads:
            if upload.first:
                upload.part(self.optimiser.state if round == self.plan.joint_fraction else {})
