"""Rounds of training by several clients, step by step: each trains on what it has, and the server joins the results.

Clients are computed one after another: a step keeps all cores busy, so that n clients on the same sentences cost what
one does. Central training is one client in one round.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.config import SimulationConfig
from engine.embeddings import EncodedSplit
from engine.embeddings.encoded import subset
from engine.errors import TrainingFailed
from engine.federated.clients import message
from engine.federated.plan import FederatedPlan, Visit
from engine.federated.server import Exchange, Server
from engine.federated.witness import Witness
from engine.privacy.noise_check import NoiseMonitor
from engine.seeds import Secrets, Seeds
from engine.training.checkpoint import Tally
from engine.training.dpsgd import DPSGD, Backend, StepStatistics
from engine.training.optimisers import Optimiser


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


def after(tally: Tally, progress: Progress) -> Tally:
    """How far the run is once this has happened."""
    step, exchange = progress.step, progress.exchange
    return Tally(
        step=progress.taken,
        rounds=tally.rounds + (progress.round is not None),
        examples_seen=tally.examples_seen + (len(step.norms) + step.nonfinite if step else 0),
        nonfinite=tally.nonfinite + (step.nonfinite if step else 0),
        bytes_down=tally.bytes_down + (exchange.bytes_down if exchange else 0),
        bytes_up=tally.bytes_up + (exchange.bytes_up if exchange else 0),
    )


class Federation:
    """Trains ``weights`` [size], the common tagger's, in place. split: all training sentences, of which the plan says
    who uses which; table: of their features. layers: title and stretch of each that has weights, for the noise check.
    secrets: of the run, from which samples and noise come where it is private.

    A client alone trains the common weights themselves, and they can be looked at after each step; of several clients,
    each trains a copy, and the common weights change at the end of a round.
    """

    def __init__(
        self,
        config: SimulationConfig,
        plan: FederatedPlan,
        backend: Backend,
        split: EncodedSplit,
        table: np.ndarray,
        weights: np.ndarray,
        *,
        layers: Sequence[tuple[str, slice]] = (),
        secrets: Secrets,
    ) -> None:
        self.plan, self.weights, self.backend = plan, weights, backend
        self._config, self._split, self._table = config, split, table
        self._streams: Secrets | Seeds = secrets if plan.private else Seeds(config.seed)
        self.monitor, self._witness = None, None
        if plan.private:
            plans, unit = [plan.server] if plan.server else plan.parts, plan.mechanism.unit
            self.monitor = NoiseMonitor(plans, weights.size, layers=layers, unit=unit, secrets=secrets)
        if plan.server and self.monitor:
            self._witness = Witness(plan, plan.server, self.monitor)
        equal = config.federation.weighting == "equal" or config.privacy.kind.whole_clients
        self._server = Server(plan, weights, self._streams, equal=equal)
        self.optimiser = Optimiser(config.training, weights.size)

    def learner(self, visit: Visit, weights: np.ndarray) -> DPSGD:
        """One client's training in one round, on ``weights``; its optimiser starts anew."""
        part = visit.part
        sentences = self.plan.chosen[self.plan.sentences[part]]
        split = self._split if len(sentences) == len(self._split) else subset(self._split, sentences)
        self.optimiser = Optimiser(self._config.training, weights.size)
        monitor = None if self.plan.server else self.monitor
        # Under a mechanism on whole clients nobody's sample protects anything.
        streams = Seeds(self._config.seed) if self.plan.server else self._streams
        return DPSGD(
            self.backend,
            self.plan.parts[part],
            self.optimiser,
            streams.of(part=part),
            split,
            self._table,
            weights,
            monitor=monitor,
            part=part,
            first=visit.first,
        )

    def train(
        self, rounds_done: int = 0, steps_done: int = 0, optimiser_state: dict[str, np.ndarray] | None = None
    ) -> Iterator[Progress]:
        """Go on after so many rounds, and, where one client is alone, after so many of its steps in the next one, when
        its optimiser had this state. Raises TrainingFailed if a round has no client left."""
        taken = self.plan.steps_before(rounds_done)
        for number in range(rounds_done, len(self.plan.rounds)):
            visits, failed = self.plan.rounds[number], []
            last: StepStatistics | None = None
            self._begin()
            for visit in visits:
                learner = self.learner(visit, self.weights if self.plan.alone else self.weights.copy())
                if steps_done and optimiser_state is not None:
                    self.optimiser.state = {name: array.copy() for name, array in optimiser_state.items()}
                trained: np.ndarray | None = learner.weights
                try:
                    for step in range(steps_done, visit.steps):
                        last = learner.step(visit.first + step)
                        if step + 1 < visit.steps:
                            yield Progress(taken + step + 1, last)
                except TrainingFailed:
                    if self.plan.alone:
                        raise
                    last, trained = None, None
                    failed.append(visit.client)
                if not self.plan.alone:
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
            yield Progress(taken, last, number, None if self.plan.alone else self._finish(number), tuple(failed))

    def _begin(self) -> None:
        self._server.begin()
        if self._witness:
            self._witness.begins(self.weights)

    def _send(self, client: int, trained: np.ndarray | None, examples: int, round: int) -> None:
        """What one client's training comes to, from the client to the server."""
        update = message(self.plan, self.weights, trained, self._streams, client, round)
        if self._witness:
            self._witness.saw(client, trained, update)
        if update is not None:
            self._server.receive(client, update, examples)

    def _finish(self, round: int) -> Exchange:
        exchange = self._server.finish(round)
        if not self._witness:
            return exchange
        self._witness.ends(self.weights)
        return replace(exchange, signal=self._witness.signal)
