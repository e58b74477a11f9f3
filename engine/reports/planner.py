"""A recommendation of the planner as sentences, rows and plain fields."""

import math
from collections.abc import Iterable
from typing import Any

from engine.config.mechanism_registry import adjacency_text
from engine.experiments.planner.evidence import Setting
from engine.experiments.planner.next_runs import AT_LIMIT, BEYOND, FROM_CURVE, MORE_SEEDS
from engine.experiments.planner.ranking import EvidenceLevel, Judged, Reading
from engine.experiments.planner.recommendation import NextRun, Recommendation
from engine.experiments.planner.targets import Measure, Target, Threshold
from engine.experiments.seed_aggregates import seeds_text
from engine.reports.cli_command import command_line
from engine.reports.labels import corpus_title
from engine.reports.numbers import delta_text, epsilon_text

GRADES = {
    EvidenceLevel.SIGNIFICANT: "significant",
    EvidenceLevel.MEAN_ABOVE: "mean above",
    EvidenceLevel.SINGLE_RUN: "single run",
    EvidenceLevel.POSSIBLE: "not excluded",
    EvidenceLevel.BELOW: "no",
}
"""Evidence that a setting reaches the target, as displayed."""
_FOUND = {
    EvidenceLevel.SIGNIFICANT: "whole 95 % CI over seeds above the target",
    EvidenceLevel.MEAN_ABOVE: "mean above the target",
    EvidenceLevel.SINGLE_RUN: "a single run above the target",
}
"""Evidence that a target is reached, in the answer."""
GRADE_VALUES = {
    EvidenceLevel.SIGNIFICANT: "surely",
    EvidenceLevel.MEAN_ABOVE: "probably",
    EvidenceLevel.SINGLE_RUN: "in its only run",
    EvidenceLevel.POSSIBLE: "not excluded",
    EvidenceLevel.BELOW: "no",
}
"""Values of the field ``reached`` in CSV and JSON, which other programs parse."""
OPTIMISTIC = (
    "The scores of the best configurations are optimistic, because these were selected on one test set. A new run on "
    "other sentences gives a slightly lower score on average."
)
COSTS = (
    "Each ε covers one run. If you train several models on private data and select by their scores, you must compose "
    "the ε of all runs. The evaluation sentences are not protected."
)
_SCORES = {"f1": "F1", "precision": "precision", "recall": "recall"}
_WHY = {
    MORE_SEEDS: "more seeds for a configuration with inconclusive runs",
    FROM_CURVE: "the fitted curve reaches the target at this ε",
    BEYOND: "the same model reaches the target without noise, and every measured ε is smaller",
    AT_LIMIT: "no run exists at this ε, the largest within the limit, and the 95 % band does not exclude the target",
}


def measure_text(measure: Measure) -> str:
    """Return the name of a score: "F1", "recall of PER"."""
    return _SCORES[measure.score] + (f" of {measure.kind}" if measure.kind else "")


def needed_text(target: Target) -> str:
    """Return the required scores: "F1 ≥ 0.8 and recall of PER ≥ 0.9"; empty where there are none."""
    parts = [f"{measure_text(threshold.measure)} ≥ {threshold.at_least:g}" for threshold in target.thresholds]
    return " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def limits_text(target: Target) -> str:
    """Return the limits, to follow other words: " at ε ≤ 1 and in at most 60 s"; empty where there are none."""
    epsilon = f"at ε ≤ {epsilon_text(target.epsilon)}" if target.epsilon is not None else ""
    seconds = f"in at most {target.seconds:g} s" if target.seconds is not None else ""
    limits = " and ".join(filter(None, (epsilon, seconds)))
    return f" {limits}" if limits else ""


def answer_text(plan: Recommendation) -> str:
    """Return the answer as one sentence."""
    ranking, target = plan.answer, plan.target
    needed, limits = needed_text(target), limits_text(target)
    if not plan.evidence.settings:
        return f"No finished run on {corpus_title(target.corpus)} can be compared here yet."
    if not needed:
        if not ranking.best:
            return f"None of the {plan.evidence.runs:,} runs is within the limits:{limits}."
        top = max(ranking.best, key=lambda judged: judged.margin)
        return f"Highest score{limits}: F1 {top.readings[0].spread.text}, at ε = {_epsilon(top)}."
    if ranking.best:
        parts: list[tuple[str, float]] = []
        for grade in (EvidenceLevel.SIGNIFICANT, EvidenceLevel.MEAN_ABOVE, EvidenceLevel.SINGLE_RUN):
            first = next((judged for judged in ranking.best if judged.grade == grade), None)
            if first and (not parts or first.setting.epsilon < parts[-1][1]):
                parts.append((f"at ε = {_epsilon(first)} ({_FOUND[grade]})", first.setting.epsilon))
        return f"{needed} can be reached{limits}: {', '.join(text for text, _ in parts)}."
    return _none(plan, f"{needed}{limits}")


