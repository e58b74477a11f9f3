"""The privacy report as a document, on one run or on two runs side by side."""

import math
from collections.abc import Callable
from typing import Any

from engine import VERSION
from engine.config import PARAMETERS
from engine.config.mechanism_registry import common_adjacency
from engine.reports.document.assessment import record
from engine.reports.document.model import Block, Document, Facts, Paragraph, Section, Table
from engine.reports.labels import corpus_title
from engine.reports.numbers import delta_text, epsilon_text
from engine.reports.privacy_report import guarantee, nist_sp800_226, summary, usage, verification
from engine.reports.privacy_report.assumptions import rows
from engine.reports.privacy_report.evidence import Evidence, Verdict

_PROGRAM = f"Epsilon Explorer {VERSION}"


def of_run(evidence: Evidence) -> Document:
    """Return the report on one run."""
    run = evidence.run
    return Document(
        title=f"Privacy report: {corpus_title(run.config.corpus)}",
        subtitle=f"Run {run.run_id}, computed {evidence.made.created[:10]}. The summary comes first; the "
        "sections after it give the evidence.",
        sections=(summary.first_page(evidence), *_evidence(evidence)),
        written=evidence.written,
        program=_PROGRAM,
        alarm=summary.alarm(evidence),
        figures={"runs": [figures(evidence)]},
    )


def _evidence(evidence: Evidence) -> tuple[Section, ...]:
    """Return all sections after the summary."""
    return (
        guarantee.trained_on(evidence),
        guarantee.protected(evidence),
        guarantee.odds(evidence),
        guarantee.others(evidence),
        verification.assumptions(evidence),
        verification.ledger(evidence),
        verification.checked(evidence),
        verification.attacks(evidence),
        verification.second_opinion(evidence),
        usage.utility(evidence),
        usage.handling(evidence),
        usage.searches(evidence),
        usage.answered(evidence),
        usage.provenance(evidence),
        record(),
    )


def of_two(first: Evidence, second: Evidence) -> Document:
    """Return the report on two runs side by side."""
    names = ("Run " + first.run.run_id, "Run " + second.run.run_id)
    blocks: list[Block] = [
        Table(summary.LABEL, ("", *names), _side_by_side(summary.label, first, second)),
        Paragraph(_difference(first, second)),
        Paragraph(summary.HELPS),
    ]
    settings = tuple(
        (PARAMETERS[name].heading, usage.setting_text(name, one), usage.setting_text(name, other))
        for (name, one), other in zip(first.run.config.flat().items(), second.run.config.flat().values(), strict=True)
        if one != other
    )
    sections = [Section("Summary", tuple(blocks))]
    if settings:
        sections.append(Section("Different settings", (Table("Settings", ("Setting", *names), settings),)))
    sections += [
        Section("Missed entities", (Table("Missed entities by type", ("Type", *names), _missed(first, second)),)),
        Section("Assumptions of ε", (Table("Assumptions", ("Assumption", *names), _assumed(first, second)),)),
        Section(
            "Evaluation by NIST SP 800-226",
            (
                Paragraph(nist_sp800_226.SOURCE),
                Paragraph(nist_sp800_226.STATUS),
                Table("Answers", ("Question", *names), _answered(first, second)),
            ),
        ),
    ]
    for evidence, name in zip((first, second), names, strict=True):
        facts = next(block for block in usage.provenance(evidence).blocks if isinstance(block, Facts))
        sections.append(Section(f"Provenance: {name}", (facts, *usage.provenance(evidence).blocks[1:-1])))
    alarms = " ".join(filter(None, map(summary.alarm, (first, second))))
    return Document(
        title="Privacy report: two runs side by side",
        subtitle=f"{names[0]} and {names[1]}. The report on each single run gives all the evidence.",
        sections=tuple(sections),
        written=first.written,
        program=_PROGRAM,
        alarm=alarms,
        figures={"runs": [figures(first), figures(second)]},
    )


