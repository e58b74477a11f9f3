"""Federated averaging, step by step: clients train on their own data, and the server aggregates the updates.

Clients are computed one after another: a step keeps all cores busy, so n clients on the same sentences take as long as
one. Central training is one client in one round.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from engine.config import TrainingConfig
from engine.embeddings import EncodedSplit
from engine.embeddings.encoding import subset
from engine.errors import TrainingFailed
from engine.federated.client_noise_monitor import ClientNoiseMonitor
from engine.federated.client_update import message
from engine.federated.plan import FederatedPlan, LocalTraining
from engine.federated.server import Exchange, Server
from engine.privacy.noise_check.monitor import NoiseMonitor
from engine.seeds import Secrets, Seeds
from engine.training.averaging import Average
from engine.training.dpsgd import DPSGD, Backend, StepStatistics
from engine.training.optimisers import Optimiser

_CHECK = "noise check/"
"""Prefix of the noise check's arrays in the state of a run."""


@dataclass(frozen=True)
class Progress:
    """The progress of a run after a step or round.

    Attributes:
        taken: Optimiser steps that all clients together have taken.
        step: Statistics of the step; None if its client failed.
        round: Number of the round that has just ended; None within a round.
        exchange: The round as the server sees it.
        failed: Clients of this round whose training failed; the mean excludes them.
    """

    taken: int
    step: StepStatistics | None
    round: int | None = None
    exchange: Exchange | None = None
    failed: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class ClientData:
    """The training data and back end of one client (silo), or of all clients that split one corpus.

    Attributes:
        split: Training sentences; the plan assigns them to clients.
        table: Features of the words, float32 [words, dimensions].
        backend: Back end of the tagger.
        shared: Number of leading weights of the tagger that are common to all clients.
        private_slice: Position of the other weights in the weights of the run.
        first: Number of the first sentence among those of all silos.
        initial_size: Number of leading private weights that are equal in all silos during joint training.
        layers: Title and position in the tagger of each layer with weights, for the noise check.
    """

    split: EncodedSplit
    table: np.ndarray
    backend: Backend
    shared: int
    private_slice: slice = field(default_factory=lambda: slice(0, 0))
    first: int = 0
    initial_size: int = 0
    layers: Sequence[tuple[str, slice]] = ()

    def weights(self, every: np.ndarray) -> np.ndarray:
        """Return the weights of the tagger, [shared + private], from all weights of the run.

        The result is ``every`` itself if there are no private weights.
        """
        return np.concatenate([every[: self.shared], every[self.private_slice]]) if self.private_slice.stop else every


