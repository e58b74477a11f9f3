"""What a federated run costs the one whom it costs most.

Shards are disjoint, so a sentence loses only what its own client's steps on its own piece cost, over all rounds
(parallel composition): ε of the run is the largest of those. Under the mechanisms on whole clients, a client loses what
its updates tell.
"""

import math
from dataclasses import replace

from engine.errors import InvalidConfig
from engine.federated.plan import FederatedPlan
from engine.privacy import accounting, events
from engine.privacy.events import Event
from engine.privacy.plan import PrivacyPlan
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


def spent(plan: FederatedPlan, steps: int, rounds: int, client: int | None = None) -> PrivacySpent:
    """What the costliest sentence or client has lost when all clients together have taken ``steps`` optimiser steps,
    and ``rounds`` rounds are done. client: of its sentences alone; where whole clients are protected all lose alike."""
    if plan.server:
        return _client_spent(plan, plan.server, rounds)
    found = [accounting.spent(part, taken) for part, taken in costly(plan, steps, client)]
    if not found:
        return accounting.spent(plan.parts[0], 0)
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


def costly(plan: FederatedPlan, steps: int, client: int | None = None) -> list[tuple[PrivacyPlan, int]]:
    """The parts, of all clients or one, among which the costliest is, with the steps taken on each: those whose ε by
    Rényi accounting, which is never below the exact one, is not below the exact ε of another. Of shuffled batches, all
    that differ: the costliest of them need not be so with amplification."""
    distinct = {}
    own = range(len(plan.parts)) if client is None else plan.parts_of(client)
    for number, (part, taken) in enumerate(zip(plan.parts, plan.taken(steps), strict=True)):
        if taken and number in own:
            distinct[replace(part, steps=1), taken] = (part, taken)
    if plan.parts[0].sampling == "shuffle":
        return list(distinct.values())
    ordered = sorted(distinct.values(), key=lambda one: -accounting.epsilon(one[0], one[1], "rdp"))
    found: list[tuple[PrivacyPlan, int]] = []
    largest = -math.inf
    for part, taken in ordered:
        if found and 1.01 * accounting.epsilon(part, taken, "rdp") < largest:  # the exact one is rounded up a little
            break
        found.append((part, taken))
        largest = max(largest, accounting.epsilon(part, taken))
    return found


def _client_spent(plan: FederatedPlan, server: PrivacyPlan, rounds: int) -> PrivacySpent:
    own = (OWN_PARTS,) if plan.platforms else ()
    if plan.local:
        return PrivacySpent(
            epsilon=accounting.price(event(plan, 0, rounds), server.delta),
            delta=server.delta,
            unit=plan.mechanism.protected,
            neighbouring=plan.mechanism.neighbours,
            accountant="exact",
            assumptions=(plan.mechanism.trusted, *own, *accounting.source(server), PUBLIC),
        )
    privacy = accounting.spent(server, rounds)
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
    rounds: as in :func:`spent`."""
    if plan.server:
        return events.of(plan.server, most_rounds(plan, rounds) if plan.local else rounds)
    found = [events.of(part, taken) for part, taken in costly(plan, steps)]
    return max(found, key=lambda each: accounting.price(each, plan.parts[0].delta), default=events.none())


def most_rounds(plan: FederatedPlan, rounds: int) -> int:
    """How often the busiest client took part in the first ``rounds`` rounds."""
    times = [0] * len(plan.shards)
    for visits in plan.rounds[:rounds]:
        for visit in visits:
            times[visit.client] += 1
    return max(times)
