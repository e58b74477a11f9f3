"""What a run would be, before it is started: its ε, who would hold what, how long it would take."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.config import SimulationConfig
from engine.corpus.sentence_metadata import Layout
from engine.embeddings.contamination import NONE, Overlap, apply_contamination
from engine.federated.accounting import privacy_spent
from engine.federated.plan import FederatedPlan
from engine.privacy.plan import SHUFFLED, PrivacyPlan, tier
from engine.records import PrivacySpent, Run
from engine.service.runtime_estimates import Estimate, estimate


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a run would be, before it is started.

    privacy: spent at its end. tier: in words (see :func:`engine.privacy.plan.tier`). train_sentences: that it would
    learn from. steps: optimiser steps. warnings: what the reader of ε and F1 should know, one sentence each.
    estimate: how long it may take, None where nothing like it is known. overlap: with the sentences that the
    features were fitted on. missing: what keeps the run from being planned here, in a sentence; the rest is then what
    was published of it.
    """

    privacy: PrivacySpent
    tier: str
    train_sentences: int
    steps: int
    warnings: tuple[str, ...]
    estimate: Estimate | None
    overlap: Overlap = NONE
    missing: str = ""


@dataclass(frozen=True)
class Holdings:
    """What each client holds. clients: what they are called. sentences, tokens: [clients]. entities: names of each of
    ``types``, [clients, types]."""

    clients: tuple[str, ...]
    sentences: tuple[int, ...]
    tokens: tuple[int, ...]
    types: tuple[str, ...]
    entities: tuple[tuple[int, ...], ...]


def preview(
    config: SimulationConfig, plan: FederatedPlan, shared: Overlap, published: Iterable[Run], done: Iterable[Run]
) -> Preview:
    """What a run with this plan would be. shared: see :class:`Preview`. published, done: runs that are known, by which
    ε and the time are judged."""
    sentences, published = sum(map(len, plan.shards)), list(published)
    privacy = _known_privacy(config, sentences, published) or privacy_spent(plan, plan.steps, len(plan.rounds))
    privacy = apply_contamination(privacy, shared)
    return Preview(
        privacy=privacy,
        tier=tier(privacy.epsilon),
        train_sentences=sentences,
        steps=plan.steps,
        warnings=(*shared.warnings, *plan.warnings()),
        estimate=estimate(config, sentences, done, published),
        overlap=shared,
    )


def of_published(run: Run, missing: str) -> Preview:
    """What a published run was, where the corpus is not here to plan it with. missing: see :class:`Preview`."""
    last, sentences = run.records[-1], run.provenance.train_sentences if run.provenance else 0
    return Preview(
        privacy=last.privacy,
        tier=tier(last.privacy.epsilon),
        train_sentences=sentences,
        steps=last.steps_total,
        warnings=_warnings(run.config, sentences),
        estimate=None,
        missing=missing,
    )


def holdings(plan: FederatedPlan, every: Layout, platforms: Sequence[str]) -> Holdings:
    """Who would hold what. every: the layout of all training sentences. platforms: names of the corpora of clients who
    have one each."""
    known = every.where(plan.chosen)
    return Holdings(
        clients=tuple(platforms) or tuple(str(client + 1) for client in range(len(plan.shards))),
        sentences=tuple(map(len, plan.shards)),
        tokens=tuple(int(known.tokens[shard].sum()) for shard in plan.shards),
        types=known.types,
        entities=tuple(tuple(known.entities[shard].sum(0).tolist()) for shard in plan.shards),
    )


def longest_document(known: Layout) -> int | None:
    """Sentences in the longest document; None if there are no documents."""
    documents = known.documents
    return None if documents is None else int(np.unique(documents, return_counts=True)[1].max())


def _warnings(config: SimulationConfig, sentences: int) -> tuple[str, ...]:
    """Those of a plan that can be known without one: how many sentences each of several clients has is not."""
    if config.privacy.kind.client_level:
        return PrivacyPlan.of_clients(config, 1).warnings()
    if config.federation.clients == 1:
        return PrivacyPlan.from_config(config, sentences).warnings()
    return (SHUFFLED,) if config.privacy.private and config.privacy.sampling == "shuffle" else ()


def _known_privacy(config: SimulationConfig, sentences: int, published: Iterable[Run]) -> PrivacySpent | None:
    """What a published run of the same plan has spent: a seed or a hidden size changes no ε."""
    if not _priced_by_sizes(config):
        return None
    wanted = _price(config, sentences)
    for run in published:
        made = run.provenance
        if made and not run.outdated and _price(run.config, made.train_sentences) == wanted:
            return run.records[-1].privacy
    return None


def _priced_by_sizes(config: SimulationConfig) -> bool:
    """Whether ε follows from settings and the number of sentences alone, whatever the seed and the words."""
    federation = config.federation
    return federation.participants is None and (
        federation.clients == 1 or federation.partition in ("random", "unequal")
    )


def _price(config: SimulationConfig, sentences: int) -> tuple[object, ...]:
    training = config.training
    return config.privacy, config.federation, training.batch_size, training.epochs, sentences
