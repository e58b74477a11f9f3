"""Audit results as text and as plain fields."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from engine.config import SimulationConfig
from engine.privacy.audit import canary_bounds, power
from engine.privacy.audit.one_run import Guesses
from engine.privacy.plan import PrivacyPlan
from engine.records import SHOWN, Audit, CanaryAudit, MembershipAudit, ServerAudit
from engine.reports.cli_command import command_line
from engine.reports.numbers import epsilon_text

KINDS = {"directions": "white-box attacker (reads every step)", "sentences": "black-box attacker (queries the model)"}
"""Attackers, by type of canary."""

ATTACKS = {"loss": "loss threshold"}
"""Names of membership-inference attacks, where they differ from the stored names."""
CONTRADICTED = "The measured lower bound exceeds the claimed ε."
"""Finding of a bound above the claim."""
ERRS = (
    "Even in a correct run, the bound of one attacker is too high with probability at most 5 %. With two attackers, at "
    "least one bound is too high with probability at most 10 %. Repeat the measurement before you reject the claim."
)
"""Significance note on a bound above the claim."""
NO_FINDING_NOTE = "This does not prove the claim: another attack, more shadow models or other canaries may be stronger."
"""Note on bounds below the claim."""
_SMALLEST = 0.05
"""Largest ε of which a median bound counts as none."""


def joint_bound(config: SimulationConfig, audits: Sequence[CanaryAudit]) -> float | None:
    """Return one lower bound on ε at 95 % confidence from the audits of several seeds by one attacker.

    It is None for a single audit, for audits of different size or method, and for older audits, whose plan is not
    known.

    Args:
        config: their configuration, with any seed.
        audits: one audit of each seed.
    """
    sizes = {(audit.canaries, audit.examples, audit.claimed, audit.trials is None) for audit in audits}
    if len(audits) < 2 or len(sizes) > 1 or audits[0].examples is None:
        return None
    guesses = tuple(Guesses(audit.canaries, audit.made, audit.right) for audit in audits)
    plan = PrivacyPlan.from_config(config, audits[0].examples)
    return _joint(guesses, tuple(audit.trials for audit in audits), plan)


@lru_cache(maxsize=256)
def _joint(guesses: tuple[Guesses, ...], trials: tuple[tuple[int, int] | None, ...], plan: PrivacyPlan) -> float:
    return canary_bounds.of_seeds(guesses, trials, plan)


def power_of(audit: CanaryAudit, seeds: int = 1) -> power.Power | None:
    """Return the power of an audit, or of the joint bound of several seeds; None without calibration runs.

    Args:
        audit: one audit.
        seeds: runs of the same size whose guesses share one bound.
    """
    method = power.GUESSES if audit.kind == "sentences" else power.COUNT if audit.trials else power.RATES
    return power.power(audit.kind, audit.canaries, method=method, seeds=seeds)


def power_text(found: power.Power | None) -> str:
    """Return what an audit of this size could have contradicted, by its calibration runs."""
    if found is None:
        return "No calibration run is so small: the power of this audit is not known."
    runs = "" if found.seeds == 1 else f" in each of {found.seeds} runs"
    size = f"Calibration with {found.canaries:,} canaries{runs}"
    limits = {epsilon: ratio * epsilon for epsilon, ratio in found.medians.items()}
    if max(limits.values()) < _SMALLEST:
        true = _listed([f"{epsilon:g}" for epsilon in limits])
        return (
            f"{size}: the median bound is below {_SMALLEST:g} at ε = {true}. So this audit could hardly have "
            "contradicted any claim."
        )
    (first, lowest), *others = limits.items()
    more = "".join(f" If it is {epsilon:g}, below {limit:.2g}." for epsilon, limit in others)
    return f"{size}: if the true ε is {first:g}, half of such audits contradict any claim below {lowest:.2g}.{more}"


def _listed(values: Sequence[str]) -> str:
    *others, last = values
    return f"{', '.join(others)} and {last}" if others else last


def audit_command(config: SimulationConfig, canaries: int | None, references: int, run: str | None = None) -> str:
    """Return the command that repeats an audit.

    Args:
        config: configuration of the attacked run.
        canaries: number of canaries; None for the default numbers.
        references: number of shadow models.
        run: id of the attacked run, where its model was saved.
    """
    first = f"python -m engine audit --run {run}" if run else command_line(config, "audit")
    number = "" if canaries is None else f" --canaries {canaries}"
    return f"{first}{number} --shadow-models {references}"


def current_command(audit: Audit) -> str:
    """Return the command that repeats a stored audit, with today's names of its options."""
    return audit.command.replace(" --references ", " --shadow-models ")


