"""The first page of the privacy report, for a reader without mathematics."""

import math

from engine.privacy.plan import tier
from engine.reports.document.model import Block, Facts, Paragraph, Points, Section
from engine.reports.labels import corpus_title
from engine.reports.numbers import delta_text, epsilon_text, right_text
from engine.reports.privacy_report.assumptions import UNSEEN, Held, rows
from engine.reports.privacy_report.evidence import Evidence, Verdict
from engine.reports.privacy_report.reference_values import TIERS, TIERS_OF
from engine.reports.scores import f1_text
from engine.taggers import KINDS

LABEL = "Privacy label"
ATTACKERS = {"directions": "white-box", "sentences": "black-box"}
"""Attackers, by type of canary."""
SHOWN_PERSON = 10
"""Number of sentences of the person on the privacy label."""
ALARM = "NOT PRIVATE: the noise check of run {run} failed. The training differs from its plan, so no ε is valid."
SHARED_ALONE = (
    "The guarantee covers the shared layers only. No client's model is protected: its private layers, such as the tag "
    "scorer, were trained without noise, so its ε is ∞. The scores in this report are those of these models."
)
"""Note on a run whose protected unit is a whole client (silo)."""
HELPS = (
    "This report draws no legal conclusion. It gives the figures that a decision needs, with their sources, and states "
    "which figures are missing."
)


def alarm(evidence: Evidence) -> str:
    """Return the warning for the head of each page; empty unless the noise check failed."""
    return ALARM.format(run=evidence.run.run_id) if evidence.verdict is Verdict.FAILED else ""


def first_page(evidence: Evidence) -> Section:
    """Return the one-page summary."""
    bad = evidence.verdict is not Verdict.RELEASED
    blocks: list[Block] = [Paragraph(verdict_text(evidence), warning=bad), Facts(LABEL, label(evidence), framed=True)]
    if evidence.promises:
        blocks += [Paragraph(odds_text(evidence)), Paragraph(good_text(evidence))]
    blocks += [Paragraph("Before you approve a release:"), Points(open_points(evidence)), Paragraph(HELPS)]
    return Section("Summary", tuple(blocks))


def verdict_text(evidence: Evidence) -> str:
    """Return the privacy status of the run in a few sentences."""
    privacy, config = evidence.privacy, evidence.run.config
    spent = f"ε = {epsilon_text(privacy.epsilon)}, δ = {delta_text(privacy.delta)}"
    if evidence.verdict is Verdict.FAILED:
        faults = " ".join(evidence.check.faults) if evidence.check else ""
        return f"This model is not private, whatever its settings: the noise check failed. {faults}"
    if evidence.verdict is Verdict.PLAIN:
        return (
            "This model gives no privacy guarantee: no noise was added. An attacker may recognise a training sentence "
            "from the weights, and there is no limit on the attacker's certainty."
        )
    if evidence.verdict is Verdict.BROKEN:
        return f"This model gives no privacy guarantee, although noise was added. {' '.join(privacy.assumptions)}"
    guarantee = f"Training with these settings guarantees ({spent}) for {privacy.unit}"
    if evidence.shared_alone:
        seeded = f" The noise comes from seed {config.seed}, which is public: the shared layers are not protected."
        simulated = evidence.verdict is Verdict.SIMULATED
        return f"{guarantee}. {SHARED_ALONE}{seeded if simulated else ''}"
    if evidence.verdict is Verdict.SIMULATED:
        return (
            f"Simulation only. {guarantee}, if the noise is secret. But this model is not protected, because its noise "
            f"comes from seed {config.seed}, which is public. To release a model, train it with secret noise (option "
            "--noise-source system)."
        )
    measured = "matched the plan when measured" if evidence.passed else "could not be measured"
    return (
        f"This model guarantees ({spent}) for {privacy.unit}, under the “Assumptions of ε”. Its noise came from the "
        f"operating system and {measured}."
    )


def label(evidence: Evidence) -> tuple[tuple[str, str], ...]:
    """Return the eight lines of the privacy label, the same in every report."""
    privacy, config = evidence.privacy, evidence.run.config
    guarantee = f"ε = {epsilon_text(privacy.epsilon)}, δ = {delta_text(privacy.delta)}"
    guarantee += ", for the shared layers; none for the models of the clients" if evidence.shared_alone else ""
    guarantee = _of_this_file(evidence, guarantee)
    none = "nothing: there is no privacy guarantee"
    tagger = KINDS[config.tagger.name].title
    return (
        ("Trained on", f"{corpus_title(config.corpus)}, {evidence.number_of_sentences}; model: {tagger}"),
        ("Privacy guarantee", guarantee if evidence.promises else f"none ({evidence.verdict})"),
        ("Protected unit", f"{privacy.unit} (adjacency: {privacy.neighbouring})" if evidence.promises else none),
        (f"Guarantee for a person in {SHOWN_PERSON} sentences", _person_text(evidence)),
        ("Trusted parties", trusted_text(evidence) if evidence.promises else "everyone who sees the weights"),
        ("Source of the noise", _noise_text(evidence)),
        ("Checks", _checked_text(evidence)),
        ("Utility", f"{100 * evidence.test.recall:.0f}\u00a0% of the entities found; F1 {f1_text(evidence.test)}"),
    )


def trusted_text(evidence: Evidence) -> str:
    """Return the parties that must be trusted, and with which data."""
    simulated = evidence.verdict is Verdict.SIMULATED
    if evidence.run.config.federation.central:
        if simulated:
            return (
                "Everyone who receives the weights must be trusted with the sentences, because the noise seed is "
                "public. With secret noise, only the operator of the training must be trusted."
            )
        return (
            "The operator of the training must be trusted with the sentences. Recipients of the weights need not be "
            "trusted."
        )
    trusted = evidence.run.config.privacy.kind.trusted
    return f"{trusted} This requires secret noise; here the noise seed is public." if simulated else trusted