class Federation:
    """A federated training run, which changes its weights in place.

    A single client trains the common weights themselves, which can be read after each step. Of several clients, each
    trains a copy, and the common weights change at the end of a round.

    Attributes:
        plan: The federated plan.
        weights: The common weights, which are exchanged, then the private weights of each silo.
        holdings: Data of each client, or a single one for all clients.
        monitors: Noise checks: one, or one for each silo; none without noise.
        optimiser: Optimiser of the current client.
        average: Average of the weights, which is scored and saved. It follows each step of a single client, or each
            round of several clients.
    """

    def __init__(
        self,
        plan: FederatedPlan,
        holdings: Sequence[ClientData],
        weights: np.ndarray,
        training: TrainingConfig,
        *,
        seeds: Seeds,
        secrets: Secrets,
    ) -> None:
        """Prepare the run.

        Args:
            plan: The federated plan.
            holdings: Data of each client, or a single one for all clients.
            weights: Initial weights, float32 [size]; training changes them in place.
            training: Training settings.
            seeds: Random streams for everything except protected samples and noise.
            secrets: Random streams for samples and noise of a private run.
        """
        self.plan, self.weights, self.holdings = plan, weights, tuple(holdings)
        self._training, self._common = training, weights[: self.holdings[0].shared]
        self._seeds = seeds
        self._streams: Secrets | Seeds = secrets if plan.private else seeds
        self.monitors = self._build_monitors(secrets) if plan.private else ()
        self._client_monitor = (
            ClientNoiseMonitor(plan, plan.server, self.monitors[0], self._streams) if plan.server else None
        )
        self._server = Server(plan, self._common, self._streams)
        self.optimiser = Optimiser(training, weights.size)
        self.average = Average(training.averaging, weights)

    def _build_monitors(self, secrets: Secrets) -> tuple[NoiseMonitor, ...]:
        """Return one noise check of the server, or of all clients together, or one of each silo."""
        plan, common = self.plan, self._common.size
        if plan.server or len(self.holdings) == 1:
            layers = [(title, where) for title, where in self.holdings[0].layers if where.stop <= common]
            checked = [([plan.server] if plan.server else list(plan.parts), common, layers, secrets)]
        else:
            checked = [
                (
                    [plan.parts[part] for part in plan.parts_of(client)],
                    holding.weights(self.weights).size,
                    list(holding.layers),
                    secrets.of(platform=client),
                )
                for client, holding in enumerate(self.holdings)
            ]
        monitors = tuple(
            NoiseMonitor(plans, size, layers=layers, unit=plan.mechanism.unit, secrets=own, checks=len(checked))
            for plans, size, layers, own in checked
        )
        for monitor in monitors:
            monitor.others = [other for other in monitors if other is not monitor]
        return monitors

    def holding(self, client: int) -> ClientData:
        """Return the data of a client."""
        return self.holdings[client if len(self.holdings) > 1 else 0]

    def _learner(self, visit: LocalTraining, optimiser: Optimiser, weights: np.ndarray) -> DPSGD:
        """Return the training of one client in one round, which changes ``weights`` in place."""
        part, holding = visit.part, self.holding(visit.client)
        sentences = self.plan.chosen[self.plan.sentences[part]] - holding.first
        split = holding.split if len(sentences) == len(holding.split) else subset(holding.split, sentences)
        platform = len(self.monitors) > 1
        monitor = None
        if self.monitors and not self.plan.server:
            monitor = self.monitors[visit.client if platform else 0]
        # Under a client-level mechanism, the sampling of sentences protects nothing.
        streams = self._seeds if self.plan.server else self._streams
        return DPSGD(
            holding.backend,
            self.plan.parts[part],
            optimiser,
            streams.of(part=part),
            split,
            holding.table,
            weights,
            monitor=monitor,
            part=part - self.plan.parts_of(visit.client)[0] if platform else part,
            first=visit.first,
        )

    def learner(self, visit: LocalTraining) -> DPSGD:
        """Return the training of a client in a round, with a new optimiser.

        A single client trains the weights of the run; of several clients, each trains a copy.
        """
        weights = self.holding(visit.client).weights(self.weights)
        if not self.plan.is_central and weights is self.weights:
            weights = weights.copy()
        self.optimiser = Optimiser(self._training, weights.size)
        return self._learner(visit, self.optimiser, weights)

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The arrays that training changes, by name, for a checkpoint; they are not copies."""
        arrays = {"weights": self.weights, **self.optimiser.state}
        for prefix, monitor in self._checks():
            arrays |= {prefix + name: array for name, array in monitor.state.items()}
        return arrays | self.average.state

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set the state to a copy of an earlier :attr:`state`."""
        self.weights[:] = arrays["weights"]
        self.optimiser.state = {name: arrays[name].copy() for name in self.optimiser.state}
        for prefix, monitor in self._checks():
            available = (name for name in monitor.state if prefix + name in arrays)  # a checkpoint may be older
            monitor.state = {name: arrays[prefix + name].copy() for name in available}
        self.average.state = {name: arrays[name].copy() for name in self.average.state}

    def _checks(self) -> Iterator[tuple[str, NoiseMonitor]]:
        """Yield the prefix of the array names and the monitor of each noise check."""
        for number, monitor in enumerate(self.monitors):
            yield (f"{_CHECK}{number}/" if len(self.monitors) > 1 else _CHECK), monitor

    def train(self, rounds_done: int = 0, steps_done: int = 0) -> Iterator[Progress]:
        """Train, and yield the progress after each step.

        Args:
            rounds_done: Finished rounds.
            steps_done: Finished steps of a single client in the next round; the optimiser keeps its state.

        Yields:
            The progress after each step and at the end of each round.

        Raises:
            TrainingFailed: If the training of every client of a round fails.
        """
        taken = self.plan.steps_before(rounds_done)
        optimiser_state = self.optimiser.state if steps_done else None
        for number in range(rounds_done, len(self.plan.rounds)):
            visits, failed = self.plan.rounds[number], []
            last: StepStatistics | None = None
            self._begin(number)
            for visit in visits:
                learner = self.learner(visit)
                if steps_done and optimiser_state is not None:
                    self.optimiser.state = optimiser_state
                trained: np.ndarray | None = learner.weights
                try:
                    for step in range(steps_done, visit.steps):
                        last = learner.step(visit.first + step)
                        if self.plan.is_central:
                            self.average.follow()
                        if step + 1 < visit.steps:
                            yield Progress(taken + step + 1, last)
                except TrainingFailed:
                    if self.plan.is_central:
                        raise
                    last, trained = None, None
                    failed.append(visit.client)
                if not self.plan.is_central:
                    self._send(visit.client, trained, len(learner.split), number)
                taken, steps_done = taken + visit.steps, 0
                if visit is not visits[-1]:
                    yield Progress(taken, last)
            # Under a client-level mechanism the round continues: an abort would reveal information without noise.
            if visits and len(failed) == len(visits) and not self.plan.server:
                raise TrainingFailed(
                    f"In round {number + 1} the weights of all {len(visits)} clients stopped being finite; a smaller "
                    "learning rate or less noise may help"
                )
            yield Progress(taken, last, number, None if self.plan.is_central else self._finish(number), tuple(failed))

    def _begin(self, round: int) -> None:
        self._server.begin()
        if self._client_monitor:
            self._client_monitor.start_round(self._common, round)

    def _send(self, client: int, trained: np.ndarray | None, examples: int, round: int) -> None:
        """Store the private weights of a client, and send the update of the shared weights to the server."""
        if trained is not None:
            holding = self.holding(client)
            self.weights[holding.private_slice] = trained[holding.shared :]
            trained = trained[: holding.shared]
        update = message(self.plan, self._common, trained, self._streams, client, round)
        if self._client_monitor:
            self._client_monitor.observe(client, trained, update)
        if update is not None:
            self._server.receive(client, update, examples)

    def _finish(self, round: int) -> Exchange:
        exchange = self._server.finish(round)
        self.average.follow()
        if not self._client_monitor:
            return exchange
        self._client_monitor.end_round(self._common)
        return replace(exchange, signal=self._client_monitor.signal)
