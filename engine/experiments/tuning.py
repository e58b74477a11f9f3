"""Hyperparameter search at a given ε, on a public development corpus.

Each trial trains on a development corpus that is public or used with consent, with the noise of the private corpus: the
same batch size and number of steps, and σ for the size of the private corpus. That size is the only information used
from the private corpus. The best settings are then run on the private corpus, once for each seed. The search has no
privacy cost; only these runs are charged. Each releases a model, and their costs are composed.

If the development corpus contains sentences of the private one, the trials must be composed too, and each depends on
the scores of earlier ones. Then a privacy budget is fixed before the first trial. A filter admits a trial only if it
and the winner's runs are within the budget (:mod:`engine.privacy.rdp_filter`). Papernot and Steinke 2022 quantify the
loss without such accounting. Their remedy, a random number of independent trials, does not suit an adaptive search.
"""

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import corpus as corpora
from engine.config import SimulationConfig, with_noise
from engine.embeddings import contamination
from engine.errors import InvalidConfig
from engine.experiments import recommended_settings
from engine.privacy import accounting, rdp_filter
from engine.privacy.plan import PrivacyPlan
from engine.records import Study, Trial
from engine.settings import Settings
from engine.simulation.run import simulate
from engine.store import tuning_studies

if TYPE_CHECKING:
    import optuna

BATCHES = (256, 512, 1024, 2048, 4096)
EPOCHS = (5.0, 10.0, 20.0, 40.0)
AVERAGING = (0.0, 0.9, 0.95, 0.98)
TAGGERS = ("linear-crf", "mlp-crf")
MOST_TRIALS, MOST_SEEDS = 10_000, 1_000
FIRST_SEED = MOST_SEEDS
"""Seed of the first trial; the winner's runs have the seeds 0, 1, 2 …, so that no two runs have the same noise."""
RANDOM = "a random draw"
_FEATURES = recommended_settings.STEPS[recommended_settings.WITH_MINILM].changes["features"]
"""Features of all trials."""
_STARTUP = 8
"""Number of random trials before the sampler (TPE) uses the results."""


def existing_trials(
    name: str | None,
    epsilon: float,
    corpus: str,
    development: str,
    settings: Settings,
    *,
    budget: float | None = None,
    seeds: int = 0,
) -> Study:
    """Return the study with this name, stored or new.

    Args:
        name: name of the study, by default from the other arguments.
        epsilon: ε of each run on the private corpus.
        corpus: the private corpus.
        development: the development corpus.
        settings: where corpora and studies are.
        budget: ε of the privacy budget, if the development corpus contains sentences of the private one.
        seeds: number of the winner's runs that the budget must cover.

    Raises:
        InvalidConfig: for values that are not valid, or other aims than those of the stored study.
        CorpusError: if a corpus is missing or invalid.
    """
    label = name or f"{_short(corpus)}-epsilon-{epsilon:g}-on-{_short(development)}"
    if not re.fullmatch(r"[\w.+-]{1,100}", label):
        raise InvalidConfig(f"name={label!r}, expected letters, digits and . _ + - only")
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InvalidConfig(f"epsilon={epsilon!r}, expected a positive number")
    if not 0 <= seeds <= MOST_SEEDS:
        raise InvalidConfig(f"seeds={seeds:,}, expected 0 to {MOST_SEEDS:,}")
    study = _aims(label, epsilon, corpus, development, settings)
    stored = tuning_studies.read_all(settings.home).get(label)
    if stored:
        study = _same(stored, study)
    elif study.private:
        study = _with_budget(study, budget, seeds, settings)
    if study.budget != budget or (study.private and budget is None):
        raise InvalidConfig(_budget_trouble(study, budget))
    if study.private and seeds > study.seeds:
        raise InvalidConfig(f"seeds={seeds}, expected at most {study.seeds}, as the privacy budget was fixed for")
    words = f"--epsilon {epsilon:g} --corpus {corpus} --development {development}"
    more = f" --budget {budget:g} --seeds {study.seeds}" if budget is not None else ""
    return replace(study, command=f"python -m engine tune {words}{more}" + (f" --name {name}" if name else ""))