def audit_fields(audit: Audit) -> dict[str, Any]:
    """Return an audit for JSON; an infinite ε and an attack that was not measured are None."""
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
    """Return an audit as sentences, one a line."""
    canaries = [result for result in (audit.white, audit.black) if result]
    lines = [_canary_text(result) for result in canaries]
    if audit.membership:
        lines.append(membership_text(audit.membership))
    if audit.server:
        lines.append(server_text(audit.server, audit.config.privacy.noise_multiplier))
    if any(result.contradicted for result in canaries):
        lines.append(f"{CONTRADICTED} {ERRS}")
    elif canaries:
        none = math.isinf(canaries[0].claimed)
        lines.append("No ε is claimed." if none else f"The claim is not contradicted. {NO_FINDING_NOTE}")
    return "\n".join(lines)


def _canary_text(audit: CanaryAudit) -> str:
    attacker = KINDS[audit.kind]
    return (
        f"{attacker[0].upper()}{attacker[1:]}: claimed ε = {epsilon_text(audit.claimed)}; lower bound on ε at 95 % "
        f"confidence: {audit.best:.3g} ({audit.right:,} correct guesses on {audit.canaries:,} canaries). "
        f"{power_text(power_of(audit))}"
    )


def membership_text(audit: MembershipAudit) -> str:
    """Return the result of the strongest membership-inference attack."""
    curve = audit.strongest
    rates = ", ".join(
        f"{100 * tpr:.2f} % (95 % CI {100 * low:.2f} to {100 * high:.2f}) at {100 * fpr:g} % FPR"
        for fpr, (tpr, low, high) in zip(SHOWN, curve.shown, strict=True)
    )
    attack = ATTACKS.get(curve.attack, curve.attack)
    return (
        f"Membership inference, {attack} with {audit.references} shadow models, claimed ε = "
        f"{epsilon_text(audit.claimed)}: AUC {curve.area:.3f}; TPR {rates}"
    )


def server_text(audit: ServerAudit, noise_multiplier: float) -> str:
    """Return the words that the server reconstructs, and the noise from which it reconstructs none.

    Args:
        audit: results of gradient inversion by an honest-but-curious server.
        noise_multiplier: σ of the run.
    """
    reading = next(reading for reading in audit.readings if reading.noise_multiplier == noise_multiplier)
    unmeasured = "" if measured(audit)[audit.readings.index(reading)] else "; this noise was not measured"
    source = "the sum of all messages" if audit.sums else f"the first messages of {audit.clients} clients"
    head = f"Honest-but-curious server, from {source} ({audit.sentences:,} sentences each, steps: {audit.steps})"
    if reading.by_message:
        words = (
            f"guesses {reading.said:,} words, {100 * reading.precision:.0f} % of them correctly, out of "
            f"{reading.there:,} words in the data"
        )
        return f"{head}: {words}; words of entities: {reading.names_read:,} of {reading.names:,}"
    readable = [reading.noise_multiplier for reading in audit.readings if reading.by_message]
    why = (
        f"; up to σ = {max(readable):g} it reconstructs some words"
        if readable
        else " at any noise: the sum covers too many sentences"
    )
    return f"{head}: only frequent words{why}{unmeasured}"


def measured(audit: ServerAudit) -> list[bool]:
    """Return for each reading whether messages with its noise were attacked.

    The measurement ends at the first noise at which the server reads nothing; readings at more noise repeat that one.
    """
    return [not index or audit.readings[index - 1].by_message for index in range(len(audit.readings))]


def _canaries(audit: CanaryAudit | None) -> dict[str, Any] | None:
    if audit is None:
        return None
    return asdict(audit) | {"claimed": _finite(audit.claimed), "contradicted": audit.contradicted}


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value
