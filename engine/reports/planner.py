"""A plan as sentences, rows and plain fields."""

import math
from collections.abc import Iterable
from typing import Any

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
    EvidenceLevel.SURELY: "surely",
    EvidenceLevel.PROBABLY: "probably",
    EvidenceLevel.ONCE: "in its only run",
    EvidenceLevel.NOT_EXCLUDED: "not excluded",
    EvidenceLevel.MISSED: "no",
}
OPTIMISTIC = (
    "Who takes the best of many settings, by the scores of one test part, takes some luck with it: a new run, and "
    "other sentences, will on average give a little less."
)
COSTS = (
    "Each ε is of one run alone. Whoever computes several on private data and chooses by their scores spends privacy "
    "with every one of them, and the sentences that are scored have no protection at all."
)
_SCORES = {"f1": "F1", "precision": "precision", "recall": "recall"}
_WHY = {
    MORE_SEEDS: "more seeds of a setting whose runs so far leave it open",
    FROM_CURVE: "at the ε where the fitted curve of its settings meets what is asked for",
    BEYOND: "at a larger ε than was measured of its settings, since without noise there is room above",
    AT_LIMIT: "at the largest ε that is allowed, where nothing was measured and the curve's band leaves it open",
}


def measure_text(measure: Measure) -> str:
    """A score in words: "F1", "recall of PER"."""
    return _SCORES[measure.score] + (f" of {measure.kind}" if measure.kind else "")


def needed_text(target: Target) -> str:
    """The scores that are asked for: "F1 ≥ 0.8 and recall of PER ≥ 0.9"; empty where there are none."""
    said = [f"{measure_text(each.measure)} ≥ {each.at_least:g}" for each in target.thresholds]
    return " and ".join(said) if len(said) < 3 else f"{', '.join(said[:-1])} and {said[-1]}"


def limits_text(target: Target) -> str:
    """The limits, to stand after words: " at ε ≤ 1 and in at most 60 s"; empty where there are none."""
    epsilon = f"at ε ≤ {epsilon_text(target.epsilon)}" if target.epsilon is not None else ""
    seconds = f"in at most {target.seconds:g} s" if target.seconds is not None else ""
    said = " and ".join(filter(None, (epsilon, seconds)))
    return f" {said}" if said else ""


def answer_text(plan: Recommendation) -> str:
    """The answer in a sentence."""
    found, target = plan.answer, plan.target
    needed, limits = needed_text(target), limits_text(target)
    if not plan.evidence.settings:
        return f"No finished run on {corpus_title(target.corpus)} can be compared here yet."
    if not needed:
        if not found.best:
            return f"None of the {plan.evidence.runs:,} runs here keeps within what is asked for:{limits}."
        top = max(found.best, key=lambda each: each.margin)
        return f"The most that is known{limits}: F1 {top.readings[0].spread.text}, at ε = {_epsilon(top)}."
    if found.best:
        said: list[tuple[str, float]] = []
        for grade in (EvidenceLevel.SURELY, EvidenceLevel.PROBABLY, EvidenceLevel.ONCE):
            first = next((each for each in found.best if each.grade == grade), None)
            if first and (not said or first.setting.epsilon < said[-1][1]):
                said.append((f"{GRADES[grade]} at ε = {_epsilon(first)}", first.setting.epsilon))
        return f"{needed} can be reached{limits}: {', '.join(text for text, _ in said)}."
    return _none(plan, f"{needed}{limits}")


def _none(plan: Recommendation, wanted: str) -> str:
    """That no private setting reaches what is wanted."""
    ceiling, runs = plan.answer.ceiling, f"None of the {plan.evidence.runs:,} runs here"
    open_reached = ceiling is not None and ceiling.grade.reached
    private = sum(len(each.setting.done) for each in plan.answer.compared)
    if not private:
        reached = "reached" if open_reached else "not reached"
        return f"{runs} has noise, so that nothing is known of any ε; without noise {wanted} is {reached}."
    if open_reached and not plan.answer.beyond:
        return f"None of the {private:,} private runs here reaches {wanted}; without noise it is reached."
    return f"{runs} does: {wanted} is reached by the mean of no setting."


def explanations(plan: Recommendation) -> list[str]:
    """What belongs to the answer, a sentence each: how near it is, what would do, what can be computed next."""
    found, said = plan.answer, list[str]()
    if not plan.target.thresholds:
        return said
    if found.nearest:
        said.append(f"The nearest, at ε = {_epsilon(found.nearest)}: {_misses(found.nearest)}.")
    elif not found.best and plan.evidence.settings:
        said += ["No private setting at all keeps within these limits."] if found.compared else []
    if found.beyond:
        beyond = found.beyond
        said.append(
            f"Outside these limits it is reached {GRADES[beyond.grade]} at ε = {_epsilon(beyond)}, "
            f"{beyond.setting.seconds:.0f} s a run."
        )
    elif not found.best:
        said += _ceiling(plan)
    if plan.next_runs:
        said.append(f"The cheapest next step: {next_text(plan.next_runs[0])}.")
    elif plan.unpriced:
        said.append("What to run next cannot be said here: the noise that it needs depends on the corpus.")
    elif not found.best and plan.evidence.settings:
        said.append("No next run follows from what was measured: other taggers or features would have to be tried.")
    return said


