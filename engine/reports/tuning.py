"""A hyperparameter search as text: its trials, its result and its privacy cost."""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.experiments.statistics import spread
from engine.records import (
    GOOD_PRACTICE,
    Run,
    Study,
    Trial,
)
from engine.reports.cli_command import command_line
from engine.reports.labels import corpus_title, field_text
from engine.reports.numbers import delta_text, epsilon_text


def trial_line(trial: Trial) -> str:
    """Return a trial as one line."""
    chosen = ", ".join(field_text(name, value) for name, value in trial.chosen.items())
    return f"{trial.number:3}  F1 {trial.f1:.4f}  {chosen}, σ {trial.noise_multiplier:g}, {trial.seconds:.0f} s"


def study_outcome(study: Study, runs: Sequence[Run]) -> dict[str, Any]:
    """Return a search for other programs.

    The fields give the winner, its scores on the corpus, the ε charged for its runs, and the cost of tuning on the
    corpus itself: (ε, δ) by basic composition, and ε at the study's δ if all trials had been fixed in advance.
    """
    winner = study.winner
    scores = [run.final.test.f1 for run in runs if run.final and run.final.test]
    f1 = spread(scores) if scores else None
    return {
        "name": study.name,
        "corpus": study.corpus,
        "epsilon": study.epsilon,
        "delta": study.delta,
        "development": study.development,
        "trials": len(study.trials),
        "winner": {
            "number": winner.number,
            "development_f1": winner.f1,
            "chosen": dict(winner.chosen),
            "noise_multiplier": winner.noise_multiplier,
            "command": command_line(study.best),
        }
        if winner and study.best
        else None,
        "test": {
            "f1_mean": f1.mean,
            "f1_sd": f1.sd,
            "runs": [run.run_id for run in runs],
        }
        if f1
        else None,
        "private": study.private,
        "shared_sentences": study.shared,
        "released": {
            "runs": {str(number): times for number, times in study.released.items()},
            "epsilon": study.released_epsilon,
        },
        "budget": {"epsilon": study.budget, "order": study.order, "seeds": study.seeds} if study.budget else None,
        "would_have_cost": {
            "basic": study.booked_basic,
            "basic_delta": study.booked_delta,
            "composed_if_fixed_beforehand": study.booked_composed,
        },
    }


def study_lines(study: Study, outcome: Mapping[str, Any]) -> list[str]:
    """Return a search as lines of text."""
    winner, test, lines = outcome["winner"], outcome["test"], []
    if winner:
        best = f"trial {winner['number']}, F1 {winner['development_f1']:.4f}"
        lines += [
            f"Best of {outcome['trials']:,} trials on {corpus_title(study.development)}: {best}",
            winner["command"],
        ]
    if test:
        f1 = f"F1 {test['f1_mean']:.4f} ± {test['f1_sd']:.4f}"
        lines += [f"On the test set of {corpus_title(study.corpus)}: {f1} over {len(test['runs'])} seeds"]
    return [*lines, study_cost(study), study_origin(study)]


def study_cost(study: Study) -> str:
    """Return sentences on the privacy cost of a search, and on its cost if run on the private corpus."""
    if study.private:
        return _cost_on_private_corpus(study)
    private = corpus_title(study.corpus)
    return (
        f"The trials used {corpus_title(study.development)} only, so they have no privacy cost for {private}. "
        f"{_cost_of_runs(study)} On {private} itself, the {len(study.trials):,} trials would have cost "
        f"{_would_have_cost(study)}."
    )


def _cost_on_private_corpus(study: Study) -> str:
    trials = f"The {len(study.trials):,} trials used {corpus_title(study.corpus)} itself"
    unprotected = "The validation set that selected the winner was not protected."
    if study.budget is None:
        return (
            f"{trials}, and no privacy budget was fixed in advance. They cost {_would_have_cost(study)}. {unprotected}"
        )
    return (
        f"{trials}. A privacy budget of (ε = {study.budget:g}, δ = {delta_text(study.delta)}) was fixed before the "
        f"first trial. It covers all trials and {study.seeds:,} runs of the winner: a Rényi filter of order "
        f"{study.order:g} admitted a trial only if its cost was within the remaining budget. {unprotected}"
    )


def _cost_of_runs(study: Study) -> str:
    runs = sum(study.released.values())
    if not runs:
        return (
            f"Each run of the winner on {corpus_title(study.corpus)} costs ε = {study.epsilon:g}; the ε of several "
            "runs must be composed."
        )
    who = "the winner" if len(study.released) == 1 else f"{len(study.released)} winners"
    together = f"ε = {epsilon_text(study.released_epsilon)} (δ = {delta_text(study.delta)})"
    if runs == 1:
        return f"One run of {who} on {corpus_title(study.corpus)} costs {together}."
    return (
        f"{runs:,} runs of {who} on {corpus_title(study.corpus)}, each with its own seed, are {runs:,} releases: "
        f"ε = {study.epsilon:g} each, composed {together}."
    )


def _would_have_cost(study: Study) -> str:
    """Return both costs, each with its δ and its assumption."""
    large = ""
    if study.sentences and study.booked_delta >= 1 / study.sentences:
        limit = delta_text(float(f"{1 / study.sentences:.2g}"))
        large = f" This is no meaningful guarantee: δ is not below 1/n = {limit}."
        if study.booked_basic > 10:
            large = f" This is no meaningful guarantee: ε is large, and δ is not below 1/n = {limit}."
    return (
        f"(ε = {study.booked_basic:g}, δ = {delta_text(study.booked_delta)}) by basic composition.{large} Rényi "
        f"accounting gives ε = {study.booked_composed:.3g} at δ = {delta_text(study.delta)}, but this ε is valid "
        "only if all settings are fixed in advance. Here each trial depended on earlier ones"
    )


def study_origin(study: Study) -> str:
    """Return sentences on the start of the search and on the data that influenced its search space."""
    rest = (
        "The fixed features, optimiser and loss and the search ranges follow the recommended settings with MiniLM. The "
        "learning rate of these settings was selected on CoNLL-2003's validation set, which no ε here covers"
    )
    if study.first == GOOD_PRACTICE:
        return f"The first trial uses the recommended settings with MiniLM. {rest}."
    return f"The first trial is {study.first}, not the recommended settings with MiniLM. {rest}."
