"""The search for a recipe at a given ε, on data that need no protection.

Each trial trains on a development corpus that is public or whose people agreed, with the noise that the private corpus
would need: its batches are as large, its steps as many, and σ is worked out from the size of the private corpus, which
is all that is asked of it. The recipe that does best there is then run on the private corpus once, so tuning costs
nothing of its privacy. What it would have cost on the private corpus itself is booked beside it: trials that look at
the same sentences add up (Papernot and Steinke 2022 on what is lost where that is forgotten).
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
from engine import recipes
from engine.config import SimulationConfig, with_noise
from engine.errors import InvalidConfig
from engine.privacy import accounting
from engine.privacy.plan import PrivacyPlan
from engine.records import Study, Trial
from engine.settings import Settings
from engine.simulation import simulate
from engine.store import studies

if TYPE_CHECKING:
    import optuna

BATCHES = (256, 512, 1024, 2048, 4096)
EPOCHS = (5.0, 10.0, 20.0, 40.0)
AVERAGING = (0.0, 0.9, 0.95, 0.98)
TAGGERS = ("linear-crf", "mlp-crf")
MOST_TRIALS = 10_000
_STARTUP = 8
"""Trials at random, before the search leans on what it has seen."""


def begun(name: str | None, epsilon: float, corpus: str, development: str, settings: Settings) -> Study:
    """The study of this name, as it stands or new. Raises InvalidConfig if one of that name has other aims, CorpusError
    if a corpus is not here."""
    label = name or f"{_short(corpus)}-epsilon-{epsilon:g}-on-{_short(development)}"
    if not re.fullmatch(r"[\w.+-]{1,100}", label):
        raise InvalidConfig(f"name={label!r}, expected letters, digits and . _ + - only")
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InvalidConfig(f"epsilon={epsilon!r}, expected a positive number")
    for each in (corpus, development):
        corpora.checksum(each, settings)
    words = f"--epsilon {epsilon:g} --corpus {corpus} --development {development}"
    study = Study(
        name=label,
        epsilon=epsilon,
        delta=SimulationConfig().privacy.delta,
        corpus=corpus,
        development=development,
        command=f"python -m engine tune {words}" + (f" --name {name}" if name else ""),
    )
    known = studies.read_all(settings.home).get(label)
    if known is None:
        return study
    if (known.epsilon, known.corpus, known.development) != (epsilon, corpus, development):
        aims = f"{known.corpus} at ε = {known.epsilon:g} on {known.development}"
        raise InvalidConfig(f"name={label!r} is a study of {aims}: choose another")
    return known


def _short(corpus: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", Path(corpus).stem)[:40]


def search(
    study: Study, trials: int, settings: Settings, tell: Callable[[str, float], None] = lambda stage, share: None
) -> Iterator[Study]:
    """Try recipes until there are ``trials``, those of earlier calls included; the study after each, which is stored.

    The first is good practice, the others are Optuna's choice (TPE), the same for the same trials before them. Raises
    InvalidConfig, CorpusError, StoreError.
    """
    if not 1 <= trials <= MOST_TRIALS:
        raise InvalidConfig(f"trials={trials:,}, expected 1 to {MOST_TRIALS:,}")
    examples = corpora.train_sentences(study.corpus, settings)
    base = recipes.good_practice(study.corpus, examples, study.epsilon)
    while len(study.trials) < trials:
        number = len(study.trials)
        tell(f"trial {number + 1} of {trials}, working out σ", 0.0)
        chosen = _asked(study, base, examples)
        config = priced(base, chosen, examples, study.epsilon)
        started, f1 = time.monotonic(), 0.0
        for record in simulate(
            on_development(config, study, settings), settings, on_stage=partial(_tell, tell, number, trials)
        ):
            f1 = record.scores.f1
        trial = Trial(
            number=number,
            chosen=chosen,
            noise_multiplier=config.privacy.noise_multiplier,
            f1=f1,
            seconds=round(time.monotonic() - started, 1),
        )
        study = _with(study, trial, base, examples)
        studies.write(study, settings.home)
        yield study


def _tell(tell: Callable[[str, float], None], number: int, trials: int, stage: str, share: float) -> None:
    tell(f"trial {number + 1} of {trials}, {stage}", share)


def _asked(study: Study, base: SimulationConfig, examples: int) -> dict[str, Any]:
    """What to try next: good practice first, then what Optuna's sampler (TPE) thinks best.

    It is told all trials anew each time, and its seed is their number: a search that was interrupted goes on as if it
    had not been, and the JSON that pages read is all that is stored.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = _space(examples)
    if not study.trials:
        flat = base.flat()
        return {name: flat[name] for name in space}
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

    largest = max(1, examples // recipes.SMALLEST_SHARE)
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
    return with_noise(config, recipes.noise(config, examples, epsilon))


def on_development(config: SimulationConfig, study: Study, settings: Settings) -> SimulationConfig:
    """The same steps on the development corpus: as many, with batches as large and the same noise in their mean.

    Where it has fewer sentences than a batch, σ falls with the batch, so that noise ÷ batch stays what it is.
    """
    here = corpora.train_sentences(study.development, settings)
    plan = PrivacyPlan.from_config(config, corpora.train_sentences(study.corpus, settings))
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


def _with(study: Study, trial: Trial, base: SimulationConfig, examples: int) -> Study:
    """The study with one trial more, its winner, and what all would have cost on the corpus itself."""
    study = replace(study, trials=(*study.trials, trial))
    every = [
        SimulationConfig.from_flat({**base.flat(), **each.chosen, "noise_multiplier": each.noise_multiplier})
        for each in study.trials
    ]
    winner = study.winner
    return replace(
        study,
        best=every[winner.number] if winner else None,
        booked_basic=len(every) * study.epsilon,
        booked_composed=accounting.composed([PrivacyPlan.from_config(each, examples) for each in every], study.delta),
    )
