"""Answers for one run to questions that follow NIST SP 800-226, its pyramid and its privacy hazards.

Near, Darais, Lefkovitz and Howarth 2025, "Guidelines for Evaluating Differential Privacy Guarantees", final edition of
March 2025, doi:10.6028/NIST.SP.800-226. The guidelines contain no list of questions. The questions here are our own,
one for each part and hazard that concerns a trained model, numbered as in the public draft. Only the text of that draft
was available, so the final edition may raise more points.
"""

from dataclasses import dataclass

from engine.records import NoiseCheck
from engine.reports.audits import power_of, power_text
from engine.reports.labels import corpus_title
from engine.reports.numbers import delta_text, epsilon_text
from engine.reports.privacy_report.assumptions import (
    COMPOSITION,
    DELTA,
    EXACT,
    HIDDEN_NOISE,
    Held,
    nothing,
    others_text,
    rows,
    uncovered,
)
from engine.reports.privacy_report.evidence import Evidence
from engine.reports.privacy_report.summary import trusted_text

SOURCE = (
    "NIST SP 800-226, “Guidelines for Evaluating Differential Privacy Guarantees”, final edition, March 2025, "
    "doi:10.6028/NIST.SP.800-226. The authors of this program worded the questions: one for each part of the pyramid "
    "in SP 800-226, and one for each of its privacy hazards. Section numbers follow the public draft of December "
    "2023; the final edition may raise more points. These answers are not a certification."
)
STATUS = (
    "Status “claimed and checked”: yes, and this run was checked. “Claimed”: yes, not checked. “Not claimed”: no, not "
    "applicable or unknown, as the answer states."
)


@dataclass(frozen=True)
class Answer:
    """An answer to one question.

    Attributes:
        section: section of the guidelines.
        question: the question.
        held: how far the reader can rely on the answer.
        why: the answer as text.
    """

    section: str
    question: str
    held: Held
    why: str


def answers(evidence: Evidence) -> list[Answer]:
    """Return the answers to all questions; without a privacy guarantee, no answer on the guarantee is claimed."""
    return [*_guarantee(evidence), *_algorithm(evidence), *_deployment(evidence)]


def _accounted(accountant: str) -> str:
    """Return which code computes ε."""
    if accountant == "exact":
        return "This program's own code computes ε, by the exact formula for Gaussian noise (Balle and Wang 2018)."
    return "The library dp_accounting defines the privacy loss of a step; this program's own code composes the steps."


def _guarantee(evidence: Evidence) -> list[Answer]:
    """Return the answers on section 2: privacy parameters and protected unit."""
    privacy, config = evidence.privacy, evidence.run.config
    assumptions = {row.name: row for row in rows(evidence)}
    accountant, delta = assumptions[COMPOSITION], assumptions[DELTA]
    noise = next(iter(assumptions.values()))
    both = Held.CHECKED if {accountant.held, noise.held} == {Held.CHECKED} else Held.CLAIMED
    clip_norm = config.privacy.clip_norm
    clipping = f"clip norm {clip_norm:g}" if clip_norm else "not clipped"
    settings = f"{_plan_text(evidence)}, {clipping}. The other settings are listed under “Provenance”."
    return [
        Answer(
            "2.2",
            "Is ε stated for the entire release, and how large is it?",
            both if evidence.promises else Held.NOT,
            f"ε = {epsilon_text(privacy.epsilon)}, composed over all steps. It covers {_released(evidence)} and no "
            "other result: see 2.6. The summary classifies its size."
            if evidence.promises
            else nothing(evidence),
        ),
        Answer("2.3", "Is δ smaller than 1/n, for n training sentences or clients?", delta.held, delta.why),
        Answer(
            "2.3",
            "Are all parameters stated, so that a reader can convert ε to other definitions?",
            _claim(evidence, noise.held) if evidence.plan or config.privacy.kind.client_level else Held.NOT,
            settings,
        ),
        Answer(
            "2.4",
            "Are the protected unit and the adjacency of data sets stated?",
            _claim(evidence, Held.CLAIMED),
            f"Protected unit: {privacy.unit}. Adjacency: {privacy.neighbouring}."
            if evidence.promises
            else nothing(evidence),
        ),
        _person(evidence),
        Answer(
            "2.5",
            "Is ε compared only with guarantees of the same unit and δ?",
            Held.NOT,
            "This report lists published values of ε with their units. None of them is directly comparable with this ε."
            if evidence.promises
            else nothing(evidence),
        ),
        Answer("2.6", "Are all results released from the same data protected by noise?", Held.NOT, _releases(evidence)),
    ]


