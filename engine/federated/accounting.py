"""Privacy accounting of a federated run: ε of its worst-case sentence or client.

Shards are disjoint, so a sentence loses privacy only by its own client's steps on its own piece, over all rounds
(parallel composition). ε of the run is the largest of those. Under client-level mechanisms, a client loses privacy by
its updates.
"""

import math
from dataclasses import replace

from engine.config import SimulationConfig
from engine.errors import InvalidConfig
from engine.federated.plan import FederatedPlan
from engine.privacy import accounting, events
from engine.privacy.assumptions.scenario import Part, Training
from engine.privacy.events import Event
from engine.privacy.plan import PrivacyPlan
from engine.privacy.rdp_filter import RdpFilter
from engine.records import PrivacySpent
from engine.records.assumption_texts import (
    APART,
    DISJOINT,
    DRAWN_PIECES,
    EVERY_CLIENT,
    INDEPENDENT,
    JOINED,
    JOINED_WITHHELD,
    OWN_PARTS,
    PIECES,
    PRIVATE_LAYERS,
    PUBLIC_CLIENTS,
    SPLIT,
)


def privacy_spent(plan: FederatedPlan, steps: int, rounds: int, client: int | None = None) -> PrivacySpent:
    """Return the privacy loss of the worst-case sentence or client.

    Args:
        plan: The federated plan.
        steps: Optimiser steps that all clients together have taken.
        rounds: Finished rounds.
        client: Restricts the result to the sentences of one client; client-level mechanisms have the same loss for all.
    """
    if plan.server:
        return _client_spent(plan, plan.server, rounds)
    candidates = max_cost_candidates(plan, steps, client)
    losses = [accounting.privacy_spent(part, taken) for part, taken in candidates]
    if not losses:
        losses = [accounting.privacy_spent(plan.parts[0], 0)]
    privacy = with_adjacency(max(losses, key=lambda privacy: privacy.epsilon), plan)
    if len(plan.parts) == 1 or not plan.private:
        return privacy
    disjoint = INDEPENDENT if plan.drawn else DISJOINT
    if plan.platforms:
        disjoint = APART.format(number=f"{plan.in_common:,}")
    pieces = DRAWN_PIECES if plan.drawn else PIECES
    extra = (disjoint, pieces) if len(plan.parts) > len(plan.shards) else (disjoint,)
    poisson = [loss.poisson_epsilon for loss in losses if loss.poisson_epsilon is not None]
    return replace(
        privacy,
        assumptions=(*privacy.assumptions, *extra),
        rdp_epsilon=max(loss.rdp_epsilon for loss in losses),
        poisson_epsilon=max(poisson) if poisson else None,
    )


def with_adjacency(privacy: PrivacySpent, plan: FederatedPlan) -> PrivacySpent:
    """Return a privacy loss with the adjacency of a plan, and with its split of the corpus among the assumptions."""
    stated = tuple(each for each in privacy.assumptions if plan.split or each != SPLIT)
    if plan.split and stated and SPLIT not in stated and not plan.mechanism.client_level:
        stated = (*stated, SPLIT)
    return replace(privacy, neighbouring=plan.neighbours, assumptions=stated)


def max_cost_candidates(plan: FederatedPlan, steps: int, client: int | None = None) -> list[tuple[PrivacyPlan, int]]:
    """Return the parts among which the worst-case part is, with the steps taken on each.

    See :func:`engine.privacy.accounting.max_cost_candidates`. For shuffled batches, all different parts are returned:
    the worst-case part may differ from the one with amplification.

    Args:
        plan: The federated plan.
        steps: Optimiser steps that all clients together have taken.
        client: Restricts the parts to those of one client.
    """
    numbers = range(len(plan.parts)) if client is None else plan.parts_of(client)
    taken = plan.taken(steps)
    parts = [(plan.parts[number], taken[number]) for number in numbers]
    if plan.parts[0].sampling == "shuffle":
        return list({(replace(part, steps=1), steps): (part, steps) for part, steps in parts if steps}.values())
    return accounting.max_cost_candidates(parts)


def _client_spent(plan: FederatedPlan, server: PrivacyPlan, rounds: int) -> PrivacySpent:
    own = (OWN_PARTS if plan.in_common else PRIVATE_LAYERS,) if plan.platforms else ()
    joined: tuple[str, ...] = ()
    if server.sampling == "poisson":
        drawn = JOINED if server.noise_source == "seeded" else JOINED_WITHHELD
        joined = (drawn if server.sampling_probability < 1 else EVERY_CLIENT,)
    times = releases(plan, rounds)
    return replace(
        accounting.privacy_spent(server, times),
        unit=plan.mechanism.protected,
        neighbouring=plan.neighbours,
        assumptions=(*joined, plan.mechanism.trusted, *own, *accounting.source(server), PUBLIC_CLIENTS),
    )