def _none(plan: Recommendation, target: str) -> str:
    """Return the sentence for a target that no private setting reaches."""
    ceiling = plan.answer.ceiling
    open_reached = ceiling is not None and ceiling.grade.reached
    private = sum(len(judged.setting.done) for judged in plan.answer.compared)
    if not private:
        reached = "reached" if open_reached else "not reached"
        return f"None of the {plan.evidence.runs:,} runs has noise. Without noise, {target} is {reached}."
    if open_reached and not plan.answer.beyond:
        return f"None of the {private:,} private runs reaches {target}; without noise it is reached."
    return f"None of the {plan.evidence.runs:,} runs reaches {target}: no configuration has a mean that high."


def explanations(plan: Recommendation) -> list[str]:
    """Return sentences that explain the answer: the nearest setting, an alternative, and the next run."""
    ranking, sentences = plan.answer, list[str]()
    if not plan.target.thresholds:
        return sentences
    if ranking.nearest:
        sentences.append(f"Nearest configuration, at ε = {_epsilon(ranking.nearest)}: {_misses(ranking.nearest)}.")
    elif not ranking.best and plan.evidence.settings:
        sentences += ["No private configuration is within these limits."] if ranking.compared else []
    if ranking.beyond:
        beyond = ranking.beyond
        sentences.append(
            f"Outside these limits the target is reached at ε = {_epsilon(beyond)} ({GRADES[beyond.grade]}), "
            f"{beyond.setting.seconds:.0f} s per run."
        )
    elif not ranking.best:
        sentences += _ceiling(plan)
    if plan.next_runs:
        sentences.append(f"Cheapest next step: {next_text(plan.next_runs[0])}.")
    elif plan.unpriced:
        sentences.append(
            "No next run can be recommended: its noise depends on the corpus, which is not on this machine."
        )
    elif not ranking.best and plan.evidence.settings:
        sentences.append("The measurements suggest no next run. Try other taggers or features.")
    return sentences


def next_text(run: NextRun) -> str:
    """Return a next run in words."""
    candidate = run.candidate
    number = "one run" if candidate.runs == 1 else f"{candidate.runs} runs"
    seconds = "" if run.seconds is None else f", about {run.seconds:,.0f} s in total"
    measured = candidate.like.adjacency
    other = "" if run.adjacency == measured else f"; the measured runs have another one: {measured}"
    return (
        f"{number} with σ = {run.config.privacy.noise_multiplier:g}, ε = {epsilon_text(run.epsilon)} each{seconds} "
        f"(reason: {_WHY[candidate.rule]}; adjacency: {run.adjacency}{other})"
    )


def adjacency_note(plan: Recommendation) -> str:
    """Return the adjacency under which all compared values of ε hold; empty without noise."""
    names = {done.last.privacy.neighbouring for judged in plan.answer.compared for done in judged.setting.done}
    return f"Adjacency under which every ε of these runs holds: {adjacency_text(names)}." if names else ""


def left_out_lines(plan: Recommendation) -> list[str]:
    """Return one phrase for each reason for which runs were excluded."""
    return [f"{number:,} {'run' if number == 1 else 'runs'} {reason}" for reason, number in _left_out(plan).items()]


def chance_text(plan: Recommendation) -> str:
    """Return an explanation of the intervals and of the evidence levels."""
    single = sum(len(setting.done) == 1 for setting in plan.evidence.settings)
    text = (
        "Intervals in parentheses are 95 % confidence intervals of the mean over seeds (Student's t), on this test "
        "set. The column *95 % CI* reflects the choice of test sentences. “Significant”: the whole interval in "
        "parentheses is above the target. “Mean above”: only the mean is."
    )
    if single:
        number = len(plan.evidence.settings)
        several = f"All {number:,}" if single == number else f"{single:,} of all {number:,}"
        text += (
            f" {several} configurations, with or without noise, have a single run each: their seed variance is unknown."
        )
    return text


def error_text(plan: Recommendation) -> str:
    """Return the prediction error of the fitted curves."""
    if plan.error is None:
        return "The prediction error of the fits is not available: no family of configurations has three values of ε."
    return (
        f"Leave-one-out error of the fits (root mean square over {plan.error.number:,} configurations): "
        f"{plan.error.typical:.3f}."
    )


def rows(judged: Iterable[Judged]) -> list[dict[str, Any]]:
    """Return settings for CSV and JSON; an infinite ε is None."""
    return [
        {
            "epsilon": _finite(one.setting.epsilon),
            "reached": GRADE_VALUES[one.grade] if one.thresholds else None,
            "runs_that_reach_it": one.hits,
            "seeds": len(one.setting.done),
            "seconds": one.setting.seconds,
            **{key: value for reading in one.readings for key, value in _reading(reading).items()},
            "runs": [done.run.run_id for done in one.setting.done],
            "command": command_line(one.setting.config),
            "neighbouring": one.setting.adjacency or None,
        }
        for one in judged
    ]


