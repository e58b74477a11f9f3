"""What every client will do in every round, decided once; training and accounting read this one object.

Light: pages import it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from engine.config import SimulationConfig, run_key
from engine.corpus import AnyCorpus
from engine.corpus.sentence_metadata import Layout
from engine.errors import InvalidConfig
from engine.federated.partition import participants_of_rounds, partition_data
from engine.privacy.mechanism_registry import DP_SGD, MechanismKind
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets, Seeds

if TYPE_CHECKING:
    from engine.federated.secagg.aggregation_round import SecureRound

MOST_VISITS = 1_000_000
"""Largest rounds · participants."""
MASKED = (
    "which names are masked follows from the sentences of all platforms, so that one sentence more may change the "
    "words of many others, which noise for one of them does not hide"
)
"""Why ε is ∞ where names are masked."""


@dataclass(frozen=True)
class LocalTraining:
    """One client's training in one round. part: of the plan's ``parts``. first: how many steps were taken on that part
    in earlier rounds; steps: taken now."""

    client: int
    part: int
    first: int
    steps: int


@dataclass(frozen=True, kw_only=True)
class FederatedPlan:
    """Who trains on what, and when.

    parts: DP-SGD on one piece of one client's sentences, over all rounds; under another mechanism without noise.
    chosen: numbers of the training sentences that are used, int64, ascending. sentences: of each part, places among
    these, int64. shards: the same of each client. rounds: the visits of each. mechanism: of what kind it is. server:
    where whole clients are protected, what is done to them: its examples are clients, its batch the expected
    participants, its steps the rounds, or all visits where clients add the noise themselves. phases: whether each round
    is on sentences of its own, so that what was learned after it stands for a run on so many of them. platforms:
    whether each client has tags of its own, and keeps what belongs to them. in_common: training sentences that a
    platform leaves out, since another one has them too. equal: whether the updates of a round count alike, not by the
    sentences trained on. together: after how many rounds each platform goes on by itself; None is never.
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

    @property
    def is_central(self) -> bool:
        """Whether there is one client."""
        return len(self.shards) == 1

    def parts_of(self, client: int) -> range:
        """The numbers of a client's parts: all clients have equally many."""
        each = len(self.parts) // len(self.shards)
        return range(client * each, (client + 1) * each)

    @cached_property
    def ends(self) -> np.ndarray:
        """Optimiser steps taken by all clients together at the end of each round, int64 [rounds]."""
        return np.cumsum([sum(visit.steps for visit in visits) for visits in self.rounds])

    @property
    def steps(self) -> int:
        """The same at the end of the run."""
        return int(self.ends[-1])

    @property
    def local(self) -> bool:
        """Whether clients add the noise to their own updates."""
        return self.server is not None and self.mechanism.client_side_noise

    def secure_round(self, round: int, weights: int) -> "SecureRound | None":
        """The secure sum of so many weights in a round, where the mechanism has one."""
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
        """The same before a round."""
        return int(self.ends[round - 1]) if round else 0

    def taken(self, steps: int) -> list[int]:
        """How many steps were taken on each part when all clients together have taken ``steps``. A round that has
        begun counts visit by visit."""
        found = [0] * len(self.parts)
        left = steps
        for visits in self.rounds:
            for visit in visits:
                if left <= 0:
                    return found
                found[visit.part] = visit.first + min(left, visit.steps)
                left -= visit.steps
        return found

    def warnings(self) -> tuple[str, ...]:
        """What a reader of this plan's ε should know first, one sentence each."""
        plans = [self.server] if self.server else [plan for plan in self.parts if plan.private]
        return tuple(dict.fromkeys(warning for plan in plans for warning in plan.warnings()))[:4]


def plan_of(config: SimulationConfig, corpus: AnyCorpus, secrets: Secrets | None = None) -> FederatedPlan:
    """The plan for ``config``; secrets: of the run, by default those of its seed. Raises InvalidConfig, CorpusError,
    StoreError."""
    return federated_plan(
        config,
        corpus.train_sentences,
        lambda: corpus.layout,
        lambda: secrets or seeded_secrets(config, corpus.checksum),
        platforms=corpus.own if config.platforms else (),
    )


def secrets_of(config: SimulationConfig, corpus_checksum: str) -> Secrets:
    """What samples and noise of a run come from, new where the operating system is their source."""
    return Secrets.drawn() if config.privacy.noise_source == "system" else seeded_secrets(config, corpus_checksum)


def seeded_secrets(config: SimulationConfig, corpus_checksum: str) -> Secrets:
    """What protects a run with a seeded noise source."""
    return Secrets.seeded(config.seed, run_key(config, corpus_checksum))


def federated_plan(
    config: SimulationConfig,
    every: int,
    layout: Callable[[], Layout],
    secrets: Callable[[], Secrets],
    *,
    platforms: Sequence[np.ndarray] = (),
) -> FederatedPlan:
    """The plan for ``config`` on so many training sentences. layout: of all of them, asked for where it decides who
    holds what. secrets: of the run, asked for where they decide who takes part. platforms: numbers of
    the sentences that each platform trains on, where each client is one. Raises InvalidConfig if they do not fit."""
    federation, privacy, seeds = config.federation, config.privacy, Seeds(config.seed)
    if federation.masked and privacy.private:
        raise InvalidConfig(f"masked={federation.masked:g}, expected 0 with noise: {MASKED}")
    held = partition_data(every, layout, platforms, config.data_fraction, federation, seeds)
    participants = participants_of_rounds(federation, privacy, seeds, secrets)
    if federation.schedule == "gradients":
        participants *= max(1, round(config.training.epochs * len(held.chosen) / config.training.batch_size))
    visited = sum(map(len, participants))
    if visited > MOST_VISITS:
        raise InvalidConfig(
            f"{len(participants):,} rounds with {federation.participants or federation.clients:,} participants each, "
            f"expected at most {MOST_VISITS:,} trainings of a client in all"
        )
    sentences = tuple(piece for some in held.pieces for piece in some)
    plans = [PrivacyPlan.of_piece(config, len(piece), len(held.chosen)) for piece in sentences]
    first_part = np.cumsum([0, *map(len, held.pieces)])
    taken = [0] * len(plans)
    rounds: list[tuple[LocalTraining, ...]] = []
    for number, clients in enumerate(participants):
        visits = []
        for client in clients:
            part = int(first_part[client]) + number % len(held.pieces[client])
            visits.append(LocalTraining(client, part, taken[part], plans[part].steps))
            taken[part] += plans[part].steps
        rounds.append(tuple(visits))
    if not any(rounds):
        raise InvalidConfig(f"participants={federation.participants}: by chance no client joins any of the rounds")
    return FederatedPlan(
        parts=tuple(replace(plan, steps=max(1, steps)) for plan, steps in zip(plans, taken, strict=True)),
        sentences=sentences,
        shards=held.shards,
        chosen=held.chosen,
        rounds=tuple(rounds),
        server=PrivacyPlan.of_clients(config, visited) if privacy.kind.client_level and privacy.private else None,
        mechanism=privacy.kind,
        phases=federation.schedule == "incremental",
        platforms=bool(platforms),
        in_common=every - sum(map(len, platforms)) if platforms else 0,
        equal=privacy.kind.client_level or federation.weighting == "equal",
        joint_fraction=None if federation.together == 1 else max(1, round(federation.together * len(participants))),
    )
