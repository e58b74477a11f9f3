"""What was trained, what is promised of it, to whom, and what others promise."""

import math

from engine.lessons.posterior import bounds
from engine.reports.document.model import Block, Facts, Paragraph, Section, Table
from engine.reports.labels import corpus_title
from engine.reports.numbers import SURE, delta_text, epsilon_text, right_text
from engine.reports.privacy_report.evidence import Evidence, TrainedOn, Verdict
from engine.reports.privacy_report.reference_values import NOT_ALIKE, PROMISES
from engine.taggers import KINDS

_PRIORS = (0.001, 0.01, 0.1, 0.5)
_WRONGLY = (0.001, 0.01)
"""Shares of the sentences that were not there which an attacker may accuse."""


def trained_on(evidence: Evidence) -> Section:
    """What was trained on what."""
    config, made = evidence.run.config, evidence.made
    federation = config.federation
    parties = "one party, which holds everything"
    if config.platforms:
        parties = f"{federation.clients:,} platforms, each with a corpus of its own"
    elif federation.clients > 1:
        parties = f"{federation.clients:,} clients, {federation.rounds:,} communication rounds"
    facts = [
        ("Model", f"{KINDS[config.tagger.name].title}; it marks names and their types in sentences"),
        *((f"Corpus{_number(place, evidence)}", _corpus_text(each)) for place, each in enumerate(evidence.trained_on)),
        ("Training sentences", f"{made.train_sentences:,} ({100 * config.data_fraction:g}\u00a0% of those there are)"),
        ("Parties", parties),
        ("Given from outside", f"word vectors {made.vectors}; features: {config.features}"),
        ("Training", f"{config.training.epochs:g} epochs, {evidence.last.steps_total:,} steps in all"),
    ]
    blocks: list[Block] = [Facts("Model and data", tuple(facts))]
    blocks += [Paragraph(text, warning=True) for text in evidence.overlap.warnings]
    if evidence.missing:
        blocks.append(Paragraph(f"{evidence.missing} What follows is as the run recorded it."))
    return Section("What was trained on what", tuple(blocks))


def _number(place: int, evidence: Evidence) -> str:
    return f" {place + 1}" if len(evidence.trained_on) > 1 else ""


def _corpus_text(corpus: TrainedOn) -> str:
    parts = [corpus.title, "made up by a program: nobody real is in it" if corpus.synthetic else "", corpus.licence]
    return "; ".join(filter(None, [*parts, corpus.source]))


def protected(evidence: Evidence) -> Section:
    """For whom the promise holds, and against whom."""
    title, privacy, kind = "For whom, and against whom", evidence.privacy, evidence.run.config.privacy.kind
    if not evidence.promises:
        return Section(title, (Paragraph(f"For nobody: {evidence.verdict}.", warning=True),))
    delta = f"at δ = {delta_text(privacy.delta)}"
    whole = kind.client_level
    lines = [
        ("One sentence", "covered with its client" if whole else f"ε = {epsilon_text(privacy.epsilon)}", ""),
        *(
            (_size_text(size, evidence), f"ε = {epsilon_text(epsilon)}", _guesses(epsilon))
            for size, epsilon in sorted(evidence.persons.items())
        ),
        ("A client", f"ε = {epsilon_text(privacy.epsilon)}" if whole else "not claimed", ""),
        ("Sentences of the validation and test parts", "not claimed", ""),
    ]
    if not whole:
        lines[0] = (*lines[0][:2], _guesses(privacy.epsilon))
    else:
        lines[-2] = (*lines[-2][:2], _guesses(privacy.epsilon))
    blocks: list[Block] = [
        Table(f"For whom, {delta}", ("Who", "Promise", "Somebody who guesses"), tuple(lines)),
        Paragraph(_person_note(evidence)),
        Table("Against whom", ("Who", "Is kept from it"), _against(evidence)),
    ]
    return Section(title, tuple(blocks))


def _guesses(epsilon: float) -> str:
    return "may be sure" if epsilon > SURE else f"right at most {right_text(epsilon)}"


def _size_text(size: int, evidence: Evidence) -> str:
    if size == evidence.longest_document:
        return f"The longest document, {size:,} sentences"
    return f"A person in {size:,} sentences"