def plan_fields(plan: Recommendation) -> dict[str, Any]:
    """Return a recommendation for other programs; an infinite ε is null."""
    ranking, target = plan.answer, plan.target
    return {
        "corpus": target.corpus,
        "target": {
            "thresholds": [_threshold(each) for each in target.thresholds],
            "epsilon": target.epsilon,
            "seconds": target.seconds,
            "delta": target.delta,
            "clients": target.clients,
        },
        "answer": answer_text(plan),
        "explanations": explanations(plan),
        "settings": rows(ranking.best),
        "reached": ranking.reached,
        "nearest": next(iter(rows([ranking.nearest] if ranking.nearest else [])), None),
        "beyond": next(iter(rows([ranking.beyond] if ranking.beyond else [])), None),
        "without_noise": next(iter(rows([ranking.ceiling] if ranking.ceiling else [])), None),
        "next_runs": [
            {
                "rule": each.candidate.rule,
                "runs": each.candidate.runs,
                "epsilon": each.epsilon,
                "neighbouring": each.adjacency,
                "seconds": each.seconds,
                "command": command_line(each.config),
            }
            for each in plan.next_runs
        ],
        "compared": {"settings": len(plan.evidence.settings), "runs": plan.evidence.runs},
        "left_out": _left_out(plan),
        "curves": [
            {
                "settings": command_line(family.config),
                "score": measure_text(target.main),
                "epsilon": curve.epsilons,
                "fitted": curve.fitted,
                "band": [{"epsilon": at, "low": each.low, "high": each.high} for at, each in curve.band],
            }
            for family, curve in plan.lines
        ],
        "fit_error": {"root_mean_square": plan.error.typical, "settings": plan.error.number} if plan.error else None,
    }


def plan_text(plan: Recommendation) -> str:
    """Return a recommendation for a shell."""
    lines = [answer_text(plan), *explanations(plan)]
    for judged in plan.answer.best:
        scores = ", ".join(f"{measure_text(reading.measure)} {reading_text(reading)}" for reading in judged.readings)
        holds = f"δ = {delta_text(plan.target.delta)}, adjacency: {judged.setting.adjacency}"
        cost = f"ε = {_epsilon(judged)} ({holds}), {judged.setting.seconds:.0f} s per run"
        grade = (
            f"{GRADES[judged.grade]}, {judged.hits:,} of {len(judged.setting.done):,} runs reach it"
            if judged.thresholds
            else ""
        )
        lines += [
            "",
            f"{cost}: {scores}; {'; '.join(filter(None, (grade, f'seeds: {seeds(judged.setting)}')))}",
            f"  {command_line(judged.setting.config)}",
        ]
    if plan.next_runs:
        lines += ["", "Next run:", *(f"  {command_line(run.config)}" for run in plan.next_runs[:1])]
    if plan.evidence.settings:
        notes = (chance_text(plan), OPTIMISTIC, COSTS, adjacency_note(plan), error_text(plan))
        lines += ["", *filter(None, notes)]
    if excluded := left_out_lines(plan):
        lines.append(f"Excluded: {'; '.join(excluded)}.")
    return "\n".join(lines)


def reading_text(reading: Reading) -> str:
    """Return a mean with its interval: "0.855 (0.852 to 0.858)"."""
    interval = f" ({reading.interval.low:.3f} to {reading.interval.high:.3f})" if reading.interval else ""
    return f"{reading.spread.mean:.3f}{interval}"


def seeds(setting: Setting) -> str:
    """Return the number of seeds, with outdated runs marked."""
    return seeds_text([done.run for done in setting.done])


def _epsilon(judged: Judged) -> str:
    return epsilon_text(judged.setting.epsilon)


def _misses(judged: Judged) -> str:
    parts = [
        f"{measure_text(reading.measure)} {reading_text(reading)}, "
        f"{threshold.at_least - reading.spread.mean:.3f} below the target"
        for reading, threshold in zip(judged.readings, judged.thresholds, strict=True)
        if reading.spread.mean < threshold.at_least
    ]
    return " and ".join(parts)


def _ceiling(plan: Recommendation) -> list[str]:
    ceiling = plan.answer.ceiling
    if ceiling is None:
        return ["There is no run without noise, so it is unknown whether a larger ε could help."] * bool(
            plan.evidence.settings
        )
    if ceiling.grade.reached:
        scores = ", ".join(f"{measure_text(reading.measure)} {reading_text(reading)}" for reading in ceiling.readings)
        return [f"Without noise: {scores}."]
    if ceiling.grade == EvidenceLevel.POSSIBLE:
        return [f"Best configuration without noise: {_misses(ceiling)}. This leaves no margin for noise."]
    return [
        f"The best configuration without noise misses the target: {_misses(ceiling)}. With these taggers and features, "
        "no ε is likely to help."
    ]


def _left_out(plan: Recommendation) -> dict[str, int]:
    return dict(plan.evidence.left_out)


def _reading(each: Reading) -> dict[str, Any]:
    name = "_".join(filter(None, (each.measure.score, each.measure.kind)))
    low, high = each.interval or (None, None)
    return {name: each.spread.mean, f"{name}_sd": each.spread.known_sd, f"{name}_low": low, f"{name}_high": high}


def _threshold(each: Threshold) -> dict[str, Any]:
    return {"score": each.measure.score, "type": each.measure.kind or None, "at_least": each.at_least}


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value
