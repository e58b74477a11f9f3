"""Texts on a privacy claim, for a page and for a file. Does not use Streamlit."""

import math

from engine import VERSION
from engine.privacy.claim import FACTS, UNITS, Claim, Consequence, consequences, of_person, right, together
from engine.reports.document.assessment import record
from engine.reports.document.model import Block, Document, Facts, Paragraph, Points, Section, Table
from engine.reports.numbers import delta_text, epsilon_text

_SURE = 99.995
"""Per cent from which a success rate is stated as 100 of 100."""


def successes(epsilon: float, delta: float) -> int:
    """Return the largest number of right guesses of 100, rounded up: it is a limit."""
    rate = 100 * right(epsilon, delta)
    return 100 if rate > _SURE else min(100, math.ceil(rate - 1e-9))


def headline(claim: Claim) -> str:
    """Return the meaning of the claim in a sentence."""
    number = successes(claim.epsilon, claim.delta)
    if claim.unit == "unknown":
        return "This claim promises nothing yet: it does not state whom or what ε protects."
    if number == 100:
        return "This ε limits nothing in practice: an attacker may be right in 100 of 100 guesses."
    return f"An attacker may be right about {UNITS[claim.unit]} in at most {number} of 100 guesses."


def meaning(claim: Claim) -> list[str]:
    """Return the meaning of ε and δ in plain words, in paragraphs."""
    number, half = successes(claim.epsilon, claim.delta), 50
    texts = [
        "Imagine an attacker who has the model and knows all other training data. The attacker guesses whether "
        f"{_one(claim)} was in the training data, and both answers were equally likely before. Without the model, "
        f"{half} of 100 such guesses are right. With it, at most {number} are right, if the claim is true."
    ]
    if claim.delta:
        texts.append(
            f"δ = {delta_text(claim.delta)}: with this probability the limit may fail completely. It should be smaller "
            f"than 1 divided by the number of records: here 1 / {claim.examples:,} = {1 / claim.examples:.1g}."
        )
        if claim.delta * claim.examples >= 1:
            texts.append(
                "**This δ is too large.** A model that publishes one record chosen at random would satisfy the claim."
            )
    return texts


def person(claim: Claim) -> str:
    """Return the limit for a person with several records."""
    if claim.covers_a_person:
        return "The protected unit has all records of a person, so the same limit holds for each person."
    epsilon, delta = of_person(claim)
    limit = successes(epsilon, delta)
    end = (
        "So for such a person the claim limits nothing."
        if limit == 100
        else f"So about such a person at most {limit} of 100 guesses are right."
    )
    values = f"ε = {epsilon_text(epsilon)}" + (f" and δ = {delta:.1g}" if delta else "")
    return (
        f"A person with {claim.records:,} records is protected less: by the general rule for groups, with {values}. "
        f"{end} A smaller ε for a person needs the details of the training."
    )


def consequence_rows(claim: Claim) -> list[dict[str, str]]:
    """Return a table row for each missing fact.

    Raises:
        InvalidConfig: If a number of the training is out of range.
    """
    found = {each.fact: each for each in consequences(claim)}
    rows = [
        {
            "missing fact": FACTS[name].title,
            "how it often is": FACTS[name].often,
            "ε could be": _epsilon_text(found[name]) if name in found else "unknown",
        }
        for name in claim.missing
    ]
    every = together(claim)
    if every:
        named = "all of these with a number, with secret noise"
        rows.append({"missing fact": "Together", "how it often is": named, "ε could be": _epsilon_text(every)})
    return rows


