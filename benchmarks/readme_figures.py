"""The six figures of the README, each with the command that gives it; :mod:`benchmarks.results_table` writes them."""

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
"""Sentences of one person, in the figure on what a person is promised."""
LACKING = ("noise missing on all weights", "10 %")
"""The fault whose discovery is a figure, as the measurement names it."""
Row = tuple[str, str, str, str]
"""What, the figure, how many seeds it is the mean of, and the command."""


def table() -> str:
    """Return a row for each figure; a figure whose runs or measurements are missing is left out."""
    rows = [*cost(), *scales(), *good_practice(), *promised(), *noise_check(), *speed()]
    return markdown(("what", "figure", "seeds", "command"), rows)


def cost() -> list[Row]:
    """Return F1 of the same tagger without and with privacy."""
    app = Application.from_environment()
    found = {
        each.name: over_seeds(each.config, app.queries.find) for each in diagnosis.crf(CORPUS) if each.group == "CRF"
    }
    plain, private = found["not private"], found["σ = 1"]
    if not plain.entity or not private.entity or private.epsilon is None:
        return []
    f1 = f"F1 {plain.entity.f1.text} without privacy, {private.entity.f1.text} at ε = {epsilon_text(private.epsilon)}"
    return [("A BiLSTM-CRF at the paper's settings, σ = 1", f1, private.seeds_text, _results("mends"))]


def scales() -> list[Row]:
    """One printed score, the same metric here, whole names, and what that metric gives to a tagger that finds none."""
    row = {"tagger": "bilstm-tddl", "noise_multiplier": 1.0}
    cell = next(cell for cell in jana_biemann_2021.cells(corpus=CORPUS) if cell.setting == row)
    found = jana_biemann_2021.measure(cell, Application.from_environment().queries.find).found
    if not found.entity or not found.token or not found.floor:
        return []
    ours = f"{found.token.f1.text} here, {found.floor.f1:.3f} if no name is found"
    f1 = f"F1 {cell.published['f1']:.3f} printed; in that metric {ours}; of whole names {found.entity.f1.text}"
    return [("A BiLSTM-TDDL at the paper's settings, σ = 1", f1, found.seeds_text, _results("paper"))]


def good_practice() -> list[Row]:
    """Return F1 of the recommended settings at ε = 1 and without privacy."""
    app = Application.from_environment()
    sentences, last = app.corpora.train_sentences(CORPUS), len(recommended_settings.RUNGS) - 1
    configs = [recommended_settings.recipe_step(last, CORPUS, sentences, epsilon) for epsilon in (1.0, None)]
    private, plain = (over_seeds(config, app.queries.find) for config in configs)
    if not private.entity or not plain.entity:
        return []
    f1 = f"F1 {plain.entity.f1.text} without privacy, {private.entity.f1.text} at ε = 1"
    return [("Good practice", f1, private.seeds_text, _results("ladder"))]


def promised() -> list[Row]:
    """Return ε for one sentence and for a person with several sentences."""
    config, sentences = SimulationConfig(corpus=CORPUS), Application.from_environment().corpora.train_sentences(CORPUS)
    plan, training = PrivacyPlan.from_config(config, sentences), config.training
    one, several = accounting.epsilon(plan, plan.steps), group_privacy.group_epsilon([(plan, plan.steps)], PEOPLE)
    figure = f"ε = {epsilon_text(one)} for one sentence, {epsilon_text(several)} for somebody named in {PEOPLE}"
    command = (
        f"`python -m engine epsilon --examples {sentences} --batch-size {training.batch_size} --epochs "
        f"{training.epochs:g} --noise-multiplier {config.privacy.noise_multiplier:g} --group-size {PEOPLE}`"
    )
    return [("The paper's settings, σ = 1", figure, "", command)]


def noise_check() -> list[Row]:
    """Return the step at which the noise check finds a fault."""
    kept = benchmark_results.read_all(Settings.from_environment().published).get("noise_check")
    if not kept:
        return []
    power = kept.values["power"]
    steps = next(each["steps"] for each in power["found"] if (each["what"], each["much"]) == LACKING)
    figure = f"a run that lacks 10 % of its noise is found at step {steps[0]} of {power['sizes'][0]['steps']:,}"
    return [("The noise check", f"{figure} (median of {power['runs']})", "", "`python -m benchmarks.noise_check`")]


def speed() -> list[Row]:
    """Return the time of a private step, compared with other libraries."""
    kept = benchmark_results.read_all(Settings.from_environment().published).get("step")
    if not kept:
        return []
    private, keras, peer = (kept.values[f"{name}_ms"] for name in ("ours_private", "keras", "tensorflow_privacy"))
    others = f"Keras without privacy {keras / private:.1f} times as long, TensorFlow Privacy {peer / private:.0f} times"
    here = f"{private:.1f} ms on {kept.machine}; {others}"
    return [("A private step, 32 sentences", here, "", "`python -m benchmarks.step`")]


def _results(name: str) -> str:
    return f"`python -m benchmarks.results_table --only {name}`"
