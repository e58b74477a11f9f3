"""Audits as words and plain fields."""

import math
from dataclasses import asdict
from typing import Any

from engine.config import SimulationConfig
from engine.records import SHOWN, Audit, CanaryAudit, MembershipAudit, ServerAudit
from engine.reports.cli_command import command_line
from engine.reports.numbers import epsilon_text

KINDS = {"directions": "who reads every step", "sentences": "who has the tagger"}
"""Who attacks, by the kind of canary."""

ERRS = (
    "What one attacker shows is too high in at most one honest run of 20, what one of two shows in at most one of 10: "
    "measure again before you accuse."
)
"""Of a bound above the claim."""
NO_FINDING_NOTE = "That proves nothing: another attack, more references or other canaries may tell more."
"""Of bounds below it."""


def audit_command(config: SimulationConfig, canaries: int, references: int, run: str | None = None) -> str:
    """The command that measures again. run: whose tagger was attacked, where it was kept."""
    first = f"python -m engine audit --run {run}" if run else command_line(config, "audit")
    return f"{first} --canaries {canaries} --references {references}"


def audit_fields(audit: Audit) -> dict[str, Any]:
    """For JSON: no ε that is infinite; None for what was not measured."""
    return {
        "run_id": audit.run_id,
        "command": audit.command,
        "white": _canaries(audit.white),
        "black": _canaries(audit.black),
        "membership": asdict(audit.membership) | {"claimed": _finite(audit.membership.claimed)}
        if audit.membership
        else None,
        "server": asdict(audit.server) | {"claimed": _finite(audit.server.claimed)} if audit.server else None,
    }


def audit_text(audit: Audit) -> str:
    """In sentences, one a line."""
    lines = [_canary_text(found) for found in (audit.white, audit.black) if found]
    if audit.membership:
        lines.append(membership_text(audit.membership))
    if audit.server:
        lines.append(server_text(audit.server, audit.config.privacy.noise_multiplier))
    canaries = [found for found in (audit.white, audit.black) if found]
    if any(found.contradicted for found in canaries):
        lines.append(f"More is shown to be lost than is claimed. {ERRS}")
    elif canaries:
        none = math.isinf(canaries[0].claimed)
        lines.append("Nothing is claimed." if none else f"The claim is not contradicted. {NO_FINDING_NOTE}")
    return "\n".join(lines)


def _canary_text(found: CanaryAudit) -> str:
    return (
        f"{KINDS[found.kind].capitalize()}: claimed ε = {epsilon_text(found.claimed)}; at 95 % at least "
        f"{found.best:.3g} is lost (of {found.canaries:,} canaries {found.right:,} guessed rightly)"
    )


def membership_text(found: MembershipAudit) -> str:
    """What the strongest attack catches."""
    curve = found.strongest
    shares = ", ".join(
        f"{100 * caught:.2f} % ({100 * low:.2f} to {100 * high:.2f}) where {100 * rate:g} % of others are wrongly named"
        for rate, (caught, low, high) in zip(SHOWN, curve.shown, strict=True)
    )
    return (
        f"Membership, {curve.attack} with {found.references} references, claimed ε = {epsilon_text(found.claimed)}: "
        f"area {curve.area:.3f}; members caught: {shares}"
    )


def server_text(found: ServerAudit, noise_multiplier: float) -> str:
    """What the server reads at this noise multiplier, the run's, and how much noise it takes to end that."""
    own = next(each for each in found.readings if each.noise_multiplier == noise_multiplier)
    again = "" if measured(found)[found.readings.index(own)] else ", not measured again at this noise"
    what = "the sum of all messages" if found.sums else f"the first messages of {found.clients} clients"
    begins = f"A curious server, from {what} ({found.sentences:,} sentences each, steps: {found.steps})"
    if own.by_message:
        said = f"names {own.said:,} words, {100 * own.precision:.0f} % of them rightly, of {own.there:,} that are there"
        return f"{begins}: {said}; words of names: {own.names_read:,} of {own.names:,}"
    reads = [each.noise_multiplier for each in found.readings if each.by_message]
    why = f"; up to σ = {max(reads):g} it reads something" if reads else ", whatever the noise: too much is summed up"
    return f"{begins}: nothing beyond frequent words{why}{again}"


def measured(found: ServerAudit) -> list[bool]:
    """Of each reading, whether messages with its noise were attacked. From the first ones on that are left alone nobody
    looks again: what stands at more noise is the reading before it."""
    return [not number or found.readings[number - 1].by_message for number in range(len(found.readings))]


def _canaries(found: CanaryAudit | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return asdict(found) | {"claimed": _finite(found.claimed), "contradicted": found.contradicted}


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value
