"""The first page: for a reader without mathematics."""

import math

from engine.privacy.plan import tier
from engine.reports.document.model import Block, Facts, Paragraph, Points, Section
from engine.reports.labels import corpus_title
from engine.reports.numbers import delta_text, epsilon_text, right_text
from engine.reports.privacy_report.assumptions import Held, rows
from engine.reports.privacy_report.evidence import Evidence, Verdict
from engine.reports.privacy_report.reference_values import TIERS, TIERS_OF
from engine.reports.scores import f1_text
from engine.taggers import KINDS

LABEL = "Privacy label"
SHOWN_PERSON = 10
"""Sentences of the person on the label."""
ALARM = (
    "NOT PRIVATE: the noise check of run {run} failed. What was done to the weights is not what was planned; no ε "
    "holds."
)
SHARED_ALONE = (
    "That is for what the platforms share. No platform's tagger is protected: the parts that it keeps to itself, such "
    "as those that score its tags, learned without noise, and its ε is ∞. The scores are those of such taggers."
)
"""Of a run that protects whole platforms."""
HELPS = (
    "This report draws no legal conclusion. It helps to answer what those who must decide will ask, with the source of "
    "each figure. What it does not know it says."
)


def alarm(evidence: Evidence) -> str:
    """What stands at the head of each page; empty where the noise check did not fail."""
    return ALARM.format(run=evidence.run.run_id) if evidence.verdict is Verdict.FAILED else ""


def first_page(evidence: Evidence) -> Section:
    """All that a reader in a hurry reads."""
    bad = evidence.verdict is not Verdict.RELEASED
    blocks: list[Block] = [Paragraph(verdict_text(evidence), warning=bad), Facts(LABEL, label(evidence), framed=True)]
    if evidence.promises:
        blocks += [Paragraph(odds_text(evidence)), Paragraph(good_text(evidence))]
    blocks += [Paragraph("Before you sign:"), Points(open_points(evidence)), Paragraph(HELPS)]
    return Section("On one page", tuple(blocks))


def verdict_text(evidence: Evidence) -> str:
    """What a reader may take from the run, in a few sentences."""
    privacy, config = evidence.privacy, evidence.run.config
    spent = f"ε = {epsilon_text(privacy.epsilon)}, δ = {delta_text(privacy.delta)}"
    if evidence.verdict is Verdict.FAILED:
        faults = " ".join(evidence.check.faults) if evidence.check else ""
        return f"This tagger is not private, whatever it was set to. {faults}"
    if evidence.verdict is Verdict.PLAIN:
        return (
            "This tagger promises no privacy: no noise was added. A sentence that it was trained on may be recognised "
            "from its weights, and nothing bounds how surely."
        )
    if evidence.verdict is Verdict.BROKEN:
        return f"This tagger promises no privacy, whatever noise was added. {' '.join(privacy.assumptions)}"
    if evidence.shared_alone:
        seeded = f" The noise comes from seed {config.seed}, which is printed: not even that is protected here."
        simulated = evidence.verdict is Verdict.SIMULATED
        return f"Training in this way keeps ({spent}) for {privacy.unit}. {SHARED_ALONE}{seeded if simulated else ''}"
    if evidence.verdict is Verdict.SIMULATED:
        return (
            f"A simulation. Training in this way keeps ({spent}) for {privacy.unit}, but this very tagger is not "
            f"protected: its noise comes from seed {config.seed}, which is printed. To give a tagger away, train it "
            "with --noise-source system."
        )
    measured = "was measured to be as planned" if evidence.passed else "could not be measured"
    return f"This tagger keeps ({spent}) for {privacy.unit}. Its noise came from the operating system and {measured}."


def label(evidence: Evidence) -> tuple[tuple[str, str], ...]:
    """Eight lines, the same in every report."""
    privacy, config, made = evidence.privacy, evidence.run.config, evidence.made
    promised = f"ε = {epsilon_text(privacy.epsilon)}, δ = {delta_text(privacy.delta)}"
    promised += ", for what platforms share; none for their taggers" if evidence.shared_alone else ""
    none = "nobody: nothing is promised"
    tagger = KINDS[config.tagger.name].title
    return (
        ("Trained on", f"{corpus_title(config.corpus)}, {made.train_sentences:,} sentences; model: {tagger}"),
        ("Promise", promised if evidence.promises else f"none ({evidence.verdict})"),
        ("Holds for", f"{privacy.unit} ({privacy.neighbouring})" if evidence.promises else none),
        (f"Somebody in {SHOWN_PERSON} sentences", _person_text(evidence)),
        ("Who must be trusted", trusted_text(evidence) if evidence.promises else "everybody who sees the weights"),
        ("Noise comes from", _noise_text(evidence)),
        ("Checked here", _checked_text(evidence)),
        ("Finds", f"{100 * evidence.test.recall:.0f}\u00a0% of the names; F1 {f1_text(evidence.test)}"),
    )


