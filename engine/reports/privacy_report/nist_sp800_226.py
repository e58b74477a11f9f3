"""The questions of NIST SP 800-226, by the parts of its pyramid and its hazards, answered for one run.

Near, Darais, Lefkovitz and Howarth 2025, "Guidelines for Evaluating Differential Privacy Guarantees", final edition of
March 2025, doi:10.6028/NIST.SP.800-226. The guidelines are prose; the questions are ours, one for each part and hazard
that bears on a trained model. All that are listed here are answered; the final edition may ask more, since only the
public draft's text could be had.
"""

from dataclasses import dataclass

from engine.records import NoiseCheck
from engine.reports.numbers import delta_text, epsilon_text
from engine.reports.privacy_report.assumptions import Held, nothing, others_text, rows
from engine.reports.privacy_report.evidence import Evidence
from engine.reports.privacy_report.summary import trusted_text

SOURCE = (
    "NIST SP 800-226, “Guidelines for Evaluating Differential Privacy Guarantees”, final edition, March 2025, "
    "doi:10.6028/NIST.SP.800-226. The wording of the questions is ours: one for each part of its pyramid and each of "
    "its privacy hazards, as the public draft of December 2023 numbers them; the final edition may ask more. Answering "
    "them is no certificate."
)


@dataclass(frozen=True)
class Answer:
    """section: of the guidelines. question. held: how far the answer can be relied on. why: the answer."""

    section: str
    question: str
    held: Held
    why: str


def answers(evidence: Evidence) -> list[Answer]:
    """All questions that are listed here. Where nothing is promised, no answer on the promise is claimed."""
    return [*_guarantee(evidence), *_algorithm(evidence), *_deployment(evidence)]


def _guarantee(evidence: Evidence) -> list[Answer]:
    """Section 2: the parameters and the unit."""
    privacy, config = evidence.privacy, evidence.run.config
    known = {each.name: each for each in rows(evidence)}
    accountant, delta = known["ε is added up rightly"], known["δ is small beside 1/n"]
    noise = next(iter(known.values()))
    both = Held.CHECKED if {accountant.held, noise.held} == {Held.CHECKED} else Held.CLAIMED
    settings = (
        f"σ = {config.privacy.noise_multiplier:g}, {evidence.last.steps_total:,} steps, batch size "
        f"{config.training.batch_size:,}, clip norm {config.privacy.clip_norm or 0:g}: all settings are under "
        "“Provenance”."
    )
    return [
        Answer(
            "2.2",
            "Is ε given, for all that was released, and is it small?",
            both if evidence.promises else Held.NOT,
            f"ε = {epsilon_text(privacy.epsilon)}, for all steps together." if evidence.promises else nothing(evidence),
        ),
        Answer("2.3", "Is δ so small that no record can be published whole?", delta.held, delta.why),
        Answer(
            "2.3",
            "Are all parameters given, so that others can convert them?",
            _claim(evidence, noise.held),
            settings,
        ),
        Answer(
            "2.4",
            "Is the unit of privacy said, and what neighbours are?",
            _claim(evidence, Held.CLAIMED),
            f"{privacy.unit}; {privacy.neighbouring}." if evidence.promises else nothing(evidence),
        ),
        _person(evidence),
        Answer(
            "2.5",
            "Is it compared with other promises of the same unit and δ only?",
            Held.NOT,
            "What others promise stands in this report with its unit; none of it is on the same scale.",
        ),
        Answer("2.6", "Is nothing else released from the same data without noise?", Held.NOT, _releases(evidence)),
    ]


def _person(evidence: Evidence) -> Answer:
    question = "Does the unit cover all that one person has in the data?"
    if evidence.run.config.privacy.kind.client_level and evidence.promises:
        why = "Whoever has all sentences at one client is covered with it; who has some at several is not."
        return Answer("2.4", question, Held.CLAIMED, why)
    if evidence.persons and evidence.promises:
        size, epsilon = max(evidence.persons.items())
        why = (
            f"No: a sentence is covered. A person with several is promised less, and how much less is worked out: for "
            f"{size:,} sentences ε = {epsilon_text(epsilon)} at δ = {delta_text(evidence.privacy.delta)}."
        )
        return Answer("2.4", question, Held.NOT, why)
    return Answer("2.4", question, Held.NOT, "No ε is known here for a person with several sentences.")


def _releases(evidence: Evidence) -> str:
    return (
        "Training losses, gradient norms and validation scores of this run are shown without noise. "
        f"{others_text(evidence)}"
    )


