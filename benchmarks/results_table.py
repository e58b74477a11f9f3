"""Print the tables of docs/results.md and the README's figures, from published runs and saved measurements:
``python -m benchmarks.results_table [--only TABLE] [--write]``.
"""

import argparse
import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks import audits, readme_figures, recommended
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
"""Files with the tables, each between its two markers."""


def table() -> str:
    """Return rows by corpus, tagger and noise multiplier, and a note on outdated runs where there are any."""
    app, rows = Application.from_environment(), []
    titles = {info.name: info.title for info in app.corpora.all()}
    for run in sorted((run for run in app.queries.published() if _on_the_slider(run.config)), key=_order):
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
    """Return whether a configuration has a tagger of the paper, and defaults but for corpus and noise multiplier."""
    if config.tagger.name not in jana_biemann_2021.TAGGERS:
        return False  # some other taggers cannot read the default features
    privacy = PrivacyConfig(noise_multiplier=config.privacy.noise_multiplier)
    default = SimulationConfig(corpus=config.corpus, tagger=TaggerConfig(name=config.tagger.name), privacy=privacy)
    return config == default and privacy.noise_multiplier in NOISE_MULTIPLIERS


def paper_tables() -> str:
    """Return the paper's rows: reported F1, ours in the same metric and at entity level, ε."""
    app = Application.from_environment()
    rows = []
    for cell in jana_biemann_2021.cells():
        result = jana_biemann_2021.measure(cell, app.queries.find).found
        ours = [scores.f1.text if scores else "" for scores in (result.token, result.entity)]
        epsilon = "" if result.epsilon is None else epsilon_text(result.epsilon)
        number = cell.table.removeprefix("table")
        reported = f"{cell.published['f1']:.3f}"
        rows.append((number, jana_biemann_2021.setting_text(cell), reported, *ours, epsilon, result.seeds_text))
    head = ("table", "row", "reported F1", "token-level F1, ours", "entity-level F1, ours", "ε, ours", "seeds")
    return markdown(head, rows)


def open_questions() -> str:
    """Return the runs of the paper's two open questions: settings, counterfactuals and fixes."""
    app = Application.from_environment()
    rows = []
    for variant in (*diagnosis.crf(), *diagnosis.phases()):
        result = diagnosis.measure(variant, app.queries.find)
        epsilon = epsilon_text(result.epsilon) if result.epsilon else ""
        if not variant.config.privacy.private:
            epsilon = "∞"
        f1 = result.entity.f1.text if result.entity else ""
        rows.append((variant.group, variant.name, variant.kind, f1, epsilon, result.seeds_text))
    return markdown(("question", "variant", "kind", "entity-level F1", "ε", "seeds"), rows)


def ablation() -> str:
    """Return the steps from the paper to the recommended settings on CoNLL-2003."""
    app, corpus = Application.from_environment(), "conll2003"
    sentences, rows = app.corpora.train_sentences(corpus), []
    for number, step in enumerate(recommended_settings.STEPS):
        configs = [
            recommended_settings.recipe_step(number, corpus, sentences, epsilon)
            for epsilon in (*recommended_settings.EPSILONS, None)
        ]
        results = [over_seeds(config, app.queries.find) for config in configs]
        f1 = [result.entity.f1.text if result.entity else "" for result in results]
        rows.append((step.name, *f1, _seeds(results)))
    names = [f"ε = {epsilon:g}" for epsilon in recommended_settings.EPSILONS]
    return markdown(("change", *names, "not private", "seeds"), rows)


def federated() -> str:
    """Return the recommended settings with one client and in federated training on CoNLL-2003."""
    app, corpus = Application.from_environment(), "conll2003"
    sentences, rows = app.corpora.train_sentences(corpus), []
    last = len(recommended_settings.STEPS) - 1
    one_client = [
        recommended_settings.recipe_step(last, corpus, sentences, epsilon) for epsilon in recommended_settings.EPSILONS
    ]
    settings = [(1, 1, one_client)]
    for clients, rounds in itertools.product(recommended_settings.CLIENTS, recommended_settings.ROUNDS):
        configs = [
            recommended_settings.federated(corpus, sentences, clients, rounds, epsilon)
            for epsilon in recommended_settings.EPSILONS
        ]
        settings.append((clients, rounds, configs))
    for clients, rounds, configs in settings:
        results = [over_seeds(config, app.queries.find) for config in configs]
        f1 = [result.entity.f1.text if result.entity else "" for result in results]
        rows.append((clients, rounds, *f1, _seeds(results)))
    return markdown(
        ("clients", "rounds", *(f"ε = {epsilon:g}" for epsilon in recommended_settings.EPSILONS), "seeds"), rows
    )


def corpora() -> str:
    """Return F1 of the recommended settings at each ε on eight corpora."""
    app = Application.from_environment()
    titles = {info.name: info.title for info in app.corpora.all()}
    rows = [
        (titles[name], f"{app.corpora.train_sentences(name):,}", *_f1_of(configs, app))
        for name, configs in recommended.on_corpora(app.settings).items()
    ]
    return markdown(("corpus", "training sentences", *_epsilons()), rows)


