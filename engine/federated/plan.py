"""What every client will do in every round, decided once; training and accounting read this one object.

Light: pages import it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from engine.config import SimulationConfig, run_key
from engine.corpus import AnyCorpus
from engine.corpus.layout import Layout
from engine.errors import InvalidConfig
from engine.federated.partition import partition
from engine.privacy.kinds import DP_SGD, MechanismKind
from engine.privacy.mechanisms import poisson_sample
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets, Seeds

MOST_VISITS = 1_000_000
"""Largest rounds · participants."""


@dataclass(frozen=True)
class Visit:
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
    whether each client has tags of its own, and keeps what belongs to them.
    """

    parts: tuple[PrivacyPlan, ...]
    chosen: np.ndarray
    sentences: tuple[np.ndarray, ...]
    shards: tuple[np.ndarray, ...]
    rounds: tuple[tuple[Visit, ...], ...]
    server: PrivacyPlan | None
    mechanism: MechanismKind = DP_SGD
    phases: bool = False
    platforms: bool = False

    @property
    def alone(self) -> bool:
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
        return self.server is not None and self.mechanism.noise == "messages"

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


def chosen_sentences(every: int, fraction: float, seeds: Seeds) -> np.ndarray:
    """A random share of so many training sentences, ascending; it earns no privacy amplification. Raises InvalidConfig
    if none is left."""
    wanted = every if fraction == 1.0 else round(fraction * every)
    if wanted < 1:
        raise InvalidConfig(f"data_fraction={fraction:g} leaves none of the {every:,} training sentences")
    if wanted == every:
        return np.arange(every)
    return np.sort(seeds.stream("data fraction").permutation(every)[:wanted])


def plan_of(config: SimulationConfig, corpus: AnyCorpus, secrets: Secrets | None = None) -> FederatedPlan:
    """The plan for ``config``; secrets: of the run, by default those of its seed. Raises InvalidConfig, CorpusError,
    StoreError."""
    return federated_plan(
        config,
        corpus.train_sentences,
        lambda: corpus.layout,
        lambda: secrets or seeded_secrets(config, corpus.checksum),
        platforms=[part.train_sentences for part in corpus.parts] if config.platforms else (),
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
    platforms: Sequence[int] = (),
) -> FederatedPlan:
    """The plan for ``config`` on so many training sentences. layout: of all of them, asked for where it decides who
    holds what. secrets: of the run, asked for where they decide who takes part. platforms: how many of the sentences
    each platform has, where each client is one. Raises InvalidConfig if they do not fit."""
    federation, privacy, seeds = config.federation, config.privacy, Seeds(config.seed)
    if platforms:
        chosen, shards = _held_by_platforms(platforms, config.data_fraction, seeds)
    else:
        chosen = chosen_sentences(every, config.data_fraction, seeds)
        shards = partition(len(chosen), lambda: layout().where(chosen), federation, seeds)
    at_steps = not privacy.kind.whole_clients
    participants = _participants(config, secrets)
    if sum(map(len, participants)) > MOST_VISITS:
        raise InvalidConfig(
            f"rounds={federation.rounds:,} with {federation.participants or federation.clients:,} participants each, "
            f"expected at most {MOST_VISITS:,} trainings of a client in all"
        )
    server = None if at_steps or not privacy.private else _server(config, sum(map(len, participants)))
    pieces = [_pieces(shard, client, config, seeds) for client, shard in enumerate(shards)]
    first_part = np.cumsum([0, *(len(some) for some in pieces)])
    plans = [_part(config, len(piece), at_steps, alone=federation.clients == 1) for some in pieces for piece in some]
    taken = [0] * len(plans)
    rounds: list[tuple[Visit, ...]] = []
    for number, clients in enumerate(participants):
        visits = []
        for client in clients:
            part = int(first_part[client]) + number % len(pieces[client])
            visits.append(Visit(client, part, taken[part], plans[part].steps))
            taken[part] += plans[part].steps
        rounds.append(tuple(visits))
    if not any(rounds):
        raise InvalidConfig(f"participants={federation.participants}: by chance no client joins any of the rounds")
    return FederatedPlan(
        parts=tuple(replace(plan, steps=max(1, steps)) for plan, steps in zip(plans, taken, strict=True)),
        sentences=tuple(piece for some in pieces for piece in some),
        shards=tuple(shards),
        chosen=chosen,
        rounds=tuple(rounds),
        server=server,
        mechanism=privacy.kind,
        phases=federation.schedule == "incremental",
        platforms=bool(platforms),
    )


def _held_by_platforms(platforms: Sequence[int], fraction: float, seeds: Seeds) -> tuple[np.ndarray, list[np.ndarray]]:
    """The same share of each platform's sentences, and whose they are."""
    firsts = np.cumsum([0, *platforms])
    each = [
        firsts[number] + chosen_sentences(every, fraction, seeds.of(platform=number))
        for number, every in enumerate(platforms)
    ]
    borders = np.cumsum(list(map(len, each)))
    return np.concatenate(each), np.split(np.arange(borders[-1]), borders[:-1])


def _participants(config: SimulationConfig, secrets: Callable[[], Secrets]) -> list[list[int]]:
    """The clients of each round, ascending.

    Where the mechanism draws them each joins by itself with probability m/n, which its accounting rests on, and a round
    may be empty; else m of them are drawn.
    """
    federation, privacy = config.federation, config.privacy
    clients, wanted = federation.clients, federation.participants or federation.clients
    if wanted == clients:
        return [list(range(clients)) for _ in range(federation.rounds)]
    poisson = privacy.kind.drawn
    streams: Secrets | Seeds = secrets() if poisson and privacy.private else Seeds(config.seed)
    drawn = []
    for number in range(federation.rounds):
        random = streams.stream("participants", round=number)
        some = poisson_sample(random, clients, wanted / clients) if poisson else random.permutation(clients)[:wanted]
        drawn.append(sorted(some.tolist()))
    return drawn


def _pieces(shard: np.ndarray, client: int, config: SimulationConfig, seeds: Seeds) -> list[np.ndarray]:
    rounds = config.federation.rounds
    if config.federation.schedule == "averaging" or rounds == 1:
        return [shard]
    if len(shard) < rounds:
        raise InvalidConfig(
            f"rounds={rounds:,} with schedule='incremental', but client {client + 1} has {len(shard):,} sentences: "
            "less than one for each round"
        )
    return [
        np.sort(piece) for piece in np.array_split(seeds.stream("pieces", client=client).permutation(shard), rounds)
    ]


def _part(config: SimulationConfig, sentences: int, at_steps: bool, *, alone: bool) -> PrivacyPlan:
    """DP-SGD on one piece in one round. A piece smaller than the batch is used whole at each step (q = 1), unless it is
    all there is."""
    training = config.training
    if not alone and training.batch_size > sentences:
        config = replace(config, training=replace(training, batch_size=sentences))
    plan = PrivacyPlan.from_config(config, sentences)
    return plan if at_steps else replace(plan, noise_multiplier=0.0, clip_norm=None)


def _server(config: SimulationConfig, visits: int) -> PrivacyPlan:
    federation, privacy = config.federation, config.privacy
    messages = privacy.kind.noise == "messages"
    return PrivacyPlan(
        examples=federation.clients,
        batch_size=federation.participants or federation.clients,
        steps=max(1, visits) if messages else federation.rounds,
        noise_multiplier=privacy.noise_multiplier,
        clip_norm=privacy.clip_norm,
        delta=privacy.delta,
        sampling="all" if messages else "poisson",
        noise_source=privacy.noise_source,
    )
