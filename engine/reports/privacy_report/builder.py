"""The report as a document: one run, or two side by side."""

import math
from collections.abc import Callable
from typing import Any

from engine import VERSION
from engine.reports.document.model import Block, Document, Facts, Paragraph, Section, Table
from engine.reports.labels import corpus_title
from engine.reports.numbers import delta_text, epsilon_text
from engine.reports.privacy_report import guarantee, nist_sp800_226, summary, usage, verification
from engine.reports.privacy_report.assumptions import rows
from engine.reports.privacy_report.evidence import Evidence

_PROGRAM = f"Epsilon Explorer {VERSION}"


def of_run(evidence: Evidence) -> Document:
    """The report on one run."""
    run = evidence.run
    return Document(
        title=f"Privacy report: {corpus_title(run.config.corpus)}",
        subtitle=f"Run {run.run_id}, computed {evidence.made.created[:10]}. The first page says it in short, the rest "
        "is the evidence.",
        sections=(summary.first_page(evidence), *_evidence(evidence)),
        written=evidence.written,
        program=_PROGRAM,
        alarm=summary.alarm(evidence),
        figures={"runs": [figures(evidence)]},
    )


def _evidence(evidence: Evidence) -> tuple[Section, ...]:
    """All sections after the first page."""
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
    )


def of_two(first: Evidence, second: Evidence) -> Document:
    """Two runs side by side."""
    names = ("Run " + first.run.run_id, "Run " + second.run.run_id)
    blocks: list[Block] = [
        Table(summary.LABEL, ("", *names), _beside(summary.label, first, second)),
        Paragraph(_difference(first, second)),
        Paragraph(summary.HELPS),
    ]
    settings = tuple(
        (name, str(one), str(other))
        for (name, one), other in zip(first.run.config.flat().items(), second.run.config.flat().values(), strict=True)
        if one != other
    )
    sections = [Section("On one page", tuple(blocks))]
    if settings:
        sections.append(Section("Set differently", (Table("Settings", ("Setting", *names), settings),)))
    sections += [
        Section("What they miss", (Table("Names missed, by type", ("Type", *names), _missed(first, second)),)),
        Section("What ε rests on", (Table("Assumptions", ("Assumption", *names), _assumed(first, second)),)),
        Section(
            "The questions of NIST SP 800-226",
            (
                Paragraph(nist_sp800_226.SOURCE),
                Table("Answers", ("Question", *names), _answered(first, second)),
            ),
        ),
    ]
    for each, name in zip((first, second), names, strict=True):
        facts = next(block for block in usage.provenance(each).blocks if isinstance(block, Facts))
        sections.append(Section(f"Provenance: {name}", (facts, *usage.provenance(each).blocks[1:2])))
    alarms = " ".join(filter(None, map(summary.alarm, (first, second))))
    return Document(
        title="Privacy report: two runs side by side",
        subtitle=f"{names[0]} and {names[1]}. Each has a report of its own with all the evidence.",
        sections=tuple(sections),
        written=first.written,
        program=_PROGRAM,
        alarm=alarms,
        figures={"runs": [figures(first), figures(second)]},
    )


def figures(evidence: Evidence) -> dict[str, Any]:
    """The numbers of a report for programs; ε = ∞ and what does not hold are null."""
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


def _beside(
    lines: Callable[[Evidence], tuple[tuple[str, str], ...]], first: Evidence, second: Evidence
) -> tuple[tuple[str, str, str], ...]:
    return tuple((name, one, other) for (name, one), (_, other) in zip(lines(first), lines(second), strict=True))


def _difference(first: Evidence, second: Evidence) -> str:
    """What a reader may conclude from the two."""
    if not (first.promises and second.promises):
        bare = [each.run.run_id for each in (first, second) if not each.promises]
        do = "does" if len(bare) == 1 else "do"
        return f"Only a run that promises something can be weighed by ε: {' and '.join(bare)} {do} not."
    if first.privacy.unit != second.privacy.unit or first.privacy.neighbouring != second.privacy.neighbouring:
        return "Their ε are not on one scale: they protect different units."
    if first.privacy.delta != second.privacy.delta:
        return (
            f"Their ε are not on one scale: δ is {delta_text(first.privacy.delta)} and "
            f"{delta_text(second.privacy.delta)}."
        )
    less, more = sorted((first, second), key=lambda each: each.privacy.epsilon)
    if less.privacy.epsilon == more.privacy.epsilon:
        return f"Both promise ε = {epsilon_text(less.privacy.epsilon)}."
    found = [f"{100 * each.test.recall:.0f}\u00a0%" for each in (less, more)]
    return (
        f"Run {less.run.run_id} promises more: ε = {epsilon_text(less.privacy.epsilon)} in place of "
        f"{epsilon_text(more.privacy.epsilon)}. It finds {found[0]} of the names, the other {found[1]}."
    )


def _missed(first: Evidence, second: Evidence) -> tuple[tuple[str, str, str], ...]:
    def said(evidence: Evidence, name: str) -> str:
        counts = evidence.test.strict.get(name)
        if counts is None or not counts.gold:
            return "no such names"
        missed = counts.gold - counts.correct
        return f"{missed:,} of {counts.gold:,} ({100 * missed / counts.gold:.0f}\u00a0%)"

    every = sorted({*first.test.strict, *second.test.strict})
    return tuple((name, said(first, name), said(second, name)) for name in every)


def _assumed(first: Evidence, second: Evidence) -> tuple[tuple[str, str, str], ...]:
    one = {each.name: str(each.held) for each in rows(first)}
    other = {each.name: str(each.held) for each in rows(second)}
    none = "does not arise"
    return tuple((name, one.get(name, none), other.get(name, none)) for name in dict.fromkeys([*one, *other]))


def _answered(first: Evidence, second: Evidence) -> tuple[tuple[str, str, str], ...]:
    pairs = zip(nist_sp800_226.answers(first), nist_sp800_226.answers(second), strict=True)
    return tuple((f"{one.section} {one.question}", str(one.held), str(other.held)) for one, other in pairs)