def parts() -> str:
    """Return F1 of the recommended settings at each ε on parts of CoNLL-2003."""
    app = Application.from_environment()
    rows = [(f"{size:,}", *_f1_of(configs, app)) for size, configs in recommended.on_parts(app.settings).items()]
    return markdown(("training sentences", *_epsilons()), rows)


def _epsilons() -> list[str]:
    return [*("not private" if each is None else f"ε = {each:g}" for each in recommended.EPSILONS), "seeds"]


def _f1_of(configs: Sequence[SimulationConfig], app: Application) -> list[str]:
    """Return F1 over the seeds of each configuration, and the number of seeds."""
    results = [over_seeds(config, app.queries.find) for config in configs]
    return [*(result.entity.f1.text if result.entity else "" for result in results), _seeds(results)]


def medical() -> str:
    """Return FedNER's table and figures: strict and relaxed F1 on each silo, reported F1 on ADE, and gains."""
    app = Application.from_environment()
    results = [fedner_2020_scores.measure(cell, app.queries.find) for cell in fedner_2020.cells()]
    parts = []
    for table, title in fedner_2020.TABLES.items():
        by_method: dict[str, list[fedner_2020_scores.Row]] = {}
        for row in results:
            if row.cell.table == table and row.runs:
                by_method.setdefault(fedner_2020.title(fedner_2020.what(row.cell)), []).append(row)
        rows = []
        for method, platforms in by_method.items():
            by_platform = {row.cell.platform: row for row in platforms}
            scores = (
                _f1_text(getattr(by_platform[name], score)) if name in by_platform else ""
                for name in fedner_2020.PLATFORMS
                for score in ("strict", "relaxed")
            )
            reported = next((row.cell.published for row in platforms if row.cell.published), None)
            paper = f"{reported['strict_f1']:.3f} / {reported['relaxed_f1']:.3f}" if reported else ""
            seeds = ", ".join(dict.fromkeys(str(len(row.runs)) for row in platforms))
            rows.append((method, *scores, paper, seeds))
        head = [f"{name} {score}" for name in fedner_2020.PLATFORMS for score in ("strict", "relaxed")]
        if not rows:
            continue
        parts += [f"**{title}**", markdown(("method", *head, "reported for ade", "seeds"), rows)]
        parts.append("\n".join(f"- {line}" for line in verdict(results, table)))
    gains = [f"- {line}" for line in gain_lines(results)]
    parts.append(all_time_text(results))
    return "\n\n".join([*parts, *(["**Gain of sharing**, paired by seed", "\n".join(gains)] if gains else [])])


def _f1_text(scores: ScoreSpread | None) -> str:
    return scores.f1.text if scores else ""


def _seeds(results: Iterable[OverSeeds]) -> str:
    """Return the seeds of a row: one text if all cells have the same, else each different text."""
    return "; ".join(dict.fromkeys(result.seeds_text for result in results if result.runs))


def speed() -> str:
    """Return the saved step benchmark, with ratios and the machine."""
    kept = benchmark_results.read_all(Settings.from_environment().published).get("step")
    return f"{step_table(kept.values)}\n\nOn {kept.machine}." if kept else "Not measured yet."


def classroom() -> str:
    """Return the response times of the lessons and of the page *Tag text*, each with its machine."""
    kept = benchmark_results.read_all(Settings.from_environment().published)
    parts = []
    for name, draw in (("lessons", lessons_table), ("tagging", tagging_table)):
        if measurement := kept.get(name):
            command = measurement.command.removesuffix(" --save")
            parts += [draw(measurement.values), f"On {measurement.machine} (`{command}`)."]
    return "\n\n".join(parts) or "Not measured yet."


def attacked() -> str:
    """Return the results of audits, with the claimed ε."""
    return audits.table(Application.from_environment())


def _order(run: Run) -> tuple[bool, bool, float]:
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
    "open-questions": open_questions,
    "ladder": ablation,
    "corpora": corpora,
    "parts": parts,
    "federated": federated,
    "medical": medical,
    "audits": attacked,
    "speed": speed,
    "classroom": classroom,
}
"""Functions that return the tables, by the name in the markers."""


def written(text: str, tables: Mapping[str, str]) -> str:
    """Return a file's text with the tables inserted between their markers; tables without markers are left out."""
    for name, rows in tables.items():
        begin, end = (mark.format(name) for mark in MARKS)
        before, marker, rest = text.partition(begin)
        if marker:
            _, _, after = rest.partition(end)
            text = f"{before}{begin}\n{rows}\n{end}{after}"
    return text


def main() -> None:
    """Print the tables, or write them between their markers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=TABLES, help="one table; default: all")
    parser.add_argument(
        "--write",
        nargs="*",
        type=Path,
        metavar="FILE",
        help=f"write them between their markers in these files; default: {', '.join(FILES)}",
    )
    chosen = parser.parse_args()
    tables = {name: make() for name, make in TABLES.items() if chosen.only in (None, name)}
    if chosen.write is None:
        sys.stdout.write("\n\n".join(tables.values()) + "\n")
        return
    for file in chosen.write or [REPOSITORY / name for name in FILES]:
        file.write_text(written(file.read_text(encoding="utf-8"), tables), encoding="utf-8")


if __name__ == "__main__":
    main()