def _algorithm(evidence: Evidence) -> list[Answer]:
    """Section 3: algorithms, utility, bias."""
    known = {each.name: each for each in rows(evidence)}
    clipping = next(each for name, each in known.items() if name.endswith("further than the clip norm"))
    interval = evidence.test.f1_interval
    found = f"F1 {evidence.test.f1:.2f} on the test part" + (f", 95 %: {interval.text}" if interval else "")
    return [
        Answer(
            "3",
            "Are tested libraries used, no code of one's own?",
            Held.NOT,
            "ε is added up by dp_accounting. The training step is this program's own; “second-opinion” computes its "
            "first steps with TensorFlow Privacy too.",
        ),
        Answer("3.1", "Is the influence of one record bounded, as the noise supposes?", clipping.held, clipping.why),
        Answer(
            "3.2", "Is it measured how useful the result is?", Held.CHECKED, f"{found}; each entity type by itself."
        ),
        Answer(
            "3.3",
            "Is it known whether noise and clipping hit some people harder?",
            Held.NOT,
            "What is missed is counted by entity type, not by groups of people: names that are rare in the training "
            "sentences may be missed more.",
        ),
        _memory(evidence),
        Answer(
            "3.5",
            "Are choices of settings that looked at the data counted?",
            Held.NOT,
            "Searches that are known here are listed under “Searches”; ε counts none of them, nor what was tried "
            "elsewhere.",
        ),
        Answer("3.6", "Is synthetic data released, and under which promise?", Held.NOT, "None is released."),
        Answer(
            "3.7",
            "In free text, is it clear whose data is whose?",
            Held.NOT,
            "A sentence may speak of several people, and one person stands in sentences of others. What is protected "
            "is the sentence, or the client, not the name.",
        ),
    ]


def _memory(evidence: Evidence) -> Answer:
    question = "Is it measured what the model gives away of its training data?"
    if evidence.audit is None:
        return Answer("3.5", question, Held.NOT, "Not measured. “Measured attacks” has the command that does.")
    why = "Attacks on trainings like this one are under “Measured attacks”."
    if evidence.bound is not None:
        why = f"At 95 % an ε of at least {evidence.bound:.3g} is lost. {why}"
    return Answer("3.5", question, Held.NOT if evidence.contradicted else Held.CHECKED, why)


def _deployment(evidence: Evidence) -> list[Answer]:
    """Section 4: query and threat model, implementation, security, collection."""
    known = {each.name: each for each in rows(evidence)}
    source, floating = known["Nobody knows the noise"], known["Numbers are exact"]
    elsewhere = "Nothing of it is known here: who deploys the tagger has to say."
    return [
        Answer(
            "4.1",
            "Is it one release, or are questions answered again and again?",
            _claim(evidence, Held.CLAIMED),
            "One release: the trained weights. What they answer later costs nothing more.",
        ),
        Answer(
            "4.2",
            "Who must be trusted, and does that fit the world?",
            _claim(evidence, Held.CLAIMED),
            trusted_text(evidence) if evidence.promises else nothing(evidence),
        ),
        Answer(
            "4.3",
            "Was the mechanism seen to do what is said of it?",
            _audited(evidence.check, evidence),
            _audit_text(evidence.check),
        ),
        Answer("4.3", "Are random numbers secret?", source.held, source.why),
        Answer("4.3", "Is floating-point arithmetic accounted for?", floating.held, floating.why),
        Answer(
            "4.3",
            "Are timing and other side channels closed?",
            Held.NOT,
            "How long a step takes depends on the sentences in it, and times are shown.",
        ),
        Answer("4.4", "Are raw data safe at rest and while they are computed with?", Held.NOT, elsewhere),
        Answer("4.4", "Is it settled who may see the raw data?", Held.NOT, elsewhere),
        Answer("4.5", "Were no more data collected than are needed?", Held.NOT, elsewhere),
    ]


def _claim(evidence: Evidence, held: Held) -> Held:
    return held if evidence.promises else Held.NOT


def _audited(check: NoiseCheck | None, evidence: Evidence) -> Held:
    if check is None or check.failed:
        return Held.NOT
    return _claim(evidence, Held.CHECKED if check.passed else Held.CLAIMED)


def _audit_text(check: NoiseCheck | None) -> str:
    if check is None:
        return "There is no mechanism: no noise is added."
    if check.failed:
        return "It was seen not to: " + " ".join(check.faults)
    if not check.passed:
        return "The rounding of the weights hides the noise; sampling was measured, and clipping at some steps."
    sums = f"the sum of {check.unit}s in {check.looks:,} of them"
    return (
        f"The noise check measured noise and sampling over {check.steps:,} steps of this run, clipping by {sums}, and "
        "passed."
    )
