"""A search in words: its trials, what it found, what looking cost."""

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
    """A recipe that was tried, as a line."""
    chosen = ", ".join(field_text(name, value) for name, value in trial.chosen.items())
    return f"{trial.number:3}  F1 {trial.f1:.4f}  {chosen}, σ {trial.noise_multiplier:g}, {trial.seconds:.0f} s"


def study_outcome(study: Study, runs: Sequence[Run]) -> dict[str, Any]:
    """A search for other programs: what won, what it gives on the corpus, what is booked for it, and what tuning there
    would have cost: (ε, δ) by basic composition, and ε at the study's δ if all trials had been fixed beforehand."""
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
    """The same for people."""
    winner, test, lines = outcome["winner"], outcome["test"], []
    if winner:
        best = f"trial {winner['number']}, F1 {winner['development_f1']:.4f}"
        lines += [f"Best of {outcome['trials']:,} on {corpus_title(study.development)}: {best}", winner["command"]]
    if test:
        f1 = f"F1 {test['f1_mean']:.4f} ± {test['f1_sd']:.4f}"
        lines += [f"On the test part of {corpus_title(study.corpus)}: {f1} over {len(test['runs'])} seeds"]
    return [*lines, study_cost(study), study_origin(study)]


def study_cost(study: Study) -> str:
    """What a search cost its corpus, and what it would have cost there, in sentences."""
    if study.private:
        return _cost_of_looking(study)
    private = corpus_title(study.corpus)
    return (
        f"The trials looked at {corpus_title(study.development)} alone: they cost {private} nothing. "
        f"{_cost_of_runs(study)} On {private} itself the {len(study.trials):,} trials would have cost "
        f"{_would_have_cost(study)}."
    )


def _cost_of_looking(study: Study) -> str:
    trials = f"These {len(study.trials):,} trials looked at {corpus_title(study.corpus)} itself"
    unprotected = "The validation part that chose among them had no protection at all."
    if study.budget is None:
        return f"{trials}, and no total was fixed beforehand: they cost {_would_have_cost(study)}. {unprotected}"
    return (
        f"{trials}. A total of (ε = {study.budget:g}, δ = {delta_text(study.delta)}) was fixed before the first; it "
        f"holds for all of them and for {study.seeds:,} runs of the winner, since each trial was admitted only if what "
        f"it costs still fitted (Rényi filter of order {study.order:g}). {unprotected}"
    )


def _cost_of_runs(study: Study) -> str:
    runs = sum(study.released.values())
    if not runs:
        return (
            f"Each run of the winner on {corpus_title(study.corpus)} costs ε = {study.epsilon:g}, and several add up."
        )
    who = "the winner" if len(study.released) == 1 else f"{len(study.released)} winners"
    together = f"ε = {epsilon_text(study.released_epsilon)} (δ = {delta_text(study.delta)})"
    if runs == 1:
        return f"One run of {who} on {corpus_title(study.corpus)} costs {together}."
    return (
        f"{runs:,} runs of {who} on {corpus_title(study.corpus)}, each with a seed of its own, are {runs:,} releases: "
        f"ε = {study.epsilon:g} each and {together} together."
    )


def _would_have_cost(study: Study) -> str:
    """Both figures, each with its δ and what it takes."""
    large = ""
    if study.sentences and study.booked_delta >= 1 / study.sentences:
        large = f", where δ is not below 1/n = {delta_text(float(f'{1 / study.sentences:.2g}'))} and promises little"
    return (
        f"(ε = {study.booked_basic:g}, δ = {delta_text(study.booked_delta)}) by basic composition{large}; "
        f"ε = {study.booked_composed:.3g} at δ = {delta_text(study.delta)} by Rényi accounting holds only for settings "
        "that were all fixed beforehand, and these followed from one another"
    )


def study_origin(study: Study) -> str:
    """Where the search started, and what it was told by data before."""
    rest = "features, optimiser and loss, which are not varied, and the range of the rest follow it"
    if study.first == GOOD_PRACTICE:
        return (
            "The first recipe is good practice, whose learning rate was chosen on CoNLL-2003's own validation part; "
            f"{rest}."
        )
    return (
        f"The first recipe is {study.first}, not good practice, whose learning rate was chosen on CoNLL-2003's own "
        f"validation part; but {rest}."
    )
