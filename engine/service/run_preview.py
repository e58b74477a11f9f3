"""Preview of a run: its planned ε, the data of each client, and the estimated duration."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.config import SimulationConfig, has_own_corpus
from engine.corpus.sentence_metadata import Layout
from engine.embeddings.contamination import NONE, Overlap, apply_contamination
from engine.federated.accounting import privacy_spent, with_adjacency
from engine.federated.plan import FederatedPlan
from engine.privacy.plan import SHUFFLED, PrivacyPlan, tier
from engine.records import PrivacySpent, Run
from engine.records.assumption_texts import UNDECLARED_TYPES
from engine.service.runtime_estimates import Estimate, estimate


@dataclass(frozen=True, kw_only=True)
class Preview:
    """Preview of a run.

    Attributes:
        privacy: Privacy cost at its end.
        tier: Level of protection in words (see :func:`engine.privacy.plan.tier`).
        train_sentences: Number of training sentences.
        steps: Number of optimiser steps.
        warnings: Caveats about ε and F1, one sentence each.
        estimate: Estimated duration; None without comparable runs.
        overlap: Overlap with the sentences that the features were fitted on.
        missing: Why the run cannot be planned here, in a sentence; the other values then are those of the published
            run. "" if it can.
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
    """The data of each client.

    Attributes:
        clients: Names of the clients.
        sentences: Number of sentences, [clients].
        tokens: Number of tokens, [clients].
        types: Entity types.
        entities: Number of entities of each type, [clients, types].
    """

    clients: tuple[str, ...]
    sentences: tuple[int, ...]
    tokens: tuple[int, ...]
    types: tuple[str, ...]
    entities: tuple[tuple[int, ...], ...]


def preview(
    config: SimulationConfig,
    plan: FederatedPlan,
    shared: Overlap,
    declared: bool,
    published: Iterable[Run],
    done: Iterable[Run],
) -> Preview:
    """Return the preview of a run.

    Args:
        config: Configuration of the run.
        plan: Plan of the run.
        shared: Overlap of its corpus with the sentences that the features were fitted on.
        declared: Whether the entity types of its corpus are public or declared.
        published: Published runs, for ε and the estimate.
        done: Finished runs of this store, for the estimate.
    """
    sentences, published = sum(map(len, plan.shards)), list(published)
    known = _known_privacy(config, sentences, published)
    # A corpus of the same size may be split otherwise.
    privacy = with_adjacency(known, plan) if known else None
    privacy = privacy or privacy_spent(plan, plan.steps, len(plan.rounds))
    privacy = apply_contamination(privacy, shared)
    if has_own_corpus(config.corpus):
        privacy = privacy.with_own_types(declared=declared)
    return Preview(
        privacy=privacy,
        tier=tier(privacy.epsilon),
        train_sentences=sentences,
        steps=plan.steps,
        warnings=(*shared.warnings, *plan.warnings(), *(() if privacy.types_are_public else (UNDECLARED_TYPES,))),
        estimate=estimate(config, sentences, done, published),
        overlap=shared,
    )


def of_published(run: Run, missing: str) -> Preview:
    """Return the preview of a published run whose corpus is not on this machine.

    Args:
        run: The published run.
        missing: See :class:`Preview`.
    """
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
    """Return the data of each client.

    Args:
        plan: Plan of the run.
        every: Metadata of all training sentences.
        platforms: Names of the clients' own corpora; empty if they have parts of one corpus.
    """
    layout = every.where(plan.chosen)
    return Holdings(
        clients=tuple(platforms) or tuple(str(client + 1) for client in range(len(plan.shards))),
        sentences=tuple(map(len, plan.shards)),
        tokens=tuple(int(layout.tokens[shard].sum()) for shard in plan.shards),
        types=layout.types,
        entities=tuple(tuple(layout.entities[shard].sum(0).tolist()) for shard in plan.shards),
    )


def longest_document(known: Layout) -> int | None:
    """Return the number of sentences in the longest document; None if there are no documents."""
    documents = known.documents
    return None if documents is None else int(np.unique(documents, return_counts=True)[1].max())


def _warnings(config: SimulationConfig, sentences: int) -> tuple[str, ...]:
    """Return the warnings that are known without a plan, that is, without each client's number of sentences."""
    if config.privacy.kind.client_level:
        return PrivacyPlan.of_clients(config, 1).warnings()
    if config.federation.clients == 1:
        return PrivacyPlan.from_config(config, sentences).warnings()
    return (SHUFFLED,) if config.privacy.private and config.privacy.sampling == "shuffle" else ()


def _known_privacy(config: SimulationConfig, sentences: int, published: Iterable[Run]) -> PrivacySpent | None:
    """Return the privacy cost of a published run with the same plan, since ε does not depend on seed or hidden size."""
    if not _epsilon_depends_on_sizes_only(config):
        return None
    wanted = _epsilon_key(config, sentences)
    for run in published:
        provenance = run.provenance
        if provenance and not run.outdated and _epsilon_key(run.config, provenance.train_sentences) == wanted:
            return run.records[-1].privacy
    return None


def _epsilon_depends_on_sizes_only(config: SimulationConfig) -> bool:
    """Return whether settings and number of sentences determine ε, independently of seed and text."""
    federation = config.federation
    return federation.participants is None and (
        federation.partition in ("random", "unequal") or not config.assigns_sentences
    )


def _epsilon_key(config: SimulationConfig, sentences: int) -> tuple[object, ...]:
    training = config.training
    return config.privacy, config.federation, training.batch_size, training.epochs, sentences
