"""The federated plan: the training of every client in every round, fixed in advance, for training and accounting.

This module is light, because pages import it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from engine.config import SimulationConfig, run_key
from engine.config.federation import INDEPENDENT
from engine.config.mechanism_registry import DP_SGD, ZERO_OUT, MechanismKind
from engine.corpus import AnyCorpus
from engine.corpus.sentence_metadata import Layout
from engine.errors import InvalidConfig
from engine.federated.partition import participants_of_rounds, partition_data
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets, Seeds

if TYPE_CHECKING:
    from engine.federated.secagg.aggregation_round import SecureRound

MOST_VISITS = 1_000_000
"""Largest number of client trainings in a run: rounds times participants."""
MASKED = (
    "entity masking depends on the sentences of all clients, so one additional sentence may change the words of many "
    "others, which noise for a single sentence does not hide"
)
"""The reason why ε is ∞ with entity masking."""


@dataclass(frozen=True)
class LocalTraining:
    """The training of one client in one round.

    Attributes:
        client: Number of the client.
        part: Index into the plan's ``parts``.
        first: Steps on that part in earlier rounds.
        steps: Steps in this round.
    """

    client: int
    part: int
    first: int
    steps: int


@dataclass(frozen=True, kw_only=True)
class FederatedPlan:
    """The schedule of a federated run: the clients of each round, their sentences, and their privacy plans.

    Attributes:
        parts: DP-SGD on one piece of one client's sentences, over all rounds; without noise under other mechanisms.
        chosen: Numbers of the training sentences in use, int64, ascending.
        sentences: Indices into ``chosen`` of the sentences of each part, int64.
        shards: Indices into ``chosen`` of the sentences of each client, int64.
        rounds: Trainings of the participants of each round.
        server: Plan of the mechanism on whole clients, if those are protected. Its examples are clients and its batch
            is the expected number of participants. Its steps are the rounds, or all client trainings if the clients add
            the noise themselves.
        mechanism: Type of the mechanism.
        phases: Whether each round uses new sentences only, so its model corresponds to a run on that share of the data.
        platforms: Whether each client is a silo with its own tags, and keeps the private head for them.
        in_common: Number of training sentences left out because another silo also has them.
        equal: Whether the updates of a round have equal weights, rather than weights by the number of sentences.
        joint_fraction: Rounds of joint training, after which each silo trains alone; None for all rounds.
        moves_sentences: Whether one more sentence may move others to another client, piece or part of the corpus.
        drawn: Whether the client and the piece of each sentence are drawn independently of all other sentences.
        split: Whether this program splits the corpus into training, validation and test set.
    """

    parts: tuple[PrivacyPlan, ...]
    chosen: np.ndarray
    sentences: tuple[np.ndarray, ...]
    shards: tuple[np.ndarray, ...]
    rounds: tuple[tuple[LocalTraining, ...], ...]
    server: PrivacyPlan | None
    mechanism: MechanismKind = DP_SGD
    phases: bool = False
    platforms: bool = False
    in_common: int = 0
    equal: bool = False
    joint_fraction: int | None = None
    moves_sentences: bool = False
    drawn: bool = False
    split: bool = False

    @property
    def neighbours(self) -> str:
        """The adjacency under which ε holds; see :mod:`engine.federated.partition`."""
        return self.mechanism.neighbours if self.mechanism.client_level else self.sentence_neighbours

    @property
    def sentence_neighbours(self) -> str:
        """The adjacency of corpora for which a privacy loss of one sentence holds, under any mechanism."""
        return ZERO_OUT if self.moves_sentences else DP_SGD.neighbours

    @property
    def is_central(self) -> bool:
        """Whether there is a single client."""
        return len(self.shards) == 1

    def parts_of(self, client: int) -> range:
        """Return the numbers of a client's parts; all clients have the same number of parts."""
        parts_per_client = len(self.parts) // len(self.shards)
        return range(client * parts_per_client, (client + 1) * parts_per_client)

    @cached_property
    def ends(self) -> np.ndarray:
        """Optimiser steps that all clients together have taken at the end of each round, int64 [rounds]."""
        return np.cumsum([sum(visit.steps for visit in visits) for visits in self.rounds])

    @property
    def steps(self) -> int:
        """Optimiser steps that all clients together take in the run."""
        return int(self.ends[-1])

    @property
    def local(self) -> bool:
        """Whether clients add the noise to their own updates."""
        return self.server is not None and self.mechanism.client_side_noise

    def secure_round(self, round: int, weights: int) -> "SecureRound | None":
        """Return the parameters of secure aggregation in a round; None if the mechanism does not use it.

        Args:
            round: Number of the round, from 0.
            weights: Number of weights in an upload.
        """
        if self.server is None or not self.mechanism.distributed_noise:
            return None
        from engine.federated.secagg.aggregation_round import secure_round

        return secure_round(
            len(self.rounds[round]), weights, float(self.server.clip_norm or 0.0), self.server.noise_std, round
        )

    @property
    def private(self) -> bool:
        """Whether noise is added anywhere."""
        return self.server is not None or any(part.private for part in self.parts)

    def steps_before(self, round: int) -> int:
        """Return the optimiser steps that all clients together have taken before a round."""
        return int(self.ends[round - 1]) if round else 0

    def taken(self, steps: int) -> list[int]:
        """Return the steps on each part after ``steps`` steps of all clients together.

        In an unfinished round, the clients train one after another.
        """
        taken = [0] * len(self.parts)
        left = steps
        for visits in self.rounds:
            for visit in visits:
                if left <= 0:
                    return taken
                taken[visit.part] = visit.first + min(left, visit.steps)
                left -= visit.steps
        return taken

    def warnings(self) -> tuple[str, ...]:
        """Return the warnings for readers of this plan's ε, one sentence each."""
        plans = [self.server] if self.server else [plan for plan in self.parts if plan.private]
        return tuple(dict.fromkeys(warning for plan in plans for warning in plan.warnings()))[:4]