def figures(evidence: Evidence) -> dict[str, Any]:
    """Return the numbers of a report for programs; an infinite ε and a value that is not valid are null."""
    privacy, test, check = evidence.privacy, evidence.test, evidence.check
    holds = evidence.promises
    return {
        "run_id": evidence.run.run_id,
        "verdict": evidence.verdict.name.lower(),
        "epsilon": privacy.epsilon if holds else None,
        "delta": privacy.delta if holds else None,
        "unit": privacy.unit if holds else None,
        "neighbouring": privacy.neighbouring if holds else None,
        "rdp_epsilon": privacy.rdp_epsilon if holds and math.isfinite(privacy.rdp_epsilon) else None,
        "persons": [
            {"sentences": size, "epsilon": epsilon if math.isfinite(epsilon) else None}
            for size, epsilon in sorted(evidence.persons.items())
        ],
        "noise_check": None
        if check is None
        else {"failed": check.failed, "passed": check.passed, "steps": check.steps},
        "attack_bound": evidence.bound,
        "precision": test.precision,
        "recall": test.recall,
        "f1": test.f1,
        "types": {
            name: {"there": counts.gold, "found": counts.correct, "marked": counts.predicted}
            for name, counts in sorted(test.strict.items())
        },
        "config": evidence.run.config.to_dict(),
        "corpus_sha256": evidence.made.corpus_checksum,
    }


def _side_by_side(
    lines: Callable[[Evidence], tuple[tuple[str, str], ...]], first: Evidence, second: Evidence
) -> tuple[tuple[str, str, str], ...]:
    return tuple((name, one, other) for (name, one), (_, other) in zip(lines(first), lines(second), strict=True))


def _difference(first: Evidence, second: Evidence) -> str:
    """Return the conclusion that a reader may draw from the two runs."""
    if not (first.promises and second.promises):
        unprotected = [evidence.run.run_id for evidence in (first, second) if not evidence.promises]
        subject = f"Run {unprotected[0]} gives" if len(unprotected) == 1 else f"Runs {' and '.join(unprotected)} give"
        return f"The two runs cannot be compared by ε. {subject} no privacy guarantee."
    adjacencies = (first.privacy.neighbouring, second.privacy.neighbouring)
    if first.privacy.unit != second.privacy.unit or not common_adjacency(adjacencies):
        return "The two values of ε are not comparable: protected unit or adjacency differs."
    if first.privacy.delta != second.privacy.delta:
        return (
            f"The two values of ε are not comparable: δ is {delta_text(first.privacy.delta)} and "
            f"{delta_text(second.privacy.delta)}."
        )
    lower, higher = sorted((first, second), key=lambda evidence: evidence.privacy.epsilon)
    if lower.privacy.epsilon == higher.privacy.epsilon:
        return f"Both runs have ε = {epsilon_text(lower.privacy.epsilon)}. {_unprotected(first, second)}".strip()
    recalls = [f"{100 * evidence.test.recall:.0f}\u00a0%" for evidence in (lower, higher)]
    return (
        f"Run {lower.run.run_id} gives the stronger guarantee: ε = {epsilon_text(lower.privacy.epsilon)} instead of "
        f"{epsilon_text(higher.privacy.epsilon)}. It finds {recalls[0]} of the entities; the other run finds "
        f"{recalls[1]}. {_unprotected(first, second)}"
    ).strip()


def _unprotected(*runs: Evidence) -> str:
    """Return which models are not protected, since their noise seeds are public; empty if there is none."""
    names = [evidence.run.run_id for evidence in runs if evidence.verdict is Verdict.SIMULATED]
    if not names:
        return ""
    subject = f"The model of run {names[0]} is" if len(names) == 1 else "Both models are"
    return f"{subject} not protected: the noise seed is public, and ε requires secret noise."


def _missed(first: Evidence, second: Evidence) -> tuple[tuple[str, str, str], ...]:
    def cell(evidence: Evidence, name: str) -> str:
        counts = evidence.test.strict.get(name)
        if counts is None or not counts.gold:
            return "no entities of this type"
        missed = counts.gold - counts.correct
        return f"{missed:,} of {counts.gold:,} ({100 * missed / counts.gold:.0f}\u00a0%)"

    types = sorted({*first.test.strict, *second.test.strict})
    return tuple((name, cell(first, name), cell(second, name)) for name in types)


def _assumed(first: Evidence, second: Evidence) -> tuple[tuple[str, str, str], ...]:
    one = {row.name: str(row.held) for row in rows(first)}
    other = {row.name: str(row.held) for row in rows(second)}
    none = "not applicable"
    return tuple((name, one.get(name, none), other.get(name, none)) for name in dict.fromkeys([*one, *other]))


def _answered(first: Evidence, second: Evidence) -> tuple[tuple[str, str, str], ...]:
    pairs = zip(nist_sp800_226.answers(first), nist_sp800_226.answers(second), strict=True)
    return tuple((f"{one.section} {one.question}", str(one.held), str(other.held)) for one, other in pairs)