def _person_note(evidence: Evidence) -> str:
    config = evidence.run.config
    if config.privacy.kind.client_level:
        return "Somebody with sentences at several clients is a group of clients, and is promised less."
    if evidence.persons:
        return (
            "For adding or removing all sentences of a person at once, wherever they lie: at worst they pull the "
            "weights the same way. Computed, not guessed from k times ε, which would be no bound at the same δ."
        )
    if config.privacy.sampling != "poisson":
        return "For somebody named in several sentences no figure is known where batches are shuffled."
    return f"For somebody named in several sentences no figure is given. {evidence.missing}"


def _against(evidence: Evidence) -> tuple[tuple[str, str], ...]:
    config = evidence.run.config
    kind, seeded = config.privacy.kind, evidence.verdict is Verdict.SIMULATED
    seen = "only if the noise were secret: here its seed is printed" if seeded else "yes"
    found = [("Whoever gets the weights, after any step", seen)]
    if evidence.shared_alone:
        found = [("Whoever gets what the platforms share, after any round", seen)]
        found.append(("Whoever gets a platform's tagger", "no: the parts that it keeps learned without noise"))
    if config.federation.clients > 1 or kind.client_level:
        found.append(("The other clients", seen))
        found.append(("The server", f"{'no' if kind.noise == 'server' else seen}. {kind.trusted}"))
    else:
        found.append(("Whoever trains it, and this machine", "no: they hold the sentences"))
    return (*found, ("Whoever knows the seed, or the keys of the noise", "no"))


def odds(evidence: Evidence) -> Section:
    """ε and δ in odds."""
    title, privacy = "ε and δ in odds", evidence.privacy
    if not evidence.promises:
        return Section(title, (Paragraph("Nothing bounds what an attacker may become sure of."),))
    epsilon, delta = privacy.epsilon, privacy.delta
    beliefs = tuple(
        (_share(prior), f"at least {_share(low)}", f"at most {_share(high)}")
        for prior, (low, high) in ((prior, bounds(epsilon, prior)) for prior in _PRIORS)
    )
    caught = tuple((_share(wrong), f"at most {_share(_power(epsilon, delta, wrong))}") for wrong in _WRONGLY)
    return Section(
        title,
        (
            Table(
                f"How sure somebody can become that {privacy.unit} was there, δ left aside",
                ("Before", "After, if it speaks against", "After, if it speaks for"),
                beliefs,
            ),
            Table(
                f"Of what was trained on, how much an attacker can point out (δ = {delta_text(delta)} counted)",
                ("Who wrongly accuses, of all that was not there", "is right about, of all that was"),
                caught,
            ),
            Paragraph(
                f"By δ = {delta_text(delta)}, one in {1 / delta:,.0f}, anything may be likelier than ε alone allows. "
                "Sources: Kasiviswanathan and Smith 2014 (beliefs); Kairouz, Oh and Viswanath 2015, theorem 2.1 "
                "(accusations)."
            ),
        ),
    )


def _power(epsilon: float, delta: float, wrong: float) -> float:
    """Largest true-positive rate at a false-positive rate under (ε, δ) (Kairouz, Oh and Viswanath 2015)."""
    rising = _times(epsilon, wrong) + delta
    return min(1.0, rising, 1 - (1 - delta - wrong) / _times(epsilon, 1.0))


def _times(epsilon: float, share: float) -> float:
    return math.exp(min(epsilon, 700.0)) * share


def _share(value: float) -> str:
    """A probability in per cent, with digits that tell it from 0 and from 100."""
    rest = 100 * min(value, 1 - value)
    digits = 0 if rest >= 10 or rest < 1e-8 else 1 - math.floor(math.log10(rest))
    return f"{float(f'{100 * value:.{digits}f}'):.12g}\u00a0%"


def others(evidence: Evidence) -> Section:
    """What such an ε means beside what others promise."""
    own = (
        f"This report: {corpus_title(evidence.run.config.corpus)}",
        f"{epsilon_text(evidence.privacy.epsilon)} (δ = {delta_text(evidence.privacy.delta)})"
        if evidence.promises
        else "none",
        evidence.privacy.unit if evidence.promises else "nobody",
        "—",
    )
    lines = tuple((each.who, each.epsilon, each.unit, each.source) for each in PROMISES)
    table = Table("Printed values of ε", ("Who", "ε", "Protects", "Printed in"), (own, *lines))
    return Section("What others promise", (table, Paragraph(NOT_ALIKE)))