def plan_of(config: SimulationConfig, corpus: AnyCorpus, secrets: Secrets | None = None) -> FederatedPlan:
    """Return the federated plan of a configuration.

    Args:
        config: The configuration.
        corpus: Its corpus.
        secrets: Protected random streams of the run; by default those of its seed.

    Raises:
        InvalidConfig: If the configuration and the corpus do not fit.
        CorpusError: If the corpus is missing or invalid.
        StoreError: If stored data cannot be read.
    """
    return federated_plan(
        config,
        corpus.train_sentences,
        lambda: corpus.layout,
        lambda: secrets or seeded_secrets(config, corpus.checksum),
        platforms=corpus.own if config.platforms else (),
        fixed_positions=corpus.split_by_position,
    )


def secrets_of(config: SimulationConfig, corpus_checksum: str) -> Secrets:
    """Return the streams of samples and noise of a run; new ones if the operating system is the noise source."""
    return Secrets.drawn() if config.privacy.noise_source == "system" else seeded_secrets(config, corpus_checksum)


def seeded_secrets(config: SimulationConfig, corpus_checksum: str) -> Secrets:
    """Return the streams of samples and noise of a run with a seeded noise source."""
    return Secrets.seeded(config.seed, run_key(config, corpus_checksum))


def federated_plan(
    config: SimulationConfig,
    every: int,
    layout: Callable[[], Layout],
    secrets: Callable[[], Secrets],
    *,
    platforms: Sequence[np.ndarray] = (),
    fixed_positions: bool = False,
) -> FederatedPlan:
    """Return the federated plan of a configuration for a number of training sentences.

    Args:
        config: The configuration.
        every: Number of training sentences.
        layout: Returns the metadata of all training sentences; called only if the partition needs it.
        secrets: Returns the protected streams of the run; called only if they decide the participants.
        platforms: Numbers of the sentences of each client (silo); empty if clients split one corpus.
        fixed_positions: Whether the part to which a sentence of the corpus belongs depends on the positions of all.

    Raises:
        InvalidConfig: If the configuration and the sentences do not fit.
    """
    federation, privacy, seeds = config.federation, config.privacy, Seeds(config.seed)
    if federation.masked and privacy.private:
        raise InvalidConfig(f"masked={federation.masked:g}, expected 0 with noise: {MASKED}")
    data = partition_data(every, layout, platforms, config.data_fraction, federation, seeds)
    participants = participants_of_rounds(federation, privacy, seeds, secrets)
    if federation.schedule == "gradients":
        participants *= max(1, round(config.training.epochs * len(data.chosen) / config.training.batch_size))
    trainings = sum(map(len, participants))
    if trainings > MOST_VISITS:
        raise InvalidConfig(
            f"{len(participants):,} rounds with {federation.participants or federation.clients:,} participants each, "
            f"expected at most {MOST_VISITS:,} trainings of a client in all"
        )
    sentences = tuple(piece for pieces in data.pieces for piece in pieces)
    plans = [PrivacyPlan.of_piece(config, len(piece), len(data.chosen)) for piece in sentences]
    first_part = np.cumsum([0, *map(len, data.pieces)])
    taken = [0] * len(plans)
    rounds: list[tuple[LocalTraining, ...]] = []
    for number, clients in enumerate(participants):
        visits = []
        for client in clients:
            part = int(first_part[client]) + number % len(data.pieces[client])
            visits.append(LocalTraining(client, part, taken[part], plans[part].steps))
            taken[part] += plans[part].steps
        rounds.append(tuple(visits))
    if not any(rounds):
        raise InvalidConfig(
            f"participants={federation.participants}: no client was sampled in any round; use more participants, more "
            "rounds or another seed"
        )
    return FederatedPlan(
        parts=tuple(replace(plan, steps=max(1, steps)) for plan, steps in zip(plans, taken, strict=True)),
        sentences=sentences,
        shards=data.shards,
        chosen=data.chosen,
        rounds=tuple(rounds),
        server=PrivacyPlan.of_clients(config, trainings) if privacy.protects_clients else None,
        mechanism=privacy.kind,
        phases=federation.schedule == "incremental",
        platforms=bool(platforms),
        in_common=every - sum(map(len, platforms)) if platforms else 0,
        equal=privacy.kind.client_level or federation.weighting == "equal",
        joint_fraction=None if federation.together == 1 else max(1, round(federation.together * len(participants))),
        moves_sentences=config.moves_sentences or fixed_positions,
        drawn=federation.partition in INDEPENDENT and not platforms,
        split=fixed_positions,
    )