def noise_multiplier_for(plan: FederatedPlan, target_epsilon: float) -> float:
    """Return the smallest noise multiplier, to 0.0001, with which every client's ε is at most ``target_epsilon``.

    It is the largest multiplier that a part, or the server's mechanism, of a plan with noise needs. Raises
    InvalidConfig if none suffices, and for mechanisms without sampled clients, for which no search exists.
    """
    if plan.server and plan.server.sampling == "all":
        raise InvalidConfig(
            f"mechanism={plan.mechanism.name!r}: the search for a noise multiplier requires sampled clients; here each "
            "message spends ε; set the noise multiplier"
        )
    parts = [plan.server] if plan.server else dict.fromkeys(plan.parts)
    return max(accounting.noise_multiplier_for(target_epsilon, part) for part in parts)


def event(plan: FederatedPlan, steps: int, rounds: int) -> Event:
    """Return the privacy event of the worst-case sentence or client; see :mod:`engine.privacy.events`.

    Args:
        plan: The federated plan.
        steps: Optimiser steps that all clients together have taken.
        rounds: Finished rounds.
    """
    candidates = [events.of(part, taken) for part, taken in accounted(plan, steps, rounds)]
    if len(candidates) < 2:
        return candidates[0] if candidates else events.none()
    delta = plan.parts[0].delta
    return max(candidates, key=lambda event: accounting.event_epsilon(event, delta))


def accounted(plan: FederatedPlan, steps: int, rounds: int) -> list[tuple[PrivacyPlan, int]]:
    """Return the plans among which that of the worst-case sentence or client is, with the steps or releases of each.

    Args:
        plan: The federated plan.
        steps: Optimiser steps that all clients together have taken.
        rounds: Finished rounds.
    """
    return [(plan.server, releases(plan, rounds))] if plan.server else max_cost_candidates(plan, steps)


def divergence(plan: FederatedPlan, unit: str, order: float) -> float:
    """Return the Rényi divergence of a whole run for its worst-case unit; ∞ if that unit has no guarantee.

    A filter admits runs by the sum of these (:class:`engine.privacy.rdp_filter.RdpFilter`). Adding or removing one
    sentence can change all data of its client, and move the clipped update by 2C. The participants of a round then do
    not count as random.

    Args:
        plan: The federated plan.
        unit: "sentence" or "client".
        order: Order α of the divergence.
    """
    if not plan.private or (unit == "client" and plan.server is None):
        return math.inf
    if plan.server is None:
        return max(_steps_divergence(part, order) for part in plan.parts)
    server = plan.server
    times = releases(plan, len(plan.rounds)) if server.sampling == "all" else server.steps
    if server.sampling == "all" or unit == "sentence":
        return times * order * (2 / server.noise_multiplier) ** 2 / 2
    return RdpFilter(math.inf, server.delta, order).cost(server)


def adjacency(plan: FederatedPlan, unit: str) -> str:
    """Return the adjacency for which :func:`divergence` holds.

    Args:
        plan: The federated plan.
        unit: "sentence" or "client".
    """
    return plan.mechanism.neighbours if unit == "client" else plan.sentence_neighbours


def _steps_divergence(part: PrivacyPlan, order: float) -> float:
    if part.sampling == "shuffle":
        return math.ceil(part.steps / part.steps_per_epoch) * order * 5 / part.noise_multiplier**2 / 2
    return RdpFilter(math.inf, part.delta, order).cost(part)


def training(config: SimulationConfig, plan: FederatedPlan, longest_document: int | None = None) -> Training:
    """Return the training whose assumptions :mod:`engine.privacy.assumptions` evaluates, for a finished run.

    Args:
        config: The configuration.
        plan: Its federated plan.
        longest_document: Longest document of its corpus, in sentences.

    Raises:
        InvalidConfig: For values out of range.
    """
    privacy, server = config.privacy, plan.server
    if server:
        every = server.sampling == "all"
        times = releases(plan, len(plan.rounds)) if every else server.steps
        batch = server.examples if every else server.batch_size
        part = Part(server.examples, batch, times)
        return Training(
            examples=server.examples,
            batch_size=batch,
            epochs=times * batch / server.examples,
            parts=(part,),
            noise_multiplier=server.noise_multiplier,
            delta=server.delta,
            unit="client",
            messages=every,
        )
    parts = {Part(part.examples, part.batch_size, part.steps) for part in plan.parts}
    examples = sum(map(len, plan.shards))
    sampled = sum(part.batch_size * part.steps for part in plan.parts)
    return Training(
        examples=examples,
        batch_size=min(config.training.batch_size, examples),
        epochs=sampled / examples,
        parts=tuple(sorted(parts, key=lambda part: (part.examples, part.steps))),
        clients=len(plan.shards),
        noise_multiplier=privacy.noise_multiplier,
        delta=privacy.delta,
        shuffled=privacy.sampling == "shuffle",
        longest_document=longest_document,
        moves_sentences=plan.moves_sentences,
    )


def releases(plan: FederatedPlan, rounds: int) -> int:
    """Return how many of the first ``rounds`` rounds release something about the client with the most of them.

    If clients are sampled, the accounting has each round, since the participants stay secret.
    """
    return most_rounds(plan, rounds) if plan.server and plan.server.sampling == "all" else rounds


def most_rounds(plan: FederatedPlan, rounds: int) -> int:
    """Return how many of the first ``rounds`` rounds the client with the most rounds took part in."""
    times = [0] * len(plan.shards)
    for visits in plan.rounds[:rounds]:
        for visit in visits:
            times[visit.client] += 1
    return max(times)
