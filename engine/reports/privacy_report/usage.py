"""What the tagger is good for, what happens to the data, and where all of it comes from."""

import json

from engine.config import JOIN, engine_version
from engine.experiments.seed_aggregates import engine_of
from engine.records import EntityScores
from engine.reports.cli_command import command_line
from engine.reports.document.model import Block, Code, Facts, Paragraph, Points, Section, Table
from engine.reports.labels import corpus_title
from engine.reports.numbers import epsilon_text
from engine.reports.privacy_report import nist_sp800_226
from engine.reports.privacy_report.assumptions import others_text
from engine.reports.privacy_report.evidence import Evidence
from engine.reports.scores import f1_text
from engine.reports.tuning import study_cost, study_origin


def utility(evidence: Evidence) -> Section:
    """How many names are found, type by type, and what is missed."""
    test = evidence.test
    head = f"On the test part: F1 {f1_text(test)}, precision {test.precision:.3f}, recall {test.recall:.3f}."
    if evidence.reference and evidence.run.config.privacy.private:
        head += f" Without privacy: F1 {evidence.reference.f1:.2f}."
    blocks: list[Block] = [Paragraph(head)]
    if evidence.seeds:
        spread = evidence.seeds
        blocks.append(
            Paragraph(
                f"This setting over {spread.f1.number} seeds: F1 {spread.f1.text}, recall {spread.recall.text}; mean ± "
                "standard deviation. Each run is a release of its own."
            )
        )
    if test.recall == 0:
        blocks.append(Paragraph("It finds no name at all.", warning=True))
    blocks.append(_by_type("Names of each type, in the test part", test))
    blocks += [_platforms(evidence)] if evidence.last.platforms else []
    return Section("What it is good for, and what it misses", tuple(blocks))


def _by_type(title: str, scores: EntityScores) -> Table:
    lines = []
    for name, counts in sorted(scores.strict.items()):
        missed = counts.gold - counts.correct
        share = f" ({100 * missed / counts.gold:.0f}\u00a0%)" if counts.gold else ""
        wrong = counts.predicted - counts.correct
        numbers = (f"{counts.gold:,}", f"{counts.correct:,}", f"{missed:,}{share}", f"{wrong:,}")
        lines.append((name, *numbers, f"{counts.ratios.f1:.3f}"))
    return Table(title, ("Type", "There", "Found", "Missed", "Wrongly marked", "F1"), tuple(lines))


def _platforms(evidence: Evidence) -> Table:
    lines = []
    for each in evidence.last.platforms:
        check = each.noise_check
        said = "none" if check is None else "failed" if check.failed else "passed" if check.passed else "not possible"
        scores = each.test or each.scores
        epsilon = epsilon_text(each.privacy.epsilon) if evidence.promises else "none"
        lines.append((corpus_title(each.name), epsilon, said, f"{scores.recall:.3f}", f"{scores.f1:.3f}"))
    return Table("Each platform by itself", ("Platform", "ε", "Noise check", "Recall", "F1"), tuple(lines))


def handling(evidence: Evidence) -> Section:
    """What happens to the data."""
    config, made = evidence.run.config, evidence.made
    items = [
        "A run records counts, losses, gradient norms and scores; no sentence and no name stands in it or in this "
        "report.",
        "Losses and gradient norms of the training part, and scores of the validation part, are shown without noise.",
        f"Raw data lie where the corpus lies, for whoever may read those files; SHA-256 of what was read: "
        f"{made.corpus_checksum}.",
    ]
    if any(each.synthetic for each in evidence.trained_on):
        items.append("The embedded corpus is made up by a program: nobody real is in it.")
    if config.federation.clients > 1:
        items.append("Clients are simulated on one machine, which sees the sentences of all of them.")
    if config.privacy.noise_source == "system":
        items.append("The keys of noise and samples were destroyed when the run ended.")
    items.append("How long raw data are kept, who may see them and why they were collected is not known here.")
    return Section("Data handling", (Points(tuple(items)),))


def searches(evidence: Evidence) -> Section:
    """Which searches and other runs are known."""
    blocks: list[Block] = [Paragraph(others_text(evidence))]
    for study in evidence.studies:
        told = f"{len(study.trials):,} recipes were tried on {corpus_title(study.development)}"
        blocks.append(Paragraph(f"Search “{study.name}”: {told}. {study_cost(study)} {study_origin(study)}"))
    if not evidence.studies:
        blocks.append(
            Paragraph(
                "No search for this recipe is known here. If settings were chosen elsewhere by trying them on the same "
                "sentences, ε does not count that."
            )
        )
    return Section("Searches", tuple(blocks))


def answered(evidence: Evidence) -> Section:
    """The questions of NIST SP 800-226."""
    every = nist_sp800_226.answers(evidence)
    lines = tuple((each.section, each.question, str(each.held), each.why) for each in every)
    table = Table(f"{len(every)} questions", ("", "Question", "Answer", "Why"), lines)
    return Section("The questions of NIST SP 800-226", (Paragraph(nist_sp800_226.SOURCE), table))


def provenance(evidence: Evidence) -> Section:
    """How it came about, and the command that makes it again."""
    run, made, config = evidence.run, evidence.made, evidence.run.config
    facts = [
        ("Run", run.run_id),
        ("Computed", f"{made.created}, {made.wall_seconds:.0f} s on {made.machine}"),
        ("Engine", made.engine_version + (f", not today's {engine_version(config)}" if engine_of(run) else "")),
        ("Commit", made.commit),
        ("Corpus, SHA-256", made.corpus_checksum),
        ("Word vectors", made.vectors),
        ("Seed", f"{config.seed}" + ("" if made.noise_source == "seeded" else "; noise and samples have secret keys")),
        ("Computed again", evidence.again or "not here"),
    ]
    settings = tuple((name, _value_text(value)) for name, value in config.flat().items() if name != "corpus")
    blocks: list[Block] = [
        Facts("Where it comes from", tuple(facts)),
        Code("The command that makes it again", command_line(config)),
        Facts("All settings", (("corpus", config.corpus.replace(JOIN, f" {JOIN.strip()} ")), *settings)),
    ]
    if config.privacy.noise_source == "system" and config.privacy.private:
        blocks.insert(2, Paragraph("With new keys: the same promise, but other draws and another tagger."))
    return Section("Provenance", tuple(blocks))


def _value_text(value: object) -> str:
    return "none" if value is None else json.dumps(value, ensure_ascii=False) if isinstance(value, bool) else str(value)
