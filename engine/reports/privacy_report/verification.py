"""What the promise rests on, what was checked of it, and what others say."""

from engine.privacy.assumptions import TITLES
from engine.records import CanaryAudit
from engine.reports.assumptions import ledger_epsilon
from engine.reports.audits import ERRS, KINDS, audit_command, membership_text
from engine.reports.document.model import Block, Code, Paragraph, Points, Section, Table
from engine.reports.noise_check import blind_spots, check_rows, looked_less
from engine.reports.numbers import epsilon_text
from engine.reports.privacy_report.assumptions import rows
from engine.reports.privacy_report.evidence import Evidence, Verdict


def assumptions(evidence: Evidence) -> Section:
    """What ε rests on."""
    lines = tuple((each.name, str(each.held), each.why) for each in rows(evidence))
    text = (
        "ε means what it says only if all of this holds. Claimed and checked: measured in this run, or computed a "
        "second time, as far as “Why” says. Claimed: so the program is made, but nothing in this run shows it. Not "
        "claimed: do not rely on it."
    )
    return Section("What ε rests on", (Paragraph(text), Table("Assumptions", ("Assumption", "Here", "Why"), lines)))


def ledger(evidence: Evidence) -> Section:
    """What ε would be under other assumptions."""
    title = "ε under other assumptions"
    if not evidence.ledger:
        return Section(title, (Paragraph("There are no such figures: nothing is promised, or not to sentences."),))
    lines = tuple(
        (TITLES[row.assumption], row.choice, ledger_epsilon(row.epsilon, row.at_least), "yes" if row.claimed else "no")
        for row in evidence.ledger
    )
    text = "Each line changes one thing and leaves the rest as the ε of this run supposes it."
    if evidence.verdict is Verdict.SIMULATED:
        text += " The seed of the noise is printed here: for this very tagger the line that says ∞ holds."
    heads = ("Assumption", "Choice", "Then", "Supposed here")
    return Section(title, (Paragraph(text), Table("The ledger", heads, lines)))


def checked(evidence: Evidence) -> Section:
    """The noise check in full."""
    title, check = "The noise check", evidence.check
    if check is None:
        return Section(title, (Paragraph("No noise is added, so there is none to check."),))
    verdict = "failed" if check.failed else "passed" if check.passed else "was not possible: rounding hides the noise"
    blocks: list[Block] = [
        Paragraph(f"The noise check {verdict}. {check.steps:,} steps were measured.", warning=not check.passed)
    ]
    if check.faults:
        blocks.append(Points(check.faults))
    blocks.append(Table("Measured beside planned", ("What", "Measured", "Planned"), tuple(check_rows(check))))
    blocks += [Paragraph(text) for text in filter(None, [looked_less(check)])]
    return Section(title, (*blocks, Paragraph("What this check cannot see:"), Points(tuple(blind_spots(check)))))


def attacks(evidence: Evidence) -> Section:
    """Measured attacks, or the command that measures."""
    title, audit = "Measured attacks", evidence.audit
    if audit is None:
        return Section(title, (Paragraph("Not measured."), *_how_to_attack(evidence)))
    blocks: list[Block] = [
        Paragraph(
            f"Trainings like that of this run were attacked on {audit.machine}, {audit.created[:10]}, engine "
            f"{audit.engine_version}. Such runs are measured and thrown away; each claims its own ε."
        )
    ]
    if evidence.attacks:
        heads = ("Who attacks", "Claimed ε", "Canaries", "Right of guesses", "ε lost at least, at 95\u00a0%")
        blocks.append(Table("Canaries in one run", heads, tuple(map(_canary_row, evidence.attacks))))
    if audit.membership:
        blocks.append(Paragraph(membership_text(audit.membership) + "."))
    verdict = (
        f"More is shown to be lost than is claimed. {ERRS} If it stays so, the claim is wrong, or something is broken."
        if evidence.contradicted
        else "No claim is contradicted. That does not prove it: another attack may tell more."
    )
    blocks += [Paragraph(verdict, warning=evidence.contradicted), Code("To measure it again", audit.command)]
    return Section(title, tuple(blocks))


def _canary_row(found: CanaryAudit) -> tuple[str, ...]:
    right = f"{found.right:,} of {found.made:,}"
    return KINDS[found.kind], epsilon_text(found.claimed), f"{found.canaries:,}", right, f"{found.best:.3g}"


def _how_to_attack(evidence: Evidence) -> list[Block]:
    config, run = evidence.run.config, evidence.run.run_id
    if config.federation.clients > 1 or config.privacy.clipping != "joint":
        return [Paragraph("Canaries are for one client and joint clipping: this run cannot be attacked in this way.")]
    return [Code("To measure it; the report then has it", audit_command(config, 1000, 32, run))]


def second_opinion(evidence: Evidence) -> Section:
    """TensorFlow Privacy's statement."""
    title, theirs = "A second opinion: TensorFlow Privacy", evidence.statement
    if theirs is None:
        why = "It was not asked: it speaks of DP-SGD with noise on single sentences, and has to be installed."
        why = why if evidence.promises else "It was not asked: nothing is promised."
        return Section(title, (Paragraph(why),))
    blocks: list[Block] = [
        Paragraph(
            "What TensorFlow Privacy states on the same training, in its own words. Its Poisson figure is by Rényi "
            f"accounting; this program's by the same is ε = {epsilon_text(evidence.privacy.rdp_epsilon)}."
            if evidence.privacy.poisson_epsilon is None
            else "What TensorFlow Privacy states on the same training, in its own words. Batches were fixed here, so "
            "its Poisson figure does not hold."
        )
    ]
    if evidence.run.config.federation.clients > 1:
        blocks.append(Paragraph("Of the client whose sentences pay most."))
    return Section(title, (*blocks, Code("compute_dp_sgd_privacy_statement", theirs.text)))
