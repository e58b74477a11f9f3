"""Prints the tables of docs/results.md and the README's figures, from published runs and kept measurements:
``python -m benchmarks.results_table [--only TABLE] [--write]``."""

import argparse
import itertools
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks import audits, readme_figures
from benchmarks.cached_results import NOISE_MULTIPLIERS
from benchmarks.report import lessons_table, markdown, step_table, tagging_table
from engine.config import PrivacyConfig, SimulationConfig, TaggerConfig
from engine.experiments import diagnosis, recommended_settings
from engine.experiments.papers import fedner_2020, fedner_2020_scores, jana_biemann_2021
from engine.experiments.seed_aggregates import OverSeeds, older_text, over_seeds, seeds_text
from engine.experiments.statistics import ScoreSpread
from engine.records import Run
from engine.reports.fedner import all_time_text, verdict
from engine.reports.numbers import epsilon_text
from engine.reports.paper_tables import gain_lines
from engine.service import Application
from engine.settings import REPOSITORY, Settings
from engine.store import benchmark_results

MARKS = ("<!-- {}:begin -->", "<!-- {}:end -->")
FILES = ("docs/results.md", "README.md")
"""Where the tables stand, each between its two marks."""


def table() -> str:
    """Rows by corpus, tagger and noise multiplier; below them what the mark of an older engine means, where any of the
    published runs has it."""
    app, rows = Application.from_environment(), []
    titles = {info.name: info.title for info in app.corpora.all()}
    for run in sorted((run for run in app.queries.published() if _on_the_slider(run.config)), key=_place):
        final = run.final
        if final and final.test:
            config, test = run.config, final.test
            tagger = config.tagger.name.removeprefix("bilstm-").upper()
            names = (titles.get(config.corpus, config.corpus), tagger, f"{config.privacy.noise_multiplier:g}")
            scores = (f"{x:.3f}" for x in (test.precision, test.recall, test.f1))
            rows.append((*names, epsilon_text(final.privacy.epsilon), *scores, seeds_text([run])))
    head = ("corpus", "tagger", "σ", "ε", "precision", "recall", "F1", "seeds")
    return "\n\n".join(filter(None, (markdown(head, rows), older_text(app.queries.published()))))


def _on_the_slider(config: SimulationConfig) -> bool:
    """Whether only corpus, tagger and noise multiplier were chosen, of one of the paper's taggers."""
    if config.tagger.name not in jana_biemann_2021.TAGGERS:
        return False  # some of them do not read what is usual
    privacy = PrivacyConfig(noise_multiplier=config.privacy.noise_multiplier)
    usual = SimulationConfig(corpus=config.corpus, tagger=TaggerConfig(name=config.tagger.name), privacy=privacy)
    return config == usual and privacy.noise_multiplier in NOISE_MULTIPLIERS


def paper_tables() -> str:
    """Return the paper's rows: reported F1, ours in the same metric and at entity level, ε."""
    app = Application.from_environment()
    rows = []
    for cell in jana_biemann_2021.cells():
        found = jana_biemann_2021.measure(cell, app.queries.find).found
        ours = [each.f1.text if each else "" for each in (found.token, found.entity)]
        cost = "" if found.epsilon is None else epsilon_text(found.epsilon)
        number = cell.table.removeprefix("table")
        printed = f"{cell.published['f1']:.3f}"
        rows.append((number, jana_biemann_2021.setting_text(cell), printed, *ours, cost, found.seeds_text))
    head = ("table", "row", "printed F1", "same metric, ours", "whole names, ours", "ε, ours", "seeds")
    return markdown(head, rows)


def mends() -> str:
    """Return the runs of the paper's two open questions: settings, counterfactuals and fixes."""
    app = Application.from_environment()
    rows = []
    for each in (*diagnosis.crf(), *diagnosis.phases()):
        found = diagnosis.measure(each, app.queries.find)
        cost = "none" if each.kind == diagnosis.WHAT_IF else epsilon_text(found.epsilon) if found.epsilon else ""
        f1 = found.entity.f1.text if found.entity else ""
        rows.append((each.group, each.name, each.kind, f1, cost, found.seeds_text))
    return markdown(("setting of", "what", "kind", "whole names, F1", "ε", "seeds"), rows)


def ladder() -> str:
    """Return the steps from the paper to the recommended settings on CoNLL-2003."""
    app, corpus = Application.from_environment(), "conll2003"
    sentences, rows = app.corpora.train_sentences(corpus), []
    for number, rung in enumerate(recommended_settings.RUNGS):
        configs = [
            recommended_settings.recipe_step(number, corpus, sentences, epsilon)
            for epsilon in (*recommended_settings.EPSILONS, None)
        ]
        found = [over_seeds(config, app.queries.find) for config in configs]
        f1 = [each.entity.f1.text if each.entity else "" for each in found]
        rows.append((rung.name, *f1, _seeds(found)))
    names = [f"ε = {epsilon:g}" for epsilon in recommended_settings.EPSILONS]
    return markdown(("choice", *names, "not private", "seeds"), rows)