def _person_text(evidence: Evidence) -> str:
    if not evidence.promises:
        return "no privacy guarantee"
    if evidence.run.config.privacy.kind.client_level:
        return "protected if one client holds all of these sentences"
    epsilon = evidence.persons.get(SHOWN_PERSON)
    return "not available" if epsilon is None else _of_this_file(evidence, f"ε = {epsilon_text(epsilon)}")


def _of_this_file(evidence: Evidence, guarantee: str) -> str:
    """Return a guarantee; for a run whose seed is public, that only its settings have it."""
    if evidence.verdict is not Verdict.SIMULATED:
        return guarantee
    return f"none for this file (its settings with secret noise: {guarantee})"


def _noise_text(evidence: Evidence) -> str:
    config = evidence.run.config
    if not config.privacy.private:
        return "none: no noise is added"
    if config.privacy.noise_source == "system":
        return "the operating system; the keys are destroyed when the run ends"
    return f"seed {config.seed}, which is public: this model is not protected"


def _checked_text(evidence: Evidence) -> str:
    check, attack = evidence.check, "no attack measured"
    if evidence.bound is not None:
        kind = ATTACKERS[evidence.attacks[0].kind]
        attack = f"{kind} attack measured: ε is at least {evidence.bound:.3g} (95\u00a0% confidence)"
    elif evidence.audit:
        attack = "membership inference measured"
    if check is None:
        return f"no noise to check; {attack}"
    result = "FAILED" if check.failed else "passed" if check.passed else "not possible (rounding hides the noise)"
    number = len(evidence.checks)
    if evidence.checked_silo and check.passed:
        steps = sum(each.steps for _, each in evidence.checks)
        return f"noise checks of all {number:,} silos passed, {steps:,} steps; {attack}"
    return f"noise check {result}, {check.steps:,} {evidence.measured}; {attack}"


def odds_text(evidence: Evidence) -> str:
    """Return the meaning of ε and δ as the success rate of an attacker."""
    privacy = evidence.privacy
    knows = (
        "all other training sentences"
        if not evidence.run.config.privacy.kind.client_level
        else "the data of all other clients"
    )
    holds = "the shared layers" if evidence.shared_alone else "the trained weights"
    secret = " and secret noise" if evidence.verdict is Verdict.SIMULATED else ""
    return (
        f"Meaning of this ε: an attacker has {holds} and {knows}. The attacker wants to find out whether "
        f"{privacy.unit} was in the training data. A random guess is right in half of the cases. With ε = "
        f"{epsilon_text(privacy.epsilon)}{secret} the attacker is right in at most {right_text(privacy.epsilon)} of "
        f"the cases, plus at most δ = {delta_text(privacy.delta)} (one in {1 / privacy.delta:,.0f})."
    )


def good_text(evidence: Evidence) -> str:
    """Return the classification of ε, with published values for reference."""
    value = "ε with secret noise" if evidence.verdict is Verdict.SIMULATED else "this ε"
    return (
        f"Classification: by the tiers of {TIERS_OF}, {value} is {TIERS[tier(evidence.privacy.epsilon)]}. For "
        "reference, the 2020 US census published ε = 17.14 for its persons file. Google reports ε = 0.994 to 13.69 "
        "for all text typed by one user, and Apple ε = 4 for each donated emoji. Protected units and δ differ, so "
        "these values are not directly comparable. Sources are under “Published values of ε”."
    )


def open_points(evidence: Evidence) -> tuple[str, ...]:
    """Return the limitations that the reader must not overlook."""
    if not evidence.promises:
        return (
            "Protect the weights like the training sentences: give them only to persons who may see these sentences.",
            "The scores below measure how well the model finds entities. They do not measure privacy.",
        )
    missed = sum(counts.gold - counts.correct for counts in evidence.test.strict.values())
    points = [
        *([SHARED_ALONE] if evidence.shared_alone else []),
        f"Of {evidence.test.names:,} entities in the test set the model misses {missed:,}. If you use the "
        "model for redaction, such entities stay in the text.",
        *_person_points(evidence),
    ]
    others = evidence.others
    if others.private or others.plain or not evidence.sees_all:
        unseen = "" if evidence.sees_all else f" {UNSEEN}"
        points.append(
            f"This installation has {others.private + others.plain:,} other finished runs on the same corpus.{unseen} "
            "ε covers this run only."
        )
    if evidence.audit is None:
        points.append(f"No attack on the weights was measured. {evidence.how_to_audit}")
    elif evidence.contradicted:
        points.append("A measured attack contradicts the privacy guarantee: see “Measured attacks”.")
    unclaimed = sum(row.held is Held.NOT for row in rows(evidence))
    points.append(
        f"{unclaimed} of the “Assumptions of ε” are not claimed: do not rely on them. Read them before you rely on ε."
    )
    return tuple(points)


def _person_points(evidence: Evidence) -> list[str]:
    if evidence.run.config.privacy.kind.client_level or not evidence.persons:
        return []
    size = evidence.longest_document or max(evidence.persons)
    epsilon = evidence.persons.get(size, math.inf)
    where = (
        f"every sentence of the longest document ({size:,} sentences)"
        if evidence.longest_document
        else f"{size:,} sentences"
    )
    return [
        f"The guarantee protects a sentence, not a person. For a person named in {where}, ε = {epsilon_text(epsilon)}."
    ]
