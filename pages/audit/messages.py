"""What the page Audit says. No streamlit."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.privacy.audit.one_run import Guesses, epsilon_bound
from engine.records import SHOWN, MembershipAudit, ServerAudit, ServerReading
from engine.reports.audits import ERRS, measured, server_text
from engine.reports.numbers import epsilon_text
from pages.audit.groups import Group, mean
from pages.shared.messages import duration

NOTHING = "Nothing was measured yet. An audit trains anew, with canaries, and attacks what comes of it."
SILENT = (
    "**What a silent audit does not prove.** That these attackers told little is no proof that nobody can: another "
    "attack, more references or other canaries may tell more, and a bound of 0 says only that this measurement was too "
    "coarse. An audit can *refute* a claim, as it does where noise is left out; the claim itself rests on the proof, "
    "its assumptions, and the noise check. White-box canaries are as easy to tell as any can be; real sentences are "
    "harder. A measured bound is no substitute for ε in what is promised to anybody."
)


_TOLD = 0.01
"""A mean bound below this is said to be nothing, and stands at the axis's end."""


def ceiling(groups: Sequence[Group]) -> str:
    """How much the canaries of trainings without noise can show at most; empty where there are none."""
    counts = {each.canaries for group in groups for each in group.white if math.isinf(each.claimed)}
    if not counts:
        return ""
    most = max(counts)
    bound = epsilon_bound(Guesses(canaries=most, made=most, right=most), 1e-5)
    return f" Where no noise is, {most:,} canaries can show no more than ε = {bound:.1f}: if all guesses are right."


def answer(group: Group) -> str:
    """The measurement in a sentence."""
    if group.contradicted:
        return (
            f"{group.title}: more is shown to be lost than is claimed, in {len(group.contradicted):,} of "
            f"{len(group.white) + len(group.black):,} runs with canaries. {ERRS}"
        )
    told = [
        f"{who} is shown to get {_bound(found)}"
        for who, found in (("who reads every step", group.white), ("who has the tagger", group.black))
        if found
    ]
    seeds = max(len(group.white), len(group.black))
    means = f" (means of {seeds:,} seeds, each a bound at 95 %; the mean is none)" if seeds > 1 else ""
    parts = [f"{group.title} claimed: {', '.join(told)}{means}." if told else f"{group.title} claimed."]
    if found := group.membership:
        parts.append(members(found))
    if group.server and not (told or group.membership):
        parts.append(f"{server_text(*group.server)}.")
    return " ".join(parts)


def members(found: MembershipAudit) -> str:
    """How many of 1,000 sentences an attacker names rightly, where he may name ten of 1,000 others wrongly."""
    rate, (share, least, most) = SHOWN[-1], found.strongest.shown[-1]
    return (
        f"Who names {1000 * rate:.0f} of 1,000 others wrongly finds {1000 * share:.0f} of 1,000 members "
        f"({1000 * least:.0f} to {1000 * most:.0f})."
    )


def takes(seconds: float | None, canaries: int, references: int) -> str:
    """What an audit trains, and how long that may take."""
    kinds = [f"two models with {canaries:,} canaries among their sentences"] if canaries else []
    kinds += [f"{references + 1:,} models on a half of the sentences each"] if references else []
    about = f" About {duration(seconds)} in all; it goes on while you are away." if seconds else ""
    return f"Trains {' and '.join(kinds)}, and throws them away.{about}"


def attacks(found: MembershipAudit) -> list[dict[str, Any]]:
    """Rows of the attacks."""
    return [
        {"attack": curve.attack, "area": curve.area}
        | {
            f"caught at {100 * rate:g} %": f"{100 * share:.2f} % ({100 * low:.2f} to {100 * high:.2f})"
            for rate, (share, low, high) in zip(SHOWN, curve.shown, strict=True)
        }
        for curve in found.curves
    ]


def among(found: Mapping[str, float], head: str) -> list[dict[str, Any]]:
    """Rows of areas among some of the sentences."""
    return [{head: name, "area": area} for name, area in found.items()]


def readings(found: ServerAudit, noise_multiplier: float) -> list[dict[str, Any]]:
    """A row for each noise multiplier."""
    return [
        {
            "σ": f"{each.noise_multiplier:g}",
            "": "this run" if each.noise_multiplier == noise_multiplier else "",
            "the server reads": _reads(each, again),
            "words named": each.said,
            "of them right": 100 * each.precision,
            "found of those there": 100 * each.recall,
            "words of names found": f"{each.names_read:,} of {each.names:,}",
        }
        for each, again in zip(found.readings, measured(found), strict=True)
    ]


def _reads(reading: ServerReading, again: bool) -> str:
    if reading.by_message:
        return "the messages"
    return "nothing: it names frequent words" if again else "not measured again, as with less noise"


def runs(group: Group) -> list[dict[str, Any]]:
    """A row for each run with canaries."""
    return [
        {
            "seed": audit.config.seed,
            "attacker": "reads every step" if found.kind == "directions" else "has the tagger",
            "ε claimed": epsilon_text(found.claimed),
            "canaries": found.canaries,
            "right": found.right,
            "bound, whatever the mechanism": found.bound,
            "of steps of DP-SGD": found.bound_of_steps,
            "of independent canaries": found.bound_of_trials,
            "noise check": {None: "–", False: "✓ passed", True: "✗ failed"}[found.check_failed],
            "verdict": "✗ more than claimed" if found.contradicted else "✓ not contradicted",
        }
        for audit in group.audits
        for found in (audit.white, audit.black)
        if found
    ]


def _bound(found: Sequence[Any]) -> str:
    least = mean(found) or 0.0
    if least < _TOLD:
        return "nothing"
    return f"at least ε = {epsilon_text(least) if math.isfinite(least) else '∞'}"


_TAKEN = {
    "gaussian": "that it is Gaussian",
    "any": "nothing",
    "trials": "that, and independent canaries",
}


def truth_known(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of ``benchmarks.audit_known``."""
    return [
        {
            "ε that is true": f"{cell['epsilon']:g}",
            "known of the mechanism": _TAKEN.get(cell["family"], cell["family"]),
            "bound holds, %": 100 * cell["coverage"],
            "bound, median": cell["median"],
            "share of ε": cell["median"] / cell["epsilon"],
            "half the noise found, %": 100 * cell["half_the_noise_caught"],
        }
        for cell in values["cells"]
    ]


def sabotage(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of ``benchmarks.audit_broken``."""
    return [
        {
            "wrong with it": cell["fault"],
            "refuted": f"{cell['contradicted']:,} of {values['runs']:,}",
            "bound, mean": cell["bound_mean"],
            "noise check fails": f"{cell['check_failed']:,} of {values['runs']:,}",
        }
        for cell in values["cells"]
    ]
