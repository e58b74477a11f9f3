"""Rounds of training by several clients, step by step: each trains on what it has, and the server joins the results.

Clients are computed one after another: a step keeps all cores busy, so that n clients on the same sentences cost what
one does. Central training is one client in one round.
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
"""Before the names of the noise check's arrays among those of a run's state."""


@dataclass(frozen=True)
class Progress:
    """What happened just now. taken: optimiser steps by all clients together so far. step: what the step saw, None if
    its client failed. round: number of the round that has just ended, None within one; exchange: what it moved;
    failed: clients of this round whose training failed and who were left out of its mean."""

    taken: int
    step: StepStatistics | None
    round: int | None = None
    exchange: Exchange | None = None
    failed: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class ClientData:
    """What a client trains with: that of all clients who have parts of one corpus, or a platform's own.

    split: its training sentences, of which the plan says who uses which; table: of their features. first: the number of
    the first of them, among those of all platforms. backend: of its tagger; shared: how many of its weights, the first
    ones, are common to all clients; own: where the others stand in the run's weights. begins: how many of its own ones,
    the first, are equal on all platforms as long as these go together. layers: title and stretch of each that has
    weights, in its tagger, for the noise check.
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
        """Those of its tagger, [shared + own], of all the run's; the same memory where nothing is its own."""
        return np.concatenate([every[: self.shared], every[self.private_slice]]) if self.private_slice.stop else every


class Federation:
    """Trains ``weights`` in place: the common ones, which travel, and after them those that each platform keeps to
    itself. holdings: one for each client, or one for all. training: how weights are moved. secrets: of the run, from
    which samples and noise come where it is private; seeds: from which all else comes. average: of the weights, after
    each step of a client alone, or each round of several; what is scored and kept.

    A client alone trains the common weights themselves, and they can be looked at after each step; of several clients,
    each trains a copy, and the common weights change at the end of a round.
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
        self.plan, self.weights, self.holdings = plan, weights, tuple(holdings)
        self._training, self._common = training, weights[: self.holdings[0].shared]
        self._seeds = seeds
        self._streams: Secrets | Seeds = secrets if plan.private else seeds
        self.monitors = self._watched(secrets) if plan.private else ()
        self._witness = ClientNoiseMonitor(plan, plan.server, self.monitors[0]) if plan.server else None
        self._server = Server(plan, self._common, self._streams)
        self.optimiser = Optimiser(training, weights.size)
        self.average = Average(training.averaging, weights)

    def _watched(self, secrets: Secrets) -> tuple[NoiseMonitor, ...]:
        """A noise check of the server, of all clients together, or, where they have taggers of their own, of each."""
        plan, common = self.plan, self._common.size
        if plan.server or len(self.holdings) == 1:
            layers = [(title, where) for title, where in self.holdings[0].layers if where.stop <= common]
            watched = [([plan.server] if plan.server else list(plan.parts), common, layers, secrets)]
        else:
            watched = [
                (
                    [plan.parts[part] for part in plan.parts_of(client)],
                    holding.weights(self.weights).size,
                    list(holding.layers),
                    secrets.of(platform=client),
                )
                for client, holding in enumerate(self.holdings)
            ]
        return tuple(
            NoiseMonitor(plans, size, layers=layers, unit=plan.mechanism.unit, secrets=own, checks=len(watched))
            for plans, size, layers, own in watched
        )

    def holding(self, client: int) -> ClientData:
        """What a client trains with."""
        return self.holdings[client if len(self.holdings) > 1 else 0]

    def _learner(self, visit: LocalTraining, optimiser: Optimiser, weights: np.ndarray) -> DPSGD:
        """One client's training in one round, of weights that it changes in place."""
        part, holding = visit.part, self.holding(visit.client)
        sentences = self.plan.chosen[self.plan.sentences[part]] - holding.first
        split = holding.split if len(sentences) == len(holding.split) else subset(holding.split, sentences)
        platform = len(self.monitors) > 1
        monitor = None
        if self.monitors and not self.plan.server:
            monitor = self.monitors[visit.client if platform else 0]
        # Under a mechanism on whole clients nobody's sample protects anything.
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
        """A client's training in a round; its optimiser starts anew. A client alone trains the run's weights, of
        several each a copy of those it has."""
        weights = self.holding(visit.client).weights(self.weights)
        if not self.plan.is_central and weights is self.weights:
            weights = weights.copy()
        self.optimiser = Optimiser(self._training, weights.size)
        return self._learner(visit, self.optimiser, weights)

    @property
    def state(self) -> dict[str, np.ndarray]:
        """All that changes as it trains, by name, for a checkpoint: the arrays themselves, not copies."""
        found = {"weights": self.weights, **self.optimiser.state}
        for place, monitor in self._checks():
            found |= {place + name: array for name, array in monitor.state.items()}
        return found | self.average.state

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on from what :attr:`state` was."""
        self.weights[:] = arrays["weights"]
        self.optimiser.state = {name: arrays[name].copy() for name in self.optimiser.state}
        for place, monitor in self._checks():
            known = (name for name in monitor.state if place + name in arrays)  # a checkpoint may be older
            monitor.state = {name: arrays[place + name].copy() for name in known}
        self.average.state = {name: arrays[name].copy() for name in self.average.state}

    def _checks(self) -> Iterator[tuple[str, NoiseMonitor]]:
        """Each noise check, after what its arrays are called by."""
        for number, monitor in enumerate(self.monitors):
            yield (f"{_CHECK}{number}/" if len(self.monitors) > 1 else _CHECK), monitor

    def train(self, rounds_done: int = 0, steps_done: int = 0) -> Iterator[Progress]:
        """Go on after so many rounds, and, where one client is alone, after so many of its steps in the next one: its
        optimiser then goes on from the state that it has. Raises TrainingFailed if a round has no client left."""
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
            # Under a mechanism on whole clients a round goes on: that it stopped would tell something without noise.
            if visits and len(failed) == len(visits) and not self.plan.server:
                raise TrainingFailed(
                    f"In round {number + 1} the weights of all {len(visits)} clients stopped being finite; a smaller "
                    "learning rate or less noise may help"
                )
            yield Progress(taken, last, number, None if self.plan.is_central else self._finish(number), tuple(failed))

    def _begin(self, round: int) -> None:
        self._server.begin()
        if self._witness:
            self._witness.start_round(self._common, round)

    def _send(self, client: int, trained: np.ndarray | None, examples: int, round: int) -> None:
        """What one client's training comes to: what is its own it keeps, the rest goes to the server."""
        if trained is not None:
            holding = self.holding(client)
            self.weights[holding.private_slice] = trained[holding.shared :]
            trained = trained[: holding.shared]
        update = message(self.plan, self._common, trained, self._streams, client, round)
        if self._witness:
            self._witness.observe(client, trained, update)
        if update is not None:
            self._server.receive(client, update, examples)

    def _finish(self, round: int) -> Exchange:
        exchange = self._server.finish(round)
        self.average.follow()
        if not self._witness:
            return exchange
        self._witness.end_round(self._common)
        return replace(exchange, signal=self._witness.signal)