def _short(corpus: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", Path(corpus).stem)[:40]


def _aims(label: str, epsilon: float, corpus: str, development: str, settings: Settings) -> Study:
    private, public = (corpora.resolve(each, settings) for each in (corpus, development))
    learned = contamination.overlap(private, _FEATURES)
    if learned.breaks_privacy:
        raise InvalidConfig(f"corpus={corpus!r} cannot be used for a private search: {learned.privacy_text}")
    return Study(
        name=label,
        epsilon=epsilon,
        delta=SimulationConfig().privacy.delta,
        corpus=corpus,
        development=development,
        corpus_checksum=private.checksum,
        development_checksum=public.checksum,
        sentences=private.train_sentences,
        shared=contamination.in_both(private, public),
        first=RANDOM,
    )


def _same(known: Study, asked: Study) -> Study:
    """Return the stored study if it has the requested aims; a study without checksums gets them by corpus name.

    Raises:
        InvalidConfig: for other aims.
    """
    by_name, by_content = ("epsilon", "corpus", "development"), ("epsilon", "corpus_checksum", "development_checksum")

    def agree(fields: tuple[str, ...]) -> bool:
        return all(getattr(known, field) == getattr(asked, field) for field in fields)

    if not agree(by_content if known.corpus_checksum else by_name):
        changed = ", and one of these corpora has changed since" if agree(by_name) else ""
        aims = f"{known.corpus} at ε = {known.epsilon:g} on {known.development}{changed}"
        raise InvalidConfig(f"name={known.name!r} is a study of {aims}; choose another name")
    kept = ("corpus_checksum", "development_checksum", "sentences", "shared")
    return replace(known, **{field: getattr(asked, field) for field in kept})


def _with_budget(study: Study, budget: float | None, seeds: int, settings: Settings) -> Study:
    """Return the study with a privacy budget.

    The sizes and the recommended settings with MiniLM determine the filter's order.
    """
    if budget is None:
        return study
    if not (math.isfinite(budget) and budget > 0):
        raise InvalidConfig(f"budget={budget!r}, expected a positive number")
    default = recommended_settings.with_minilm(study.corpus, study.sentences, study.epsilon)
    order = rdp_filter.filter_for(budget, study.delta, _plans(default, study, settings)[0]).order
    return replace(study, budget=budget, order=order, seeds=seeds)


def _budget_trouble(study: Study, asked: float | None) -> str:
    if not study.private:
        return f"budget={asked:g}, expected none: {study.development} has no training sentence of {study.corpus}"
    if study.trials:
        was = "without a budget" if study.budget is None else f"with a budget of ε = {study.budget:g}"
        return f"budget={asked}: this search started {was}; the budget must be fixed before the first trial"
    return (
        f"budget={asked}, expected the ε of a privacy budget (--budget): {study.development} contains "
        f"{study.shared:,} of the {study.sentences:,} training sentences of {study.corpus}, so each trial has a "
        "privacy cost"
    )


def optimism_bias(study: Study, settings: Settings) -> str:
    """Return a warning on the trials' F1; empty unless the features were fitted on the validation sentences."""
    development = corpora.resolve(study.development, settings)
    return contamination.overlap(development, _FEATURES).optimism_bias("validation")


def search(
    study: Study, trials: int, settings: Settings, tell: Callable[[str, float], None] = lambda stage, share: None
) -> Iterator[Study]:
    """Run trials until the study has enough, or until the next one exceeds the privacy budget.

    The first trials are random, the others are proposed by Optuna's TPE sampler, which is deterministic given the
    earlier trials.

    Args:
        study: the study so far.
        trials: number of trials in total, including those of earlier calls.
        settings: where corpora and studies are.
        tell: receives the stage and the share of the trial that is done; it may raise to stop.

    Yields:
        The study after each trial, which is stored.

    Raises:
        InvalidConfig: for a number that is not valid, or a missing budget.
        CorpusError: if a corpus is missing or invalid.
        StoreError: if stored data cannot be read or written.
    """
    if not 1 <= trials <= MOST_TRIALS:
        raise InvalidConfig(f"trials={trials:,}, expected 1 to {MOST_TRIALS:,}")
    if study.private and study.budget is None:
        raise InvalidConfig(_budget_trouble(study, None))
    base = recommended_settings.with_minilm(
        study.corpus, corpora.resolve(study.corpus, settings).train_sentences, study.epsilon
    )
    while len(study.trials) < trials:
        number = len(study.trials)
        tell(f"trial {number + 1} of {trials}, computing σ", 0.0)
        study, ended = _tried(study, base, settings, partial(_tell, tell, number, trials))
        if ended:
            return
        tuning_studies.write(study, settings.home)
        yield study


def _tried(
    study: Study, base: SimulationConfig, settings: Settings, tell: Callable[[str, float], None]
) -> tuple[Study, bool]:
    """Run one more trial.

    Returns:
        The study with the trial and False; the unchanged study and True if the trial exceeds the privacy budget.
    """
    number = len(study.trials)
    chosen = _asked(study, study.sentences)
    config = priced(base, chosen, study.sentences, study.epsilon)
    if study.private and not _fits(study, config, base, settings):
        if not number:
            raise InvalidConfig(
                f"budget={study.budget:g} does not cover one trial and {study.seeds} runs of the winner at ε = "
                f"{study.epsilon:g} each"
            )
        return study, True
    started, f1, seed = time.monotonic(), 0.0, FIRST_SEED + number
    trial_config = replace(on_development(config, study, settings), seed=seed)
    for record in simulate(trial_config, settings, on_stage=tell):
        f1 = record.scores.f1
    trial = Trial(
        number=number,
        chosen=chosen,
        noise_multiplier=config.privacy.noise_multiplier,
        f1=f1,
        seconds=round(time.monotonic() - started, 1),
        seed=seed,
    )
    return _with(study, trial, base), False


def _tell(tell: Callable[[str, float], None], number: int, trials: int, stage: str, share: float) -> None:
    tell(f"trial {number + 1} of {trials}, {stage}", share)


def _asked(study: Study, examples: int) -> dict[str, Any]:
    """Return the settings of the next trial, by Optuna's TPE sampler after some random trials.

    The first trial does not use the recommended settings with MiniLM, whose learning rate was selected on the
    validation set of CoNLL-2003. Each call passes all trials to the sampler, with their number as its seed. An
    interrupted search therefore continues unchanged, and no state is stored besides the JSON that the dashboard reads.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = _space(examples)
    sampler = optuna.samplers.TPESampler(seed=len(study.trials), n_startup_trials=_STARTUP)
    history = optuna.create_study(direction="maximize", sampler=sampler)
    for trial in study.trials:
        history.add_trial(optuna.trial.create_trial(params=dict(trial.chosen), distributions=space, value=trial.f1))
    return {
        name: float(f"{value:.2g}") if isinstance(value, float) else value
        for name, value in history.ask(space).params.items()
    }


def _space(examples: int) -> dict[str, "optuna.distributions.BaseDistribution"]:
    """Return the search space, with batches of at most a third of the sentences."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    largest = max(1, examples // recommended_settings.SMALLEST_SHARE)
    return {
        "learning_rate": FloatDistribution(0.005, 0.5, log=True),
        "clip_norm": FloatDistribution(0.02, 1.0, log=True),
        "batch_size": CategoricalDistribution(sorted({min(size, largest) for size in BATCHES})),
        "epochs": CategoricalDistribution(EPOCHS),
        "window": IntDistribution(0, 2),
        "averaging": CategoricalDistribution(AVERAGING),
        "tagger": CategoricalDistribution(TAGGERS),
    }


def priced(base: SimulationConfig, chosen: Mapping[str, Any], examples: int, epsilon: float) -> SimulationConfig:
    """Return the configuration of a trial with its noise.

    Args:
        base: the fixed settings.
        chosen: fields that the search varies.
        examples: number of training sentences of the private corpus.
        epsilon: largest ε, which determines the smallest σ with two decimals.
    """
    config = SimulationConfig.from_flat({**base.flat(), **chosen})
    return with_noise(config, recommended_settings.noise(config, examples, epsilon))


def on_development(config: SimulationConfig, study: Study, settings: Settings) -> SimulationConfig:
    """Return the configuration with the same steps, batch size and relative noise on the development corpus.

    If the development corpus has fewer sentences than a batch, σ decreases with the batch, so that noise ÷ batch is
    unchanged.

    Args:
        config: configuration on the private corpus.
        study: the study.
        settings: where the corpora are.
    """
    sentences = corpora.resolve(study.development, settings).train_sentences
    plan = PrivacyPlan.from_config(config, corpora.resolve(study.corpus, settings).train_sentences)
    batch_size = min(plan.batch_size, sentences)
    return SimulationConfig.from_flat(
        config.flat()
        | {
            "corpus": study.development,
            "batch_size": batch_size,
            "epochs": plan.steps * batch_size / sentences,
            "noise_multiplier": config.privacy.noise_multiplier * batch_size / plan.batch_size,
        }
    )


def _plans(config: SimulationConfig, study: Study, settings: Settings) -> tuple[PrivacyPlan, PrivacyPlan]:
    """Return the privacy plans of a trial and of a winner's run, for a sentence that is in both corpora."""
    sentences = corpora.resolve(study.development, settings).train_sentences
    trial = PrivacyPlan.from_config(on_development(config, study, settings), sentences)
    return trial, PrivacyPlan.from_config(config, study.sentences)


def _recipes(study: Study, base: SimulationConfig) -> list[SimulationConfig]:
    return [
        SimulationConfig.from_flat({**base.flat(), **each.chosen, "noise_multiplier": each.noise_multiplier})
        for each in study.trials
    ]


def _fits(study: Study, config: SimulationConfig, base: SimulationConfig, settings: Settings) -> bool:
    """Return whether the filter admits a trial.

    The budget must cover all earlier trials, all runs of winners so far, this trial, and the runs of any trial that may
    win.
    """
    if study.budget is None or study.order is None:
        return False
    rdp = rdp_filter.RdpFilter(study.budget, study.delta, study.order)
    plans = [_plans(recipe, study, settings) for recipe in _recipes(study, base)]
    trial, run = _plans(config, study, settings)
    spent = sum(rdp.cost(plan) for plan, _ in plans)
    spent += sum(rdp.cost(plans[number][1], times) for number, times in study.released.items())
    reserve = max(rdp.cost(plan, study.seeds) for plan in (run, *(plan for _, plan in plans)))
    return rdp.admits(spent, rdp.cost(trial) + reserve)


def _with(study: Study, trial: Trial, base: SimulationConfig) -> Study:
    """Return the study with one more trial, its winner, and the cost of all trials on the private corpus itself."""
    study = replace(study, trials=(*study.trials, trial))
    recipes, winner = _recipes(study, base), study.winner
    plans = [PrivacyPlan.from_config(recipe, study.sentences) for recipe in recipes]
    return replace(
        study,
        best=recipes[winner.number] if winner else None,
        booked_basic=len(recipes) * study.epsilon,
        booked_composed=accounting.rdp_composition(plans, study.delta),
    )


def released(study: Study, seeds: int, settings: Settings) -> Study:
    """Charge runs of the winner before they start, and store the study; runs of an earlier winner stay charged.

    Args:
        study: the study.
        seeds: number of the winner's runs.
        settings: where corpora and studies are.

    Raises:
        CorpusError: if a corpus is missing or invalid.
        StoreError: if the study cannot be stored.
    """
    winner = study.winner
    if winner is None or study.best is None or not seeds:
        return study
    runs = {**study.released, winner.number: max(seeds, study.released.get(winner.number, 0))}
    recipes = _recipes(study, study.best)
    sentences = corpora.resolve(study.corpus, settings).train_sentences
    plans = [(PrivacyPlan.from_config(recipes[number], sentences), times) for number, times in runs.items()]
    study = replace(study, released=runs, released_epsilon=rdp_filter.pld_composition(plans, study.delta))
    tuning_studies.write(study, settings.home)
    return study