def _plan_text(evidence: Evidence) -> str:
    """Return the parameters from which ε follows: those of the worst-case client, where there are several."""
    config = evidence.run.config
    noise, federation = f"σ = {config.privacy.noise_multiplier:g}", config.federation
    if config.privacy.kind.client_level:
        joined = federation.participants or federation.clients
        return f"{noise}, {federation.rounds:,} rounds, {joined:,} of {federation.clients:,} clients in each"
    if evidence.plan is None:
        return f"{noise}. The number of sentences and steps of the worst-case client is not known on this machine"
    plan, steps = evidence.plan
    worst = "" if federation.clients == 1 else ", of the worst-case client"
    return f"{noise}, {steps:,} steps, batch size {plan.batch_size:,}, {plan.examples:,} sentences{worst}"


def _person(evidence: Evidence) -> Answer:
    question = "Does the protected unit cover all data of one person?"
    if evidence.run.config.privacy.kind.client_level and evidence.promises:
        why = (
            "A person whose sentences are all at one client is covered. A person with sentences at several clients is "
            "not."
        )
        return Answer("2.4", question, Held.CLAIMED, why)
    if evidence.persons and evidence.promises:
        size, epsilon = max(evidence.persons.items())
        why = (
            f"No, it covers one sentence. A person with several sentences has a weaker guarantee: for {size:,} "
            f"sentences, ε = {epsilon_text(epsilon)} at δ = {delta_text(evidence.privacy.delta)}."
        )
        return Answer("2.4", question, Held.NOT, why)
    return Answer("2.4", question, Held.NOT, "No ε is available for a person with several sentences.")


def _releases(evidence: Evidence) -> str:
    """Return the other results from the same data, which ε does not cover."""
    return f"No. {uncovered(evidence)} {others_text(evidence)}"


def _algorithm(evidence: Evidence) -> list[Answer]:
    """Return the answers on section 3: algorithms, utility and bias."""
    assumptions = {row.name: row for row in rows(evidence)}
    clipping = next(row for name, row in assumptions.items() if name.endswith("by the clip norm"))
    interval = evidence.test.f1_interval
    score = f"F1 {evidence.test.f1:.2f} on the test set" + (f" (95 % CI: {interval.text})" if interval else "")
    return [
        Answer(
            "3",
            "Does the program use tested libraries instead of its own code?",
            Held.NOT,
            f"Only in part. {_accounted(evidence.privacy.accountant)} The training step is its own code "
            "too. The command “crosscheck” compares its first steps with TensorFlow Privacy.",
        ),
        Answer("3.1", "Is the contribution of one record bounded as the noise requires?", clipping.held, clipping.why),
        Answer("3.2", "Is the utility of the result measured?", Held.CHECKED, f"{score}, and for each entity type."),
        Answer(
            "3.3",
            "Is the effect of noise and clipping on groups of persons measured?",
            Held.NOT,
            "Errors are counted by entity type, not by groups of persons. The model may miss names that are rare in "
            "the training sentences more often.",
        ),
        _memory(evidence),
        Answer(
            "3.5",
            "Does ε cover hyperparameter searches on the same data?",
            Held.NOT,
            f"No. “Hyperparameter searches” lists those {'of' if evidence.sees_all else 'published in'} this "
            "installation with these settings, if there are any. ε covers neither these nor trials elsewhere.",
        ),
        Answer(
            "3.6", "Are synthetic data released, and with which guarantee?", Held.NOT, "No synthetic data are released."
        ),
        Answer(
            "3.7",
            "In free text, is it clear whose data each record contains?",
            Held.NOT,
            "No. One sentence can mention several persons, and one person can occur in the sentences of others. The "
            "protected unit is the sentence or the client, not the person named.",
        ),
    ]