def trusted_text(evidence: Evidence) -> str:
    """Who must be trusted with what."""
    if evidence.run.config.federation.central:
        return "Whoever trains it, with the sentences. Who gets the weights need not be trusted."
    return evidence.run.config.privacy.kind.trusted


def _person_text(evidence: Evidence) -> str:
    if not evidence.promises:
        return "nothing is promised"
    if evidence.run.config.privacy.kind.client_level:
        return "protected with the client that holds all of them"
    epsilon = evidence.persons.get(SHOWN_PERSON)
    return "not known" if epsilon is None else f"ε = {epsilon_text(epsilon)}"


def _noise_text(evidence: Evidence) -> str:
    config = evidence.run.config
    if not config.privacy.private:
        return "nowhere: none is added"
    if config.privacy.noise_source == "system":
        return "the operating system; its keys were destroyed"
    return f"seed {config.seed}, which is printed: this very tagger is not protected"


def _checked_text(evidence: Evidence) -> str:
    check, attacked = evidence.check, "attack not measured"
    if evidence.bound is not None:
        attacked = f"attack measured: at 95 % an ε of at least {evidence.bound:.3g} is lost"
    elif evidence.audit:
        attacked = "attack on membership measured"
    if check is None:
        return f"no noise to check; {attacked}"
    verdict = "FAILED" if check.failed else "passed" if check.passed else "not possible (rounding hides the noise)"
    return f"noise check {verdict}, {check.steps:,} steps; {attacked}"


def odds_text(evidence: Evidence) -> str:
    """ε and δ in odds and in words."""
    privacy = evidence.privacy
    knows = (
        "and knows every other training sentence"
        if not evidence.run.config.privacy.kind.client_level
        else "and knows what every other client has"
    )
    holds = "what the platforms share" if evidence.shared_alone else "the trained weights"
    return (
        f"What that means. Somebody who holds {holds} {knows} wants to tell whether {privacy.unit} was "
        f"there. Guessing is right half of the time. With ε = {epsilon_text(privacy.epsilon)} they are right at most "
        f"{right_text(privacy.epsilon)} of the time, and δ = {delta_text(privacy.delta)} above it."
    )


def good_text(evidence: Evidence) -> str:
    """Whether that is a good ε, as far as anybody can say."""
    return (
        f"Is that good? In the tiers of {TIERS_OF} it is {TIERS[tier(evidence.privacy.epsilon)]}. The US census of "
        "2020 promised ε = 17.14 for its file of persons, Google ε = 0.994 to 13.69 for all that a person typed, Apple "
        "ε = 4 for each emoji that is donated. Units and δ differ, so these are no scale; sources are under “What "
        "others promise”."
    )


def open_points(evidence: Evidence) -> tuple[str, ...]:
    """What the reader should not overlook."""
    if not evidence.promises:
        return (
            "Treat the weights like the training sentences themselves: whoever may not see these may not have those.",
            "The scores below say how well it finds names, nothing about privacy.",
        )
    missed = sum(counts.gold - counts.correct for counts in evidence.test.strict.values())
    found = [
        *([SHARED_ALONE] if evidence.shared_alone else []),
        f"Of {evidence.test.names:,} names in the test part it misses {missed:,}: as a redactor it would leave them.",
        *_person_points(evidence),
    ]
    others = evidence.others
    if others.private or others.plain:
        found.append(
            f"{others.private + others.plain:,} other finished runs on the same corpus are known here. ε is that of "
            "this one alone."
        )
    if evidence.audit is None:
        found.append("What can really be told from the weights was not measured; the command that does is below.")
    elif evidence.contradicted:
        found.append("A measured attack contradicts the promise: see “Measured attacks”.")
    unclaimed = sum(each.held is Held.NOT for each in rows(evidence))
    found.append(f"{unclaimed} of the assumptions below are not claimed: read them before relying on ε.")
    return tuple(found)


def _person_points(evidence: Evidence) -> list[str]:
    if evidence.run.config.privacy.kind.client_level or not evidence.persons:
        return []
    size = evidence.longest_document or max(evidence.persons)
    epsilon = evidence.persons.get(size, math.inf)
    what = f"the longest document ({size:,} sentences)" if evidence.longest_document else f"{size:,} sentences"
    return [
        f"It protects a sentence, not a person. Somebody who is named all through {what} has ε = "
        f"{epsilon_text(epsilon)}."
    ]
