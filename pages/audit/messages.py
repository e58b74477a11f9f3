"""Texts and table rows of the page Privacy audit. Without Streamlit."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.privacy.audit import applicability
from engine.privacy.audit.one_run import Guesses, epsilon_bound
from engine.records import SHOWN, CanaryAudit, MembershipAudit, ServerAudit, ServerReading
from engine.reports.audits import ATTACKS, ERRS, KINDS, measured, power_of, power_text, server_text
from engine.reports.numbers import epsilon_text
from pages.audit.groups import Group
from pages.shared.messages import duration

NO_AUDIT = "An audit retrains a configuration with canaries, attacks the model, and measures a lower bound on ε."
LIMITS = (
    "**Limits.** An audit that finds nothing does not prove privacy. Another attack, more shadow models or other "
    "canaries may find more; a bound of 0 says only that this measurement was too coarse. An audit can *refute* a "
    "claim of privacy, as it does for the *faulty trainings* under *Audit calibration*. The claimed ε depends on the "
    "proof, its assumptions, and the noise check. White-box canaries are the easiest records to detect; real sentences "
    "are harder to detect. A measured bound does not replace ε in a privacy guarantee."
)
CANARY_CLAIM = (
    " The claimed ε belongs to the training with canaries. Canaries are additional sentences, so this ε is smaller "
    "than the ε of the audited run."
)
_SMALLEST_BOUND = 0.01
"""A mean bound on ε below this value is reported as below it."""


def ceiling(groups: Sequence[Group]) -> str:
    """Return a sentence on the largest bound that the canaries of runs without noise allow; empty without such runs."""
    counts = {audit.canaries for group in groups for audit in group.white if math.isinf(audit.claimed)}
    if not counts:
        return ""
    most = max(counts)
    bound = epsilon_bound(Guesses(canaries=most, made=most, right=most), 1e-5)
    return (
        f" With {most:,} canaries, the bound for any mechanism cannot exceed ε = {bound:.1f}, even if all guesses are "
        "correct. So it cannot show that training without noise has ε = ∞."
    )


def answer(group: Group) -> str:
    """Return the result of a group of audits in one or two sentences: the measured bounds, else the other attacks."""
    if group.contradicted:
        return (
            f"{group.title}: the lower bound exceeds the claimed ε in {len(group.contradicted):,} of "
            f"{len(group.white) + len(group.black):,} runs with canaries. {ERRS}"
        )
    if group.jointly_contradicted:
        return f"{group.title}: the joint lower bound over {len(group.audits):,} seeds exceeds the claimed ε. {ERRS}"
    bounds = [
        f"{_bound(group.bound(audits) or 0.0)} ({attacker} attacker)"
        for attacker, audits in (("white-box", group.white), ("black-box", group.black))
        if audits
    ]
    seeds = max(len(group.white), len(group.black))
    joint = all(group.joint(audits) is not None for audits in (group.white, group.black) if audits)
    means = f", {'jointly' if joint else 'means'} over {seeds:,} seeds" if seeds > 1 else ""
    parts = [f"{group.title} claimed."]
    if bounds:
        parts = [f"{group.title} claimed. Measured lower bounds on ε{means}: {', '.join(bounds)}."]
    elif membership := group.membership:
        parts.append(members(membership))
    elif group.server:
        parts.append(f"{server_text(*group.server)}.")
    return " ".join(parts)


def members(audit: MembershipAudit) -> str:
    """Return the TPR of the strongest attack at the largest reported FPR, both as counts of 1,000 sentences."""
    fpr, (tpr, low, high) = SHOWN[-1], audit.strongest.shown[-1]
    return (
        f"Membership inference finds {1000 * tpr:.0f} of 1,000 members (95 % CI {1000 * low:.0f} to "
        f"{1000 * high:.0f}), if it may wrongly report {1000 * fpr:.0f} of 1,000 non-members."
    )


def cost(seconds: float | None, canaries: int | None, references: int) -> str:
    """Return a sentence on the models that an audit trains, and on its duration.

    Args:
        seconds: Estimated duration in seconds; None if unknown.
        canaries: Number of canaries; None for the default numbers.
        references: Number of shadow models.
    """
    if canaries is None:
        models = [
            f"one model with {applicability.CANARIES:,} canaries (black-box)",
            f"one with up to {applicability.WHITE_BOX_CANARIES:,} (white-box)",
        ]
    else:
        models = [f"two models with {canaries:,} canaries each"] if canaries else []
    halves = f"{references + 1:,} models on random halves of the sentences" if references else ""
    about = f" It takes about {duration(seconds)}; you can leave the page." if seconds else ""
    trained = [*([" and ".join(models)] if models else []), *([halves] if halves else [])]
    return f"An audit trains {'. It also trains '.join(trained)}. It then deletes these models.{about}"


def attacks(audit: MembershipAudit) -> list[dict[str, Any]]:
    """Return a row for each membership-inference attack."""
    return [
        {"attack": ATTACKS.get(curve.attack, curve.attack), "AUC": curve.area}
        | {
            f"TPR at {100 * fpr:g} % FPR": f"{100 * tpr:.2f} % ({100 * low:.2f} to {100 * high:.2f})"
            for fpr, (tpr, low, high) in zip(SHOWN, curve.shown, strict=True)
        }
        for curve in audit.curves
    ]


def subsets(areas: Mapping[str, float], head: str) -> list[dict[str, Any]]:
    """Return a row for each subset of the sentences with the AUC of the best attack.

    Args:
        areas: AUC by name of the subset.
        head: Heading of the column with the names.
    """
    return [{head: name, "AUC": area} for name, area in areas.items()]


def readings(audit: ServerAudit, noise_multiplier: float) -> list[dict[str, Any]]:
    """Return a row of gradient inversion for each noise multiplier.

    Args:
        audit: Results of gradient inversion.
        noise_multiplier: σ of the run.
    """
    return [
        {
            "σ": f"{reading.noise_multiplier:g}",
            "": "this run" if reading.noise_multiplier == noise_multiplier else "",
            "reconstructed": _source(reading, attacked),
            "words guessed": reading.said,
            "precision": 100 * reading.precision,
            "recall": 100 * reading.recall,
            "entity words found": f"{reading.names_read:,} of {reading.names:,}",
        }
        for reading, attacked in zip(audit.readings, measured(audit), strict=True)
    ]


def _source(reading: ServerReading, attacked: bool) -> str:
    if reading.by_message:
        return "words of the messages"
    return "nothing: only frequent words" if attacked else "not measured: value at less noise"


def runs(group: Group) -> list[dict[str, Any]]:
    """Return a row for each run with canaries."""
    return [
        {
            "seed": audit.config.seed,
            "attacker": "white-box" if result.kind == "directions" else "black-box",
            "ε claimed": epsilon_text(result.claimed),
            "canaries": result.canaries,
            "correct guesses": result.right,
            "bound, any mechanism": result.bound,
            "bound, DP-SGD": result.bound_of_steps,
            "bound, independent canaries": result.bound_of_trials,
            "median bound ÷ ε": _medians(result),
            "noise check": {None: "–", False: "✓ passed", True: "✗ failed"}[result.check_failed],
            "result": "✗ exceeds the claim" if result.contradicted else "✓ not contradicted",
        }
        for audit in group.audits
        for result in (audit.white, audit.black)
        if result
    ]


def power(group: Group) -> list[str]:
    """Return a sentence for each attacker on what the audits of a group could have contradicted."""
    lines = []
    for audits in filter(None, (group.white, group.black)):
        seeds = 1 if group.joint(audits) is None else len(audits)
        attacker = KINDS[audits[0].kind]
        lines.append(f"{attacker[0].upper()}{attacker[1:]}: {power_text(power_of(audits[0], seeds))}")
    return lines


def _bound(bound: float) -> str:
    if bound < _SMALLEST_BOUND:
        return f"less than {_SMALLEST_BOUND:g}"
    return epsilon_text(bound)


def _medians(audit: CanaryAudit) -> str:
    found = power_of(audit)
    return " · ".join(f"{ratio:.2f}" for ratio in found.medians.values()) if found else "not measured"


_ASSUMPTIONS = {
    "gaussian": "Gaussian mechanism",
    "any": "any mechanism",
    "trials": "Gaussian mechanism, independent canaries",
}
"""By family of bounds."""


def known_mechanisms(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the cells of ``benchmarks.audit_known`` as table rows."""
    return [
        {
            "true ε": f"{cell['epsilon']:g}",
            "bound": _ASSUMPTIONS.get(cell["family"], cell["family"]),
            "coverage, %": 100 * cell["coverage"],
            "median bound": cell["median"],
            "median bound ÷ ε": cell["median"] / cell["epsilon"],
            "power at half the noise, %": 100 * cell["half_the_noise_caught"],
        }
        for cell in values["cells"]
    ]


def sizes(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the cells of the table of powers as rows, one for each size."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for cell in cells:
        size = tuple(cell[name] for name in ("kind", "method", "canaries", "seeds"))
        row = rows.setdefault(
            size,
            {
                "attacker": "white-box" if cell["kind"] == "directions" else "black-box",
                "method": cell["method"],
                "canaries": cell["canaries"],
                "runs together": cell["seeds"],
                "coverage, %": 100.0,
            },
        )
        row[f"at ε = {cell['epsilon']:g}"] = f"{cell['median']:.2f}"
        row["coverage, %"] = min(row["coverage, %"], 100 * cell["coverage"])
    return list(rows.values())


def faulty_trainings(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the cells of ``benchmarks.audit_broken`` as table rows."""
    return [
        {
            "fault": "none" if cell["fault"] == "nothing" else cell["fault"],
            "claim contradicted": f"{cell['contradicted']:,} of {values['runs']:,}",
            "mean bound": cell["bound_mean"],
            "noise check fails": f"{cell['check_failed']:,} of {values['runs']:,}",
        }
        for cell in values["cells"]
    ]
