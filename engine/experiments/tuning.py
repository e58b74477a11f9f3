"""The search for a recipe at a given ε, on data that need no protection.

Each trial trains on a development corpus that is public or whose people agreed, with the noise that the private corpus
would need: its batches are as large, its steps as many, and σ is worked out from the size of the private corpus, which
is all that is asked of it. The recipe that does best there is then run on the private corpus, once for each seed. So
tuning costs nothing of its privacy, and what is booked are those runs: each releases a tagger, and they add up.

Where the development corpus holds sentences of the private one, trials add up too, and each follows from the scores of
those before it. Then a total is fixed before the first, and a filter admits a trial only if it and the winner's runs
fit (:mod:`engine.privacy.rdp_filter`). Papernot and Steinke 2022 say what is lost where that is forgotten; their own
cure, a random number of trials drawn independently, has no use for a search that learns from its trials.
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
"""Of the first trial; the runs of a winner have 0, 1, 2 …, so that no run has another's noise."""
RANDOM = "a random draw"
_STARTUP = 8
"""Trials at random, before the search leans on what it has seen."""


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
    """The study of this name, as it stands or new. budget: ε of the total, where the development corpus holds sentences
    of the private one; seeds: runs of the winner that it shall hold too. Raises InvalidConfig if the aims make no sense
    or are not those of the study of that name, CorpusError if a corpus is not here."""
    label = name or f"{_short(corpus)}-epsilon-{epsilon:g}-on-{_short(development)}"
    if not re.fullmatch(r"[\w.+-]{1,100}", label):
        raise InvalidConfig(f"name={label!r}, expected letters, digits and . _ + - only")
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InvalidConfig(f"epsilon={epsilon!r}, expected a positive number")
    if not 0 <= seeds <= MOST_SEEDS:
        raise InvalidConfig(f"seeds={seeds:,}, expected 0 to {MOST_SEEDS:,}")
    study = _aims(label, epsilon, corpus, development, settings)
    known = tuning_studies.read_all(settings.home).get(label)
    if known:
        study = _same(known, study)
    elif study.private:
        study = _with_budget(study, budget, seeds, settings)
    if study.budget != budget or (study.private and budget is None):
        raise InvalidConfig(_budget_trouble(study, budget))
    if study.private and seeds > study.seeds:
        raise InvalidConfig(f"seeds={seeds}, expected at most {study.seeds}: the total was fixed for so many")
    words = f"--epsilon {epsilon:g} --corpus {corpus} --development {development}"
    more = f" --budget {budget:g} --seeds {study.seeds}" if budget is not None else ""
    return replace(study, command=f"python -m engine tune {words}{more}" + (f" --name {name}" if name else ""))


