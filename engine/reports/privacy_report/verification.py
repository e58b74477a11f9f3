"""The report's sections on the assumptions of ε, the checks, the attacks and ε by other programs."""

from engine.privacy.assumptions import TITLES
from engine.records import CanaryAudit
from engine.reports.assumptions import ledger_epsilon
from engine.reports.audits import (
    CONTRADICTED,
    ERRS,
    KINDS,
    audit_command,
    current_command,
    membership_text,
    power_of,
    power_text,
)
from engine.reports.document.model import Block, Code, Paragraph, Points, Section, Table
from engine.reports.labels import corpus_title
from engine.reports.noise_check import blind_spots, check_rows, looked_less
from engine.reports.numbers import epsilon_text
from engine.reports.privacy_report.assumptions import SEPARATE, nothing, rows
from engine.reports.privacy_report.evidence import Evidence, Verdict

_VALID = (
    "ε covers {released} if the assumptions below on training and data hold. It does not cover the other results that "
    "some of them name."
)
LEDGER = "Values of ε"
"""Title of the table of ε under other assumptions."""


def assumptions(evidence: Evidence) -> Section:
    """Return the section on the assumptions of ε."""
    lines = tuple((row.name, str(row.held), row.why) for row in rows(evidence))
    valid = _VALID.format(released="the shared layers" if evidence.shared_alone else "the trained weights")
    text = (
        f"{valid if evidence.promises else nothing(evidence)} “Claimed and checked”: measured in this run or computed "
        "twice, to the extent stated in the last column. “Claimed”: the program is designed this way, but this run "
        "does not prove it. “Not claimed”: do not rely on it."
    )
    heads = ("Assumption", "Status", "Evidence")
    return Section("Assumptions of ε", (Paragraph(text), Table("Assumptions", heads, lines)))


def ledger(evidence: Evidence) -> Section:
    """Return the section on ε under other assumptions."""
    title = "ε under other assumptions"
    if not evidence.ledger:
        text = "No such values are available: the run gives no privacy guarantee, or none at the level of sentences."
        return Section(title, (Paragraph(text),))
    lines = tuple(
        (TITLES[row.assumption], row.choice, ledger_epsilon(row.epsilon, row.at_least), "yes" if row.claimed else "no")
        for row in evidence.ledger
    )
    text = "Each row changes one assumption of this run and keeps the others."
    if evidence.left_out:
        text += f" {evidence.left_out}"
    if evidence.verdict is Verdict.SIMULATED:
        text += (
            " The seed of the noise is public here, so the row “Noise seed: known to the attacker” (ε = ∞) applies to "
            "this model."
        )
    heads = ("Assumption", "Choice", "Result", "Assumed by the stated ε")
    return Section(title, (Paragraph(text), Table(LEDGER, heads, lines)))


def checked(evidence: Evidence) -> Section:
    """Return the section on the noise check."""
    title, check = "Noise check", evidence.check
    if check is None:
        return Section(title, (Paragraph("The run adds no noise, so there is nothing to check."),))
    result = "failed" if check.failed else "passed" if check.passed else "was not possible: rounding hides the noise"
    silo = evidence.checked_silo
    several = f"Each silo has its own noise check; this is that of {corpus_title(silo)}. " if silo else ""
    blocks: list[Block] = [
        Paragraph(
            f"{several}The noise check {result}. It measured {check.steps:,} {evidence.measured}.",
            warning=not check.passed,
        )
    ]
    if check.faults:
        blocks.append(Points(check.faults))
    blocks.append(
        Table(
            "Measured and planned values", ("Quantity", "Measured", "Planned"), tuple(check_rows(check, samples=False))
        )
    )
    blocks += [Paragraph(text) for text in filter(None, [looked_less(check)])]
    return Section(title, (*blocks, Paragraph("Limits of this check:"), Points(tuple(blind_spots(check)))))