def _memory(evidence: Evidence) -> Answer:
    question = "Is the leakage of training data from the model measured?"
    if evidence.audit is None:
        return Answer("3.5", question, Held.NOT, f"Not measured. {evidence.how_to_audit}")
    listed = "Attacks on runs with the same settings are listed under “Measured attacks”."
    found = evidence.recipient
    if found is None:
        measured = "Membership inference was measured" if evidence.audit.membership else "It was not measured"
        why = f"{measured}, without a bound on ε from the model alone. {listed}"
        return Answer("3.5", question, Held.CLAIMED if evidence.audit.membership else Held.NOT, why)
    why = (
        f"Attacker who has the model of another run with these settings: ε is at least {found.best:.3g} (95\u00a0% "
        "confidence). "
        f"{power_text(power_of(found))} {listed}"
    )
    return Answer("3.5", question, Held.NOT if evidence.contradicted else Held.CLAIMED, why)


def _deployment(evidence: Evidence) -> list[Answer]:
    """Return the answers on section 4: query and threat model, implementation, security, data collection."""
    assumptions = {row.name: row for row in rows(evidence)}
    source, floating = assumptions[HIDDEN_NOISE], assumptions[EXACT]
    elsewhere = "This program has no information on this question. The operator who deploys the model must answer it."
    return [
        Answer(
            "4.1",
            "Is there a single release, or are queries answered repeatedly?",
            Held.NOT,
            f"Not a single release. ε covers {_released(evidence)}; later predictions have no further privacy cost "
            "(post-processing). ε does not cover the other results under 2.6."
            if evidence.promises
            else nothing(evidence),
        ),
        Answer(
            "4.2",
            "Which parties must be trusted, and is this realistic?",
            _claim(evidence, Held.CLAIMED),
            trusted_text(evidence) if evidence.promises else nothing(evidence),
        ),
        Answer(
            "4.3",
            "Was the implementation of the mechanism tested?",
            _audited(evidence.check, evidence),
            " ".join(filter(None, [_audit_text(evidence), _steps_text(evidence)])),
        ),
        Answer("4.3", "Are the random numbers secret?", source.held, source.why),
        Answer(
            "4.3",
            "Does the guarantee account for floating-point arithmetic?",
            floating.held,
            f"No. {floating.why}" if evidence.promises else floating.why,
        ),
        Answer(
            "4.3",
            "Are timing and other side channels closed?",
            Held.NOT,
            "No. The duration of a step depends on the sentences in it, and the dashboard shows durations.",
        ),
        Answer("4.4", "Are the raw data secured in storage and during computation?", Held.NOT, elsewhere),
        Answer("4.4", "Are the access rights to the raw data defined?", Held.NOT, elsewhere),
        Answer("4.5", "Is the data collection limited to the necessary minimum?", Held.NOT, elsewhere),
    ]


def _claim(evidence: Evidence, held: Held) -> Held:
    return held if evidence.promises else Held.NOT


def _audited(check: NoiseCheck | None, evidence: Evidence) -> Held:
    if check is None or check.failed:
        return Held.NOT
    return _claim(evidence, Held.CHECKED if check.passed else Held.CLAIMED)


def _released(evidence: Evidence) -> str:
    return "the shared layers" if evidence.shared_alone else "the trained weights"


def _steps_text(evidence: Evidence) -> str:
    """Return the bound of the attacker who reads every step; empty where it was not measured."""
    found = evidence.audit.white if evidence.audit else None
    if found is None:
        return ""
    return (
        f"Attacker who reads every step of another run with these settings: ε is at least {found.best:.3g} (95\u00a0% "
        "confidence). "
        f"{power_text(power_of(found))}"
    )


def _audit_text(evidence: Evidence) -> str:
    check = evidence.check
    if check is None:
        return "There is no mechanism: the run adds no noise."
    if check.failed:
        return "Yes, and the noise check failed. " + " ".join(check.faults)
    sampled = check.batch_std_planned is not None
    clipped = ""
    if check.unit == "sentence":
        looks = check.looks if check.withheld else check.looks_counted
        clipped = (
            f" In {looks:,} of these steps, it recomputed the sum of the clipped gradients and compared it with the "
            "sum used."
        )
    silo = evidence.checked_silo
    if not check.passed:
        measured = f"The check measured sampling over {check.steps:,} steps." if sampled else ""
        return f"Rounding of the weights hides the noise. {measured}{clipped if measured else ''}".strip()
    subject = (
        f"The noise check of each silo passed. That of {corpus_title(silo)}" if silo else "The noise check passed. It"
    )
    measured = "noise and sampling" if sampled else "noise"
    return f"{subject} measured {measured} over {check.steps:,} {evidence.measured} of this run.{clipped}"