def _short(corpus: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", Path(corpus).stem)[:40]


def _aims(label: str, epsilon: float, corpus: str, development: str, settings: Settings) -> Study:
    private, public = (corpora.resolve(each, settings) for each in (corpus, development))
    learned = contamination.overlap(private, recommended_settings.RUNGS[-1].changes["features"])
    if learned.breaks_privacy:
        raise InvalidConfig(f"corpus={corpus!r} cannot have a recipe with an ε: {learned.privacy_text}")
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
    """The known study, if it has the aims that are asked for; one without checksums gets them, by its corpora's names.
    Raises InvalidConfig."""
    by_name, by_content = ("epsilon", "corpus", "development"), ("epsilon", "corpus_checksum", "development_checksum")

    def agree(fields: tuple[str, ...]) -> bool:
        return all(getattr(known, field) == getattr(asked, field) for field in fields)

    if not agree(by_content if known.corpus_checksum else by_name):
        changed = ", and one of them was changed since" if agree(by_name) else ""
        aims = f"{known.corpus} at ε = {known.epsilon:g} on {known.development}{changed}"
        raise InvalidConfig(f"name={known.name!r} is a study of {aims}: choose another")
    kept = ("corpus_checksum", "development_checksum", "sentences", "shared")
    return replace(known, **{field: getattr(asked, field) for field in kept})


def _with_budget(study: Study, budget: float | None, seeds: int, settings: Settings) -> Study:
    """The order of the filter is fixed with the total, by sizes and the settings of good practice alone."""
    if budget is None:
        return study
    if not (math.isfinite(budget) and budget > 0):
        raise InvalidConfig(f"budget={budget!r}, expected a positive number")
    usual = recommended_settings.recommended_settings(study.corpus, study.sentences, study.epsilon)
    found = rdp_filter.filter_for(budget, study.delta, _plans(usual, study, settings)[0])
    return replace(study, budget=budget, order=found.order, seeds=seeds)


def _budget_trouble(study: Study, asked: float | None) -> str:
    if not study.private:
        return f"budget={asked:g}, expected none: {study.development} has no training sentence of {study.corpus}"
    if study.trials:
        was = "without a total" if study.budget is None else f"with a total of ε = {study.budget:g}"
        return f"budget={asked}: this search was begun {was}, which had to be fixed before its first trial"
    return (
        f"budget={asked}, expected ε of a total that is fixed beforehand (--budget): {study.development} holds "
        f"{study.shared:,} of the {study.sentences:,} training sentences of {study.corpus}, so each trial costs privacy"
    )


def optimism_bias(study: Study, settings: Settings) -> str:
    """What to know of the trials' F1: empty where the features were not fitted on the sentences that judge them."""
    development = corpora.resolve(study.development, settings)
    return contamination.overlap(development, recommended_settings.RUNGS[-1].changes["features"]).optimism_bias(
        "validation"
    )


def search(
    study: Study, trials: int, settings: Settings, tell: Callable[[str, float], None] = lambda stage, share: None
) -> Iterator[Study]:
    """Try recipes until there are ``trials``, those of earlier calls included, or until the next one does not fit the
    study's total; the study after each, which is stored.

    The first ones are drawn at random, the others are Optuna's choice (TPE), the same for the same trials before them.
    Raises InvalidConfig, CorpusError, StoreError.
    """
    if not 1 <= trials <= MOST_TRIALS:
        raise InvalidConfig(f"trials={trials:,}, expected 1 to {MOST_TRIALS:,}")
    if study.private and study.budget is None:
        raise InvalidConfig(_budget_trouble(study, None))
    base = recommended_settings.recommended_settings(
        study.corpus, corpora.resolve(study.corpus, settings).train_sentences, study.epsilon
    )
    while len(study.trials) < trials:
        number = len(study.trials)
        tell(f"trial {number + 1} of {trials}, working out σ", 0.0)
        study, ended = _tried(study, base, settings, partial(_tell, tell, number, trials))
        if ended:
            return
        tuning_studies.write(study, settings.home)
        yield study


def _tried(
    study: Study, base: SimulationConfig, settings: Settings, tell: Callable[[str, float], None]
) -> tuple[Study, bool]:
    """The study with one trial more; True, and the study as it was, if that trial does not fit its total."""
    number = len(study.trials)
    chosen = _asked(study, study.sentences)
    config = priced(base, chosen, study.sentences, study.epsilon)
    if study.private and not _fits(study, config, base, settings):
        if not number:
            raise InvalidConfig(
                f"budget={study.budget:g} does not hold one trial and {study.seeds} runs of the winner at ε = "
                f"{study.epsilon:g} each"
            )
        return study, True
    started, f1, seed = time.monotonic(), 0.0, FIRST_SEED + number
    here = replace(on_development(config, study, settings), seed=seed)
    for record in simulate(here, settings, on_stage=tell):
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
    """What to try next: what Optuna's sampler (TPE) thinks best, after some drawn at random. Not even the first is good
    practice, whose rates were chosen on CoNLL-2003's own validation part.

    It is told all trials anew each time, and its seed is their number: a search that was interrupted goes on as if it
    had not been, and the JSON that pages read is all that is stored.
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
    """What is varied, and how far; batches up to a third of the sentences."""
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
    """The recipe with these fields, and the smallest σ of two decimals whose ε on so many sentences is not larger."""
    config = SimulationConfig.from_flat({**base.flat(), **chosen})
    return with_noise(config, recommended_settings.noise(config, examples, epsilon))


def on_development(config: SimulationConfig, study: Study, settings: Settings) -> SimulationConfig:
    """The same steps on the development corpus: as many, with batches as large and the same noise in their mean.

    Where it has fewer sentences than a batch, σ falls with the batch, so that noise ÷ batch stays what it is.
    """
    here = corpora.resolve(study.development, settings).train_sentences
    plan = PrivacyPlan.from_config(config, corpora.resolve(study.corpus, settings).train_sentences)
    batch_size = min(plan.batch_size, here)
    return SimulationConfig.from_flat(
        config.flat()
        | {
            "corpus": study.development,
            "batch_size": batch_size,
            "epochs": plan.steps * batch_size / here,
            "noise_multiplier": config.privacy.noise_multiplier * batch_size / plan.batch_size,
        }
    )


def _plans(config: SimulationConfig, study: Study, settings: Settings) -> tuple[PrivacyPlan, PrivacyPlan]:
    """What a recipe does to a sentence that is in both corpora: as a trial, and as a run of the winner."""
    here = corpora.resolve(study.development, settings).train_sentences
    trial = PrivacyPlan.from_config(on_development(config, study, settings), here)
    return trial, PrivacyPlan.from_config(config, study.sentences)


def _recipes(study: Study, base: SimulationConfig) -> list[SimulationConfig]:
    return [
        SimulationConfig.from_flat({**base.flat(), **each.chosen, "noise_multiplier": each.noise_multiplier})
        for each in study.trials
    ]


def _fits(study: Study, config: SimulationConfig, base: SimulationConfig, settings: Settings) -> bool:
    """Whether the filter admits this trial: with all before it, all runs of winners so far, and room for the runs of
    whichever trial wins."""
    if study.budget is None or study.order is None:
        return False
    held = rdp_filter.RdpFilter(study.budget, study.delta, study.order)
    known = [_plans(each, study, settings) for each in _recipes(study, base)]
    trial, run = _plans(config, study, settings)
    spent = sum(held.cost(plan) for plan, _ in known)
    spent += sum(held.cost(known[number][1], times) for number, times in study.released.items())
    room = max(held.cost(plan, study.seeds) for plan in (run, *(plan for _, plan in known)))
    return held.admits(spent, held.cost(trial) + room)


def _with(study: Study, trial: Trial, base: SimulationConfig) -> Study:
    """The study with one trial more, its winner, and what all would have cost on the corpus itself."""
    study = replace(study, trials=(*study.trials, trial))
    every, winner = _recipes(study, base), study.winner
    plans = [PrivacyPlan.from_config(each, study.sentences) for each in every]
    return replace(
        study,
        best=every[winner.number] if winner else None,
        booked_basic=len(every) * study.epsilon,
        booked_composed=accounting.pld_composition(plans, study.delta),
    )


def released(study: Study, seeds: int, settings: Settings) -> Study:
    """The study with so many runs of its winner booked, before they are made; it is stored. Runs of an earlier winner
    stay booked. Raises CorpusError, StoreError."""
    winner = study.winner
    if winner is None or study.best is None or not seeds:
        return study
    runs = {**study.released, winner.number: max(seeds, study.released.get(winner.number, 0))}
    every = _recipes(study, study.best)
    sentences = corpora.resolve(study.corpus, settings).train_sentences
    plans = [(PrivacyPlan.from_config(every[number], sentences), times) for number, times in runs.items()]
    study = replace(study, released=runs, released_epsilon=rdp_filter.rdp_composition(plans, study.delta))
    tuning_studies.write(study, settings.home)
    return study