def attacks(evidence: Evidence) -> Section:
    """Return the section on measured attacks, or on the command that measures them."""
    title, audit = "Measured attacks", evidence.audit
    if audit is None:
        return Section(title, (Paragraph("No attack was measured."), *_how_to_attack(evidence)))
    blocks: list[Block] = [
        Paragraph(
            f"Runs with the same settings were trained and attacked on {audit.machine}, {audit.created[:10]}, engine "
            f"{audit.engine_version}. Their models were deleted after the measurement; each run claims its own ε."
        )
    ]
    if evidence.attacks:
        heads = ("Attacker", "Claimed ε", "Canaries", "Correct guesses", "Lower bound on ε (95\u00a0%)")
        blocks.append(Table("Canaries in one run", heads, tuple(map(_canary_row, evidence.attacks))))
        blocks += [Paragraph("Power of these measurements:"), Points(tuple(map(_power, evidence.attacks)))]
    if audit.membership:
        blocks.append(Paragraph(membership_text(audit.membership) + "."))
    conclusion = (
        f"{CONTRADICTED} {ERRS} If a repeated measurement confirms it, the claimed ε is wrong or the program is faulty."
        if evidence.contradicted
        else f"No measurement contradicts the claimed ε. {_could(evidence)} This does not prove the claim: another "
        "attack may be stronger."
    )
    blocks += [
        Paragraph(conclusion, warning=evidence.contradicted),
        Code("Command to repeat the audit", f".venv/bin/{current_command(audit)}"),
    ]
    return Section(title, tuple(blocks))


def _could(evidence: Evidence) -> str:
    """Return what the measurements could have contradicted."""
    if not evidence.attacks:
        return "Membership inference gives no bound on ε, so it could have contradicted no claim."
    return "The list above states which claims such measurements could have contradicted."


def _canary_row(audit: CanaryAudit) -> tuple[str, ...]:
    right = f"{audit.right:,} of {audit.made:,}"
    return KINDS[audit.kind], epsilon_text(audit.claimed), f"{audit.canaries:,}", right, f"{audit.best:.3g}"


def _power(audit: CanaryAudit) -> str:
    attacker = KINDS[audit.kind]
    return f"{attacker[0].upper()}{attacker[1:]}: {power_text(power_of(audit))}"


def _how_to_attack(evidence: Evidence) -> list[Block]:
    config, run = evidence.run.config, evidence.run.run_id
    if not evidence.auditable:
        return [
            Paragraph(
                "The audit with canaries requires one client and joint clipping; it is not available for this run."
            )
        ]
    return [
        Code(
            "Command to measure attacks; the next report includes the result",
            f".venv/bin/{audit_command(config, None, 32, run)}",
        )
    ]


def second_opinion(evidence: Evidence) -> Section:
    """Return the section with the bounds of a second accountant and TensorFlow Privacy's statement."""
    title, second, statement = "ε by other programs", evidence.second, evidence.statement
    if not evidence.promises:
        return Section(title, (Paragraph("No other program was asked: the run gives no privacy guarantee."),))
    blocks: list[Block] = [
        Paragraph(
            "No second accountant computed ε: the plan of this training is not known on this machine, or rounding "
            "would decide the result at so small a δ."
        )
        if second is None
        else Paragraph(
            f"Microsoft's PRV accountant computes ε = {epsilon_text(second.estimate)} for the same steps, and proves "
            f"that ε is between {epsilon_text(second.lower)} and {epsilon_text(second.upper)}. The ε of this "
            f"program is {epsilon_text(evidence.privacy.epsilon)}. Privacy losses are rounded up, so any value up to "
            f"{epsilon_text(second.rounded)} would agree with these bounds. {SEPARATE}"
        )
    ]
    if statement is None:
        blocks.append(
            Paragraph(
                "There is no statement of TensorFlow Privacy: it is not installed, or does not cover this run. It "
                "covers sentence-level DP-SGD only."
            )
        )
        return Section(title, tuple(blocks))
    shuffled = evidence.privacy.poisson_epsilon is not None
    blocks.append(
        Paragraph(
            "The text below is TensorFlow Privacy's statement on the same training. It uses the library dp_accounting, "
            "as this program does, so it is no independent check. "
            + (
                "This run used shuffled batches, so its value for Poisson sampling is not valid here."
                if shuffled
                else "Its value for Poisson sampling comes from Rényi accounting. By the same method this program "
                f"computes ε = {epsilon_text(evidence.privacy.rdp_epsilon)}."
            )
        )
    )
    if evidence.run.config.federation.clients > 1:
        blocks.append(Paragraph("Both are for the worst-case client."))
    return Section(title, (*blocks, Code("compute_dp_sgd_privacy_statement", statement.text)))