def largest(claim: Claim) -> str:
    """Return in a sentence how much larger ε could be.

    Raises:
        InvalidConfig: As :func:`consequence_rows`.
    """
    number = len(claim.missing) + (claim.unit == "unknown")
    if not number:
        return "The claim states every fact that this page asks for. Check that they are true."
    missing = f"{number} {'fact is' if number == 1 else 'facts are'} missing"
    finite = [
        each.epsilon
        for each in (*consequences(claim), together(claim))
        if each and each.epsilon is not None and math.isfinite(each.epsilon)
    ]
    if "seed" in claim.missing and not finite:
        return f"{missing}. With a known seed nothing is protected."
    if not finite or max(finite) <= claim.epsilon:
        return f"{missing}. No ε follows from what is known."
    return (
        f"{missing}. If they are as they often are, only ε = {epsilon_text(max(finite))} is proven instead of "
        f"{epsilon_text(claim.epsilon)}" + (", and nothing with a known seed." if "seed" in claim.missing else ".")
    )


def questions(claim: Claim) -> list[str]:
    """Return the questions to the one who claims."""
    asked = [FACTS[name].question for name in claim.missing]
    if claim.unit == "unknown":
        asked.insert(0, "Whom or what does ε protect: a sentence, a document, a person or an organisation?")
    elif not claim.covers_a_person:
        asked.append("How many records can one person have in the data, and what is ε for such a person?")
    if claim.delta * claim.examples >= 1:
        asked.append("Why is δ not smaller than 1 divided by the number of records?")
    return asked


def letter(claim: Claim) -> str:
    """Return the questions as a text to send."""
    delta = f", δ = {delta_text(claim.delta)}" if claim.delta else ""
    lines = [f"You state that your model is private with ε = {epsilon_text(claim.epsilon)}{delta}. Please answer:", ""]
    lines += [f"{number}. {question}" for number, question in enumerate(questions(claim), start=1)]
    return "\n".join(lines)


def document(claim: Claim, written: str) -> Document:
    """Return all of it as a document.

    Args:
        claim: The claim.
        written: Time of writing, ISO 8601, UTC.

    Raises:
        InvalidConfig: As :func:`consequence_rows`.
    """
    facts = (
        ("ε", epsilon_text(claim.epsilon)),
        ("δ", delta_text(claim.delta)),
        ("Protected unit", UNITS[claim.unit]),
        ("Records of one person", "all protected" if claim.covers_a_person else f"{claim.records:,}"),
        ("Assumed training", f"{claim.examples:,} records, batches of {claim.batch_size:,}, {claim.epochs:g} epochs"),
    )
    rows = consequence_rows(claim)
    missing: tuple[Block, ...] = (Paragraph(largest(claim)),)
    if rows:
        columns = ("Missing fact", "How it often is", "ε could be")
        missing += (Table("Missing facts", columns, tuple(tuple(row.values()) for row in rows)),)
    stated = tuple(FACTS[name].stated for name in FACTS if name in claim.known)
    sections = (
        Section("The claim", (Facts("Claim", facts, framed=True), Paragraph(headline(claim)))),
        Section("Meaning", tuple(Paragraph(text.replace("**", "")) for text in (*meaning(claim), person(claim)))),
        Section("What is stated", (Points(stated),) if stated else (Paragraph("None of the facts asked for."),)),
        Section("What is missing", missing),
        Section("Questions", (Points(tuple(questions(claim))),) if questions(claim) else (Paragraph("None."),)),
        record(),
    )
    return Document(
        title="Check of a privacy claim",
        subtitle="What a stated ε limits, and what it leaves open. This is no legal advice.",
        sections=sections,
        written=written,
        program=f"Epsilon Explorer {VERSION}",
        figures={
            "epsilon": claim.epsilon,
            "delta": claim.delta,
            "unit": claim.unit,
            "records": claim.records,
            "known": sorted(claim.known),
        },
    )


def _one(claim: Claim) -> str:
    return "one record" if claim.unit == "unknown" else UNITS[claim.unit]


def _epsilon_text(each: Consequence) -> str:
    if each.epsilon is None:
        return "unknown"
    if math.isinf(each.epsilon):
        return "∞ (no limit)"
    least = f", at least {epsilon_text(each.at_least)}" if each.at_least else ""
    return f"up to {epsilon_text(each.epsilon)}{least}"
