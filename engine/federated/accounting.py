"""What a federated run costs the one whom it costs most.

Shards are disjoint, so a sentence loses only what its own client's steps on its own piece cost, over all rounds
(parallel composition): ε of the run is the largest of those. Under the mechanisms on whole clients, a client loses what
its updates tell.
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

DISJOINT = "Each sentence is held by one client alone; ε is that of the client who pays most, over all its rounds."
APART = (
    "Each sentence is trained on by one platform alone: {number} that others have too, but for case and punctuation, "
    "were left out, and to find them platforms compare checksums; ε is that of the one who pays most."
)
PIECES = "Each sentence is in one of its client's pieces alone, and who is in which was decided without looking at it."
JOINED = "Each client joins each round by chance, and who did would have to stay secret; a simulation shows it."
EVERY_CLIENT = "Every client takes part in every round."
OWN_PARTS = "Each platform keeps the parts that belong to its tags; what it learned in them is not protected."
PUBLIC = "Word vectors, tag names, the number of clients and all settings are public or were fixed in advance."


def privacy_spent(plan: FederatedPlan, steps: int, rounds: int, client: int | None = None) -> PrivacySpent:
    """What the costliest sentence or client has lost when all clients together have taken ``steps`` optimiser steps,
    and ``rounds`` rounds are done. client: of its sentences alone; where whole clients are protected all lose alike."""
    if plan.server:
        return _client_spent(plan, plan.server, rounds)
    found = [accounting.privacy_spent(part, taken) for part, taken in max_cost_candidates(plan, steps, client)]
    if not found:
        return accounting.privacy_spent(plan.parts[0], 0)
    privacy = max(found, key=lambda privacy: privacy.epsilon)
    if len(plan.parts) == 1 or not plan.private:
        return privacy
    disjoint = APART.format(number=f"{plan.in_common:,}") if plan.platforms else DISJOINT
    extra = (disjoint, PIECES) if len(plan.parts) > len(plan.shards) else (disjoint,)
    poisson = [one.poisson_epsilon for one in found if one.poisson_epsilon is not None]
    return replace(
        privacy,
        assumptions=(*privacy.assumptions, *extra),
        rdp_epsilon=max(privacy.rdp_epsilon for privacy in found),
        poisson_epsilon=max(poisson) if poisson else None,
    )


def max_cost_candidates(plan: FederatedPlan, steps: int, client: int | None = None) -> list[tuple[PrivacyPlan, int]]:
    """The parts, of all clients or one, among which the costliest is, with the steps taken on each
    (:func:`engine.privacy.accounting.max_cost_candidates`). Of shuffled batches, all that differ: the costliest of them
    need not be so with amplification."""
    own = range(len(plan.parts)) if client is None else plan.parts_of(client)
    taken = plan.taken(steps)
    parts = [(plan.parts[number], taken[number]) for number in own]
    if plan.parts[0].sampling == "shuffle":
        return list({(replace(part, steps=1), steps): (part, steps) for part, steps in parts if steps}.values())
    return accounting.max_cost_candidates(parts)


def _client_spent(plan: FederatedPlan, server: PrivacyPlan, rounds: int) -> PrivacySpent:
    own = (OWN_PARTS,) if plan.platforms else ()
    if plan.local:
        return PrivacySpent(
            epsilon=accounting.event_epsilon(event(plan, 0, rounds), server.delta),
            delta=server.delta,
            unit=plan.mechanism.protected,
            neighbouring=plan.mechanism.neighbours,
            accountant="exact",
            assumptions=(plan.mechanism.trusted, *own, *accounting.source(server), PUBLIC),
        )
    privacy = accounting.privacy_spent(server, rounds)
    joined = JOINED if server.sampling_probability < 1 else EVERY_CLIENT
    trusted = (joined, plan.mechanism.trusted, *own, *accounting.source(server), PUBLIC)
    return replace(privacy, unit=plan.mechanism.protected, assumptions=trusted)


def noise_multiplier_for(plan: FederatedPlan, target_epsilon: float) -> float:
    """The smallest noise multiplier, to 0.0001, with which nobody loses more than ``target_epsilon`` over a whole plan
    that has some noise: what the part, or the server's mechanism, needs that needs most.

    Raises InvalidConfig where none does, and for noise in messages, whose cost is not searched.
    """
    if plan.local:
        raise InvalidConfig(
            "mechanism='local': no noise multiplier is searched for an ε here, since each message is paid for; try some"
        )
    parts = [plan.server] if plan.server else dict.fromkeys(plan.parts)
    return max(accounting.noise_multiplier_for(target_epsilon, part) for part in parts)


def event(plan: FederatedPlan, steps: int, rounds: int) -> Event:
    """What happened to the one whom it cost most, as one composable event: see :mod:`engine.privacy.events`. steps,
    rounds: as in :func:`privacy_spent`."""
    if plan.server:
        return events.of(plan.server, most_rounds(plan, rounds) if plan.local else rounds)
    found = [events.of(part, taken) for part, taken in max_cost_candidates(plan, steps)]
    return max(found, key=lambda each: accounting.event_epsilon(each, plan.parts[0].delta), default=events.none())


def divergence(plan: FederatedPlan, unit: str, order: float) -> float:
    """The Rényi divergence of this order that a whole run costs the one whom it costs most: a sum of these over runs is
    what a filter admits by (:class:`engine.privacy.rdp_filter.RdpFilter`). ∞ where nothing is promised to that
    ``unit``, a "sentence" or a "client".

    One sentence more or less changes all that its client has into something else, and may move the clipped update by
    2C. Who joined a round is not counted as chance then.
    """
    if not plan.private or (unit == "client" and plan.server is None):
        return math.inf
    if plan.server is None:
        return max(_steps_divergence(part, order) for part in plan.parts)
    server = plan.server
    times = most_rounds(plan, len(plan.rounds)) if plan.local else server.steps
    if plan.local or unit == "sentence":
        return times * order * (2 / server.noise_multiplier) ** 2 / 2
    return RdpFilter(math.inf, server.delta, order).cost(server)


def _steps_divergence(part: PrivacyPlan, order: float) -> float:
    if part.sampling == "shuffle":
        return math.ceil(part.steps / part.steps_per_epoch) * order * 5 / part.noise_multiplier**2 / 2
    return RdpFilter(math.inf, part.delta, order).cost(part)


def training(config: SimulationConfig, plan: FederatedPlan, longest_document: int | None = None) -> Training:
    """What the ledger of assumptions (:mod:`engine.privacy.assumptions`) is of, for a run to its end. longest_document:
    of
    its corpus, in sentences. Raises InvalidConfig."""
    privacy, server = config.privacy, plan.server
    if server:
        times = most_rounds(plan, len(plan.rounds)) if plan.local else server.steps
        batch = server.examples if plan.local else server.batch_size
        part = Part(server.examples, batch, times)
        return Training(
            examples=server.examples,
            batch_size=batch,
            epochs=times * batch / server.examples,
            parts=(part,),
            noise_multiplier=server.noise_multiplier,
            delta=server.delta,
            unit="client",
            messages=plan.local,
        )
    parts = {Part(each.examples, each.batch_size, each.steps) for each in plan.parts}
    examples = sum(map(len, plan.shards))
    drawn = sum(each.batch_size * each.steps for each in plan.parts)
    return Training(
        examples=examples,
        batch_size=min(config.training.batch_size, examples),
        epochs=drawn / examples,
        parts=tuple(sorted(parts, key=lambda each: (each.examples, each.steps))),
        clients=len(plan.shards),
        noise_multiplier=privacy.noise_multiplier,
        delta=privacy.delta,
        shuffled=privacy.sampling == "shuffle",
        longest_document=longest_document,
    )


def most_rounds(plan: FederatedPlan, rounds: int) -> int:
    """How often the busiest client took part in the first ``rounds`` rounds."""
    times = [0] * len(plan.shards)
    for visits in plan.rounds[:rounds]:
        for visit in visits:
            times[visit.client] += 1
    return max(times)