def federated() -> str:
    """Return the recommended settings in federated training on CoNLL-2003, below one client."""
    app, corpus = Application.from_environment(), "conll2003"
    sentences, rows = app.corpora.train_sentences(corpus), []
    one_hand = [
        recommended_settings.recommended_settings(corpus, sentences, epsilon)
        for epsilon in recommended_settings.EPSILONS
    ]
    kinds = [(1, 1, one_hand)]
    for clients, rounds in itertools.product(recommended_settings.CLIENTS, recommended_settings.ROUNDS):
        configs = [
            recommended_settings.federated(corpus, sentences, clients, rounds, epsilon)
            for epsilon in recommended_settings.EPSILONS
        ]
        kinds.append((clients, rounds, configs))
    for clients, rounds, configs in kinds:
        found = [over_seeds(config, app.queries.find) for config in configs]
        f1 = [each.entity.f1.text if each.entity else "" for each in found]
        rows.append((clients, rounds, *f1, _seeds(found)))
    return markdown(
        ("clients", "rounds", *(f"ε = {epsilon:g}" for epsilon in recommended_settings.EPSILONS), "seeds"), rows
    )


def medical() -> str:
    """FedNER's table and figures: strict and relaxed F1 on each platform, what was printed for ADE, and gains."""
    app = Application.from_environment()
    found = [fedner_2020_scores.measure(cell, app.queries.find) for cell in fedner_2020.cells()]
    said = []
    for table, title in fedner_2020.TABLES.items():
        by_method: dict[str, list[fedner_2020_scores.Row]] = {}
        for row in found:
            if row.cell.table == table and row.runs:
                by_method.setdefault(fedner_2020.what(row.cell), []).append(row)
        rows = []
        for method, platforms in by_method.items():
            by_platform = {row.cell.platform: row for row in platforms}
            scores = (
                _f1_text(getattr(by_platform[name], score)) if name in by_platform else ""
                for name in fedner_2020.PLATFORMS
                for score in ("strict", "relaxed")
            )
            printed = next((row.cell.published for row in platforms if row.cell.published), None)
            there = [f"{printed['strict_f1']:.3f} / {printed['relaxed_f1']:.3f}"] if printed else [""]
            seeds = ", ".join(dict.fromkeys(str(len(row.runs)) for row in platforms))
            rows.append((method, *scores, *there, seeds))
        head = [f"{name} {score}" for name in fedner_2020.PLATFORMS for score in ("strict", "relaxed")]
        if not rows:
            continue
        said += [f"**{title}**", markdown(("method", *head, "printed for ade", "seeds"), rows)]
        said.append("\n".join(f"- {line}" for line in verdict(found, table)))
    gains = [f"- {line}" for line in gain_lines(found)]
    said.append(all_time_text(found))
    return "\n\n".join([*said, *(["**What sharing is worth**, paired by seed", "\n".join(gains)] if gains else [])])


def _f1_text(found: ScoreSpread | None) -> str:
    return found.f1.text if found else ""


def _seeds(found: Iterable[OverSeeds]) -> str:
    """Of the cells of a row: what all of them have, or what each of the unlike ones has."""
    return "; ".join(dict.fromkeys(each.seeds_text for each in found if each.runs))


def speed() -> str:
    """Return the saved step benchmark, with ratios and the machine."""
    kept = benchmark_results.read_all(Settings.from_environment().published).get("step")
    return f"{step_table(kept.values)}\n\nOn {kept.machine}." if kept else "Not measured yet."


def classroom() -> str:
    """How long lessons and *Try a sentence* take to answer, each with its machine."""
    kept = benchmark_results.read_all(Settings.from_environment().published)
    said = []
    for name, draw in (("lessons", lessons_table), ("tagging", tagging_table)):
        if found := kept.get(name):
            said += [draw(found.values), f"On {found.machine} (`{found.command.removesuffix(' --save')}`)."]
    return "\n\n".join(said) or "Not measured yet."


def attacked() -> str:
    """Return the results of audits, with the claimed ε."""
    return audits.table(Application.from_environment())


def _place(run: Run) -> tuple[bool, bool, float]:
    config = run.config
    return (
        config.corpus != "synthetic",
        config.tagger.name != jana_biemann_2021.TAGGERS[0],
        config.privacy.noise_multiplier,
    )


TABLES = {
    "figures": readme_figures.table,
    "results": table,
    "paper": paper_tables,
    "mends": mends,
    "ladder": ladder,
    "federated": federated,
    "medical": medical,
    "audits": attacked,
    "speed": speed,
    "classroom": classroom,
}
"""Names of the marks → what is put between them."""


def written(text: str, tables: Mapping[str, str]) -> str:
    """Return a file's text with the tables put between their marks; a table whose marks it has not is left out."""
    for name, rows in tables.items():
        begin, end = (mark.format(name) for mark in MARKS)
        before, found, rest = text.partition(begin)
        if found:
            _, _, after = rest.partition(end)
            text = f"{before}{begin}\n{rows}\n{end}{after}"
    return text


def main() -> None:
    """Print the tables, or put them between their marks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=TABLES, help="one table; default: all")
    parser.add_argument(
        "--write",
        nargs="*",
        type=Path,
        metavar="FILE",
        help=f"put them between their marks in these files; default: {', '.join(FILES)}",
    )
    chosen = parser.parse_args()
    tables = {name: made() for name, made in TABLES.items() if chosen.only in (None, name)}
    if chosen.write is None:
        sys.stdout.write("\n\n".join(tables.values()) + "\n")
        return
    for file in chosen.write or [REPOSITORY / name for name in FILES]:
        file.write_text(written(file.read_text(encoding="utf-8"), tables), encoding="utf-8")


if __name__ == "__main__":
    main()
