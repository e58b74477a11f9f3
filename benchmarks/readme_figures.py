"""The six figures of the README, each with its command; :mod:`benchmarks.results_table` writes them."""

from benchmarks.report import markdown
from engine.config import SimulationConfig
from engine.experiments import diagnosis, recommended_settings
from engine.experiments.papers import jana_biemann_2021
from engine.experiments.seed_aggregates import over_seeds
from engine.privacy import accounting, group_privacy
from engine.privacy.plan import PrivacyPlan
from engine.reports.numbers import epsilon_text
from engine.service import Application
from engine.settings import Settings
from engine.store import benchmark_results

CORPUS = "conll2003"
PEOPLE = 10
"""Sentences of one person, in the figure on group privacy."""
LACKING = ("noise missing on all weights", "10 %")
"""The fault in the figure on the noise check, as the measurement names it."""
Row = tuple[str, str, str, str]
"""Title, figure, number of seeds of a mean, and command."""


def table() -> str:
    """Return a row for each figure; a figure whose runs or measurements are missing is left out."""
    rows = [*privacy_cost(), *metrics(), *recommended(), *group_guarantee(), *noise_check(), *speed()]
    return markdown(("result", "value", "seeds", "command"), rows)


def privacy_cost() -> list[Row]:
    """Return F1 of the same tagger without and with privacy."""
    app = Application.from_environment()
    variants = [variant for variant in diagnosis.crf(CORPUS) if variant.group == "CRF"]
    by_name = {variant.name: over_seeds(variant.config, app.queries.find) for variant in variants}
    plain, private = by_name["no clipping, no noise"], by_name["σ = 1"]
    if not plain.entity or not private.entity or private.epsilon is None:
        return []
    f1 = f"F1 {plain.entity.f1.text} without noise, {private.entity.f1.text} at ε = {epsilon_text(private.epsilon)}"
    return [("BiLSTM-CRF at the paper settings, σ = 1", f1, private.seeds_text, _results("open-questions"))]


def metrics() -> list[Row]:
    """Return a reported F1, ours in the same metric and at entity level, and that of a tagger that marks no entity."""
    row = {"tagger": "bilstm-tddl", "noise_multiplier": 1.0}
    cell = next(cell for cell in jana_biemann_2021.cells(corpus=CORPUS) if cell.setting == row)
    result = jana_biemann_2021.measure(cell, Application.from_environment().queries.find).found
    if not result.entity or not result.token or not result.floor:
        return []
    ours = f"{result.token.f1.text} here, {result.floor.f1:.3f} for a tagger that finds no entity"
    reported = f"F1 {cell.published['f1']:.3f} reported, most likely token-level"
    f1 = f"{reported}; token-level F1 {ours}; entity-level F1 {result.entity.f1.text}"
    return [("BiLSTM-TDDL at the paper settings, σ = 1", f1, result.seeds_text, _results("paper"))]


def recommended() -> list[Row]:
    """Return F1 of the recommended settings, also with MiniLM, at ε = 1 and without privacy."""
    app, rows = Application.from_environment(), []
    sentences = app.corpora.train_sentences(CORPUS)
    for title, number in (
        ("Recommended settings", len(recommended_settings.STEPS) - 1),
        ("Recommended settings with MiniLM, a smaller language model", recommended_settings.WITH_MINILM),
    ):
        configs = [recommended_settings.recipe_step(number, CORPUS, sentences, epsilon) for epsilon in (1.0, None)]
        private, plain = (over_seeds(config, app.queries.find) for config in configs)
        if private.entity and plain.entity:
            f1 = f"F1 {plain.entity.f1.text} without noise, {private.entity.f1.text} at ε = 1"
            rows.append((title, f1, private.seeds_text, _results("ladder")))
    return rows


def group_guarantee() -> list[Row]:
    """Return ε for one sentence and for a person with several sentences (group privacy)."""
    config, sentences = SimulationConfig(corpus=CORPUS), Application.from_environment().corpora.train_sentences(CORPUS)
    plan, training = PrivacyPlan.from_config(config, sentences), config.training
    one, several = accounting.epsilon(plan, plan.steps), group_privacy.group_epsilon([(plan, plan.steps)], PEOPLE)
    figure = f"ε = {epsilon_text(one)} for one sentence, {epsilon_text(several)} for a person in {PEOPLE} sentences"
    command = (
        f"`python -m engine epsilon --examples {sentences} --batch-size {training.batch_size} --epochs "
        f"{training.epochs:g} --noise-multiplier {config.privacy.noise_multiplier:g} --group-size {PEOPLE}`"
    )
    return [("Paper settings, σ = 1", figure, "", command)]


def noise_check() -> list[Row]:
    """Return the step at which a run with missing noise fails the noise check."""
    kept = benchmark_results.read_all(Settings.from_environment().published).get("noise_check")
    if not kept:
        return []
    power = kept.values["power"]
    steps = next(result["steps"] for result in power["found"] if (result["what"], result["much"]) == LACKING)
    figure = f"a run without 10 % of its noise fails at step {steps[0]} of {power['sizes'][0]['steps']:,}"
    return [("Noise check", f"{figure} (median of {power['runs']})", "", "`python -m benchmarks.noise_check`")]


def speed() -> list[Row]:
    """Return the time of a private step, compared with other libraries."""
    kept = benchmark_results.read_all(Settings.from_environment().published).get("step")
    if not kept:
        return []
    private, keras, peer = (kept.values[f"{name}_ms"] for name in ("ours_private", "keras", "tensorflow_privacy"))
    others = (
        f"Keras without privacy takes {keras / private:.1f} times as long, TensorFlow Privacy "
        f"{peer / private:.0f} times"
    )
    figure = f"{private:.1f} ms on {kept.machine}; {others}"
    return [("One DP-SGD step, 32 sentences", figure, "", "`python -m benchmarks.step`")]


def _results(name: str) -> str:
    return f"`python -m benchmarks.results_table --only {name}`"