def next_text(each: NextRun) -> str:
    """A next run in words."""
    candidate = each.candidate
    number = "one run" if candidate.runs == 1 else f"{candidate.runs} runs"
    seconds = "" if each.seconds is None else f", about {each.seconds:,.0f} s together"
    return (
        f"{number} with σ = {each.config.privacy.noise_multiplier:g}, ε = {epsilon_text(each.epsilon)} each{seconds}, "
        f"{_WHY[candidate.rule]}"
    )


def left_out_lines(plan: Recommendation) -> list[str]:
    """What was not compared, a phrase each."""
    return [f"{number:,} {'run' if number == 1 else 'runs'} {reason}" for reason, number in _left_out(plan).items()]


def chance_text(plan: Recommendation) -> str:
    """What intervals there are."""
    single = sum(len(each.done) == 1 for each in plan.evidence.settings)
    text = (
        "Intervals hold 95 % and are of the mean over seeds (Student's t), on these test sentences; surely: the whole "
        "interval lies above, probably: the mean does."
    )
    if single:
        several = "All" if single == len(plan.evidence.settings) else f"{single:,} of the"
        text += (
            f" {several} {len(plan.evidence.settings):,} settings have one run each: how far chance moves those is not "
            "known."
        )
    return text


def error_text(plan: Recommendation) -> str:
    """How well the fits say what was measured."""
    if plan.error is None:
        return "How well the fit predicts is not known: no recipe has three settings here."
    return (
        f"Each of {plan.error.number:,} settings that have others on both sides was left out once and predicted from "
        f"these: the typical error (root mean square) is {plan.error.typical:.3f}."
    )


def rows(judged: Iterable[Judged]) -> list[dict[str, Any]]:
    """Settings for CSV and JSON; ε = ∞ is None."""
    return [
        {
            "epsilon": _finite(each.setting.epsilon),
            "reached": GRADES[each.grade] if each.thresholds else None,
            "runs_that_reach_it": each.hits,
            "seeds": len(each.setting.done),
            "seconds": each.setting.seconds,
            **{key: value for one in each.readings for key, value in _reading(one).items()},
            "runs": [one.run.run_id for one in each.setting.done],
            "command": command_line(each.setting.config),
        }
        for each in judged
    ]


def plan_fields(plan: Recommendation) -> dict[str, Any]:
    """For other programs; ε = ∞ is null."""
    found, target = plan.answer, plan.target
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
        "settings": rows(found.best),
        "reached": found.reached,
        "nearest": next(iter(rows([found.nearest] if found.nearest else [])), None),
        "beyond": next(iter(rows([found.beyond] if found.beyond else [])), None),
        "without_noise": next(iter(rows([found.ceiling] if found.ceiling else [])), None),
        "next_runs": [
            {
                "rule": each.candidate.rule,
                "runs": each.candidate.runs,
                "epsilon": each.epsilon,
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
    """For a shell."""
    lines = [answer_text(plan), *explanations(plan)]
    for each in plan.answer.best:
        scores = ", ".join(f"{measure_text(one.measure)} {reading_text(one)}" for one in each.readings)
        price = f"ε = {_epsilon(each)} (δ = {delta_text(plan.target.delta)}), {each.setting.seconds:.0f} s a run"
        sure = f"{GRADES[each.grade]}, by {each.hits:,} of {len(each.setting.done):,} runs" if each.thresholds else ""
        lines += [
            "",
            f"{price}: {scores}; {'; '.join(filter(None, (sure, f'seeds: {seeds(each.setting)}')))}",
            f"  {command_line(each.setting.config)}",
        ]
    if plan.next_runs:
        lines += ["", "Next:", *(f"  {command_line(each.config)}" for each in plan.next_runs[:1])]
    if plan.evidence.settings:
        lines += ["", chance_text(plan), OPTIMISTIC, COSTS, error_text(plan)]
    if left := left_out_lines(plan):
        lines.append(f"Left out: {'; '.join(left)}.")
    return "\n".join(lines)


def reading_text(each: Reading) -> str:
    """A mean with its interval: "0.855 (0.852 to 0.858)"."""
    interval = f" ({each.interval.low:.3f} to {each.interval.high:.3f})" if each.interval else ""
    return f"{each.spread.mean:.3f}{interval}"


def seeds(setting: Setting) -> str:
    """How many, those of an older engine marked."""
    return seeds_text([each.run for each in setting.done])


def _epsilon(each: Judged) -> str:
    return epsilon_text(each.setting.epsilon)


def _misses(each: Judged) -> str:
    said = [
        f"{measure_text(one.measure)} {reading_text(one)}, {threshold.at_least - one.spread.mean:.3f} below"
        for one, threshold in zip(each.readings, each.thresholds, strict=True)
        if one.spread.mean < threshold.at_least
    ]
    return " and ".join(said)


def _ceiling(plan: Recommendation) -> list[str]:
    ceiling = plan.answer.ceiling
    if ceiling is None:
        return ["No run without noise is here, so that it is not known whether a larger ε could help."] * bool(
            plan.evidence.settings
        )
    if ceiling.grade.reached:
        scores = ", ".join(f"{measure_text(one.measure)} {reading_text(one)}" for one in ceiling.readings)
        return [f"Without noise: {scores}."]
    if ceiling.grade == EvidenceLevel.NOT_EXCLUDED:
        return [f"Even the best without noise only comes near: {_misses(ceiling)}. There is no room left for noise."]
    return [
        f"Even the best without noise misses it: {_misses(ceiling)}. With the taggers and features that were tried "
        "here, no ε is likely to help."
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
