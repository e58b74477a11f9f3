"""The report's sections on utility, data handling, searches and provenance."""

from typing import Any

from engine.config import OF_KIND, PARAMETERS, SimulationConfig, engine_version, fields_of
from engine.experiments.seed_aggregates import engine_of
from engine.records import EntityScores
from engine.reports.cli_command import command_line
from engine.reports.document.model import Block, Code, Facts, Paragraph, Points, Section, Table
from engine.reports.labels import corpus_title
from engine.reports.numbers import delta_text, epsilon_text
from engine.reports.privacy_report import nist_sp800_226
from engine.reports.privacy_report.assumptions import others_text
from engine.reports.privacy_report.evidence import Evidence
from engine.reports.scores import f1_text
from engine.reports.tuning import study_cost, study_origin
from engine.taggers import KINDS

BY_TYPE = "Test set entities by type"
"""Title of the table of entity types."""
BY_CLIENT = "Scores by client"
"""Title of the table of clients."""
RERUN, NEW_RUN = "Command to rerun this run", "Command for a new run with the same settings"
"""Titles of the command, with a seed and with new keys."""
NEW_KEYS = (
    "The command does not repeat this run: its keys were destroyed. It trains another model with new keys, which "
    "releases more about the same sentences. The ε of this report covers this run only. Two models together cost more."
)
OTHER_ENGINE = (
    "An earlier engine computed this run. The command uses the current one, so the weights and scores differ, and ε "
    "may differ."
)


def utility(evidence: Evidence) -> Section:
    """Return the section on the scores, type by type, and on the missed entities."""
    test = evidence.test
    head = f"On the test set: F1 {f1_text(test)}, precision {test.precision:.3f}, recall {test.recall:.3f}."
    if evidence.reference and evidence.run.config.privacy.private:
        head += f" Without noise: F1 {evidence.reference.f1:.2f}."
    blocks: list[Block] = [Paragraph(head)]
    if evidence.seeds:
        spread = evidence.seeds
        several = " Each of these runs has its own ε; several releases must be composed." if evidence.promises else ""
        blocks.append(
            Paragraph(
                f"The same settings over {spread.f1.number} seeds (mean ± standard deviation): F1 {spread.f1.text}, "
                f"recall {spread.recall.text}.{several}"
            )
        )
    if test.recall == 0:
        blocks.append(Paragraph("The model finds no entity.", warning=True))
    blocks.append(_by_type(BY_TYPE, test))
    blocks += [_platforms(evidence)] if evidence.last.platforms else []
    return Section("Utility and missed entities", tuple(blocks))


def _by_type(title: str, scores: EntityScores) -> Table:
    lines = []
    for name, counts in sorted(scores.strict.items()):
        missed = counts.gold - counts.correct
        share = f" ({100 * missed / counts.gold:.0f}\u00a0%)" if counts.gold else ""
        wrong = counts.predicted - counts.correct
        numbers = (f"{counts.gold:,}", f"{counts.correct:,}", f"{missed:,}{share}", f"{wrong:,}")
        lines.append((name, *numbers, f"{counts.ratios.f1:.3f}"))
    return Table(title, ("Type", "Entities", "Found", "Missed", "False positives", "F1"), tuple(lines))


def _platforms(evidence: Evidence) -> Table:
    lines = []
    for client in evidence.last.platforms:
        check = client.noise_check
        result = "none" if check is None else "failed" if check.failed else "passed" if check.passed else "not possible"
        scores = client.test or client.scores
        epsilon = epsilon_text(client.privacy.epsilon) if evidence.promises else "none"
        lines.append((corpus_title(client.name), epsilon, result, f"{scores.recall:.3f}", f"{scores.f1:.3f}"))
    return Table(BY_CLIENT, ("Client (silo)", "ε", "Noise check", "Recall", "F1"), tuple(lines))


def handling(evidence: Evidence) -> Section:
    """Return the section on data handling."""
    config, made = evidence.run.config, evidence.made
    held = "scores" if evidence.last.loss is None else "counts, losses, gradient norms and scores"
    items = [
        f"The stored results of this run contain {held}. Neither these results nor this report contain sentences or "
        "names from the data. An exception is a corpus that does not declare its entity types: their names are those "
        "of its tags.",
        evidence.shown,
        "The sentences are in the corpus files. The program's data folder also holds encoded sentences, from which "
        "words can be recovered. The permissions of these files decide who can read them. SHA-256 of the data read: "
        f"{made.corpus_checksum}.",
    ]
    if any(corpus.synthetic for corpus in evidence.trained_on):
        items.append("The built-in corpus is synthetic and contains no data on real persons.")
    if config.federation.clients > 1:
        items.append("The clients are simulated on one machine, which has access to the sentences of all clients.")
    if config.privacy.noise_source == "system":
        items.append(
            "The keys of the noise and of the sampling are destroyed when the run ends; on another machine that "
            "crashed, when its workers start again."
        )
    items.append(
        "This program has no information on the retention period of the raw data, the access rights to them, and the "
        "purpose of their processing."
    )
    return Section("Data handling", (Points(tuple(items)),))


def searches(evidence: Evidence) -> Section:
    """Return the section on hyperparameter searches and other runs."""
    blocks: list[Block] = [Paragraph(others_text(evidence))]
    for study in evidence.studies:
        trials = f"{len(study.trials):,} trials on {corpus_title(study.development)}"
        blocks.append(Paragraph(f"Search “{study.name}”: {trials}. {study_cost(study)} {study_origin(study)}"))
    if not evidence.studies:
        blocks.append(
            Paragraph(
                f"This installation has no {'' if evidence.sees_all else 'published '}search for these settings. If "
                "other trials on the same sentences led to these settings, ε does not cover those trials."
            )
        )
    return Section("Hyperparameter searches", tuple(blocks))


def answered(evidence: Evidence) -> Section:
    """Return the section with the answers to the questions of NIST SP 800-226."""
    answers = nist_sp800_226.answers(evidence)
    lines = tuple((answer.section, answer.question, str(answer.held), answer.why) for answer in answers)
    table = Table(f"{len(answers)} questions", ("Section", "Question", "Status", "Answer"), lines)
    return Section(
        "Evaluation by NIST SP 800-226", (Paragraph(nist_sp800_226.SOURCE), Paragraph(nist_sp800_226.STATUS), table)
    )


def provenance(evidence: Evidence) -> Section:
    """Return the section on the provenance of the run, with the command that reruns it."""
    run, made, config = evidence.run, evidence.made, evidence.run.config
    facts = [
        ("Run", run.run_id),
        ("Computed", f"{made.created}, {made.wall_seconds:.0f} s on {made.machine}"),
        ("Engine", made.engine_version + (f" (outdated; current: {engine_version(config)})" if engine_of(run) else "")),
        ("Commit", made.commit),
        ("Corpus, SHA-256", made.corpus_checksum),
        ("Word vectors", made.vectors),
        ("Seed", f"{config.seed}" + ("" if made.noise_source == "seeded" else "; noise and sampling use secret keys")),
        ("Rerun", evidence.again or ("none in this installation" if evidence.sees_all else "none of this user")),
    ]
    secret = config.privacy.noise_source == "system" and config.privacy.private
    notes = [NEW_KEYS] if secret else []
    notes += [OTHER_ENGINE] if engine_of(run) else []
    blocks: list[Block] = [
        Facts("Provenance of the run", tuple(facts)),
        Code(NEW_RUN if secret else RERUN, f".venv/bin/{command_line(config)}"),
        *map(Paragraph, notes),
        Facts("Settings with an effect", settings(config)),
    ]
    return Section("Provenance", tuple(blocks))


def settings(config: SimulationConfig) -> tuple[tuple[str, str], ...]:
    """Return the settings that have an effect, each with its value."""
    without_effect = set(OF_KIND) - set(KINDS[config.tagger.name].fields)
    if not config.feature_set.custom_model and not config.feature_set.fitted:
        without_effect.add("language_model")
    if config.federation.central:
        without_effect |= set(fields_of("federation")) - {"clients"}
    if not config.platforms:
        without_effect |= {"shared", "masked", "together"}
    return tuple(
        (PARAMETERS[name].heading, setting_text(name, value))
        for name, value in config.flat().items()
        if name not in without_effect
    )


def setting_text(name: str, value: Any) -> str:
    """Return the value of a setting as text."""
    if name == "corpus":
        return corpus_title(value)
    if name == "delta":
        return delta_text(value)
    if name == "shared" and value is None:
        return "all tag-independent layers"
    return PARAMETERS[name].title(value)
