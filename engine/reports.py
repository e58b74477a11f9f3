"""Records and scores as plain fields for other programs and as lines of text for a shell.

ε = ∞ is ``null`` among the fields, since JSON has no infinity.
"""

import math
import shlex
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.config import DEFAULT_CLIP_NORM, SimulationConfig
from engine.embeddings.apart import FITTED_ON, Overlap
from engine.paper import TABLES, Measured, engine_of, older_text, setting_text
from engine.privacy.plan import PrivacyPlan
from engine.records import (
    GOOD_PRACTICE,
    Counts,
    EntityScores,
    FederatedRound,
    NoiseCheck,
    RoundRecord,
    Run,
    Study,
    Trial,
    macro,
    micro,
    weighted,
)


def epsilon_text(epsilon: float, digits: int = 3) -> str:
    """ε for people: three significant digits, ∞ without noise."""
    return "∞" if math.isinf(epsilon) else f"{epsilon:.{digits}g}"


def delta_text(delta: float) -> str:
    """δ for people: 1e-5, not 1e-05."""
    return f"{delta:g}".replace("e-0", "e-")


def record_fields(record: RoundRecord) -> dict[str, Any]:
    """One record, flat; scores are on the validation part, ``test`` stands in the final record."""
    spent = record.privacy.to_dict()
    fields = {
        "round": record.round,
        "step": record.step,
        "steps_total": record.steps_total,
        "epsilon": spent["epsilon"],
        "delta": spent["delta"],
        "assumptions": spent["assumptions"],
        "rdp_epsilon": spent["rdp_epsilon"],
        "poisson_epsilon": spent["poisson_epsilon"],
        "precision": record.scores.precision,
        "recall": record.scores.recall,
        "f1": record.scores.f1,
        "loss": record.loss,
        "seconds": record.seconds,
        "examples_seen": record.examples_seen,
        "clipped_fraction": record.clipped_fraction,
        "layer_norms": dict(record.layer_norms),
        "noise_to_signal": record.noise_to_signal,
        "gradient_norm_median": record.gradient_norm_median,
        "gradient_norm_max": record.gradient_norm_max,
        "nonfinite": record.nonfinite,
        "noise_check": record.noise_check.to_dict() | {"failed": record.noise_check.failed}
        if record.noise_check
        else None,
        "federation": record.federation.to_dict() if record.federation else None,
        "final": record.final,
    }
    if record.test is not None:
        headline = {"precision": record.test.precision, "recall": record.test.recall, "f1": record.test.f1}
        fields["test"] = headline | score_fields(record.test)
    return fields


def record_line(record: RoundRecord) -> str:
    """One record as a line."""
    epsilon = epsilon_text(record.privacy.epsilon)
    return (
        f"{record.round:3}  step {record.step:>6,} of {record.steps_total:,}  ε {epsilon:>6}"
        f"  P {record.scores.precision:.3f}  R {record.scores.recall:.3f}  F1 {record.scores.f1:.3f}"
        f"  loss {record.loss:.3f}  clipped {record.clipped_fraction:4.0%}  {record.seconds:6.1f} s"
        + (federated_text(record.federation) if record.federation else "")
    )


def federated_text(last: FederatedRound) -> str:
    """The communication round of a record, for the end of a line."""
    failed = f", {len(last.failed)} failed" if last.failed else ""
    return (
        f"  round {last.round:,} of {last.rounds:,}, {len(last.clients):,} clients{failed}, "
        f"{(last.bytes_down + last.bytes_up) / 1e6:,.1f} MB sent"
    )


def privacy_lines(record: RoundRecord) -> list[str]:
    """The noise check of a record, and what its ε rests on; nothing without noise."""
    check, privacy = record.noise_check, record.privacy
    lines = ["", *check_lines(check)] if check else []
    if privacy.assumptions:
        lines += ["", f"ε = {epsilon_text(privacy.epsilon)} rests on this"]
        lines += [f"  {sentence}" for sentence in privacy.assumptions]
    return lines


def check_lines(check: NoiseCheck) -> list[str]:
    """A noise check as text: the verdict, then what was measured and what was planned."""
    verdict = "failed" if check.failed else "passed" if check.passed else "not possible: rounding hides the noise"
    lines = [f"Noise check {verdict}, {check.steps:,} steps measured", *(f"  {fault}" for fault in check.faults)]
    rows = check_rows(check)
    wide, high = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines += [
        f"  {name:{wide}}  {found:>{high}}" + (f"   planned {planned}" if planned else "")
        for name, found, planned in rows
    ]
    lines += filter(None, [looked_less(check)])
    return [*lines, "What the check cannot see:", *(f"  {sentence}" for sentence in blind_spots(check))]


def check_rows(check: NoiseCheck) -> list[tuple[str, str, str]]:
    """What was measured, its value, and what was planned, one row each."""
    return [*_noise_rows(check), *_sum_rows(check), _sample_row(check)]


def _noise_rows(check: NoiseCheck) -> list[tuple[str, str, str]]:
    noise = "hidden by rounding" if check.noise_std is None else f"{check.noise_std:.5g}"
    rows = [("Noise on each weight, σ · C", noise, f"{check.noise_planned:.5g} ± {check.noise_tolerance:.2g}")]
    rows += [
        (f"… in “{layer.title}”", f"{100 * layer.ratio:.2f} %", f"100 % ± {100 * layer.tolerance:.2g} %")
        for layer in check.layers
    ]
    if check.layers or check.least_visits:
        rows.append(("How often each weight was measured", f"{check.least_visits:,} times or more", ""))
    if check.shape_distance:
        rows.append(("Distance from the normal distribution", f"{100 * check.shape_distance:.2g} %", "near 0"))
    if check.along_spread:
        rows.append(("Noise along the sums, ÷ σ · C", f"{check.along:+.2f} ± {check.along_spread:.2f}", "0 ± 1"))
    return rows


def _sum_rows(check: NoiseCheck) -> list[tuple[str, str, str]]:
    rows = []
    if check.sentences_measured:
        longest = "Longest gradient" if check.unit == "sentence" else "Longest update"
        name = f"{longest} of {check.sentences_measured:,} {check.unit}s, each alone"
        rows.append((name, f"{check.clipped_norm_max:.5g}", f"at most {check.clip_norm:.5g}"))
    if check.looks:
        judged = "" if check.looks_counted == check.looks else f", {check.looks_counted:,} of them fit to be judged"
        times = "1 sum" if check.looks == 1 else f"{check.looks:,} sums"
        gap = f"{check.largest_gap:.2g} clip norms" if check.looks_counted else "hidden by rounding"
        rows.append((f"{times} made anew{judged}: largest gap", gap, "0"))
    return rows


def _sample_row(check: NoiseCheck) -> tuple[str, str, str]:
    spread = "" if check.batch_std_planned is None else f" ± {check.batch_std_planned:.3g}"
    name = "Sentences a step" if check.unit == "sentence" else "Clients a round"
    return name, f"{check.batch_mean:.4g} ± {check.batch_std:.3g}", f"{check.batch_planned:.4g}{spread}"


_LOOKED_LESS = (
    "This run was checked by engine 5, which looked less closely: it judged the noise as a whole, not by layer, shape "
    "or direction, and in short runs not on all weights; of batches above 64 sentences it did not look at the sum that "
    "was used."
)


def looked_less(check: NoiseCheck) -> str:
    """What the check of an older engine left out; empty for one of today's."""
    todays = check.layers or check.least_visits or check.looks or check.shape_distance
    return "" if todays else _LOOKED_LESS


def blind_spots(check: NoiseCheck) -> list[str]:
    """What the check of a run cannot see, a sentence each."""
    found = []
    if check.unit == "sentence":
        few = "few" if looked_less(check) else f"{check.looks:,} of {check.steps:,} steps"
        found.append(f"Sums that it did not look at: it measures noise at every step, but clipping at {few}.")
    else:
        found.append("What a client does before it sends its update: any update is taken as it comes, and clipped.")
    return [
        *found,
        "Whether somebody knows the key of the noise. Noise from a printed seed passes, and protects nobody.",
        "A program made to deceive: the check runs in the same program, and believes it as to which sum it used.",
        "What happens outside training: losses and scores shown without noise, other runs on the same sentences, "
        "copies of the data.",
    ]


def overlap_fields(found: Overlap | None) -> dict[str, Any] | None:
    """Sentences that features in context were fitted on, by part of a corpus; ``None`` where nothing is known."""
    if found is None:
        return None
    parts = zip(("train", "validation", "test"), found.sentences, found.shared, found.short, strict=True)
    return {
        part: {"sentences": of, "shared": shared, "short": short, "share": found.share(part)}
        for part, of, shared, short in parts
    }


def overlap_text(found: Overlap | None) -> str:
    """The same for the end of a line; empty for a corpus that is apart."""
    if found is None or not any(found.shared):
        return ""
    return (
        f"; {found.share('train'):.1%} of its training and {found.share('test'):.1%} of its test sentences are among "
        f"those of {FITTED_ON} that features in context were fitted on: "
        + ("no ε holds with these" if found.breaks_privacy else "F1 flatters with these")
    )


def run_fields(run: Run) -> dict[str, Any]:
    """A run without its records."""
    status = run.status
    return {
        "run_id": run.run_id,
        "state": str(status.state),
        "published": run.published,
        "engine_version": run.provenance.engine_version if run.provenance else None,
        "outdated": bool(engine_of(run)),
        "progress": status.progress,
        "stage": status.stage,
        "queue_place": status.queue_place,
        "error": status.error,
        "created": status.created,
        "started": status.started,
        "finished": status.finished,
        "config": run.config.to_dict(),
    }


def run_line(run: Run) -> str:
    """A run as a line."""
    config = run.config
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.status.created)) if run.status.created else ""
    state = f"{run.status.state} {run.status.progress:.0%}" if run.status.state == "running" else str(run.status.state)
    return (
        f"{run.run_id}  {state:12} {'published' if run.published else '':9} {config.corpus:12} {config.tagger.name}"
        f"  σ {config.privacy.noise_multiplier:g}  data {config.data_fraction:.0%}  epochs {config.training.epochs:g}"
        f"  clients {config.federation.clients:,}  seed {config.seed}  {when}"
        + (f"  engine {version}" if (version := engine_of(run)) else "")
        + (f"  {run.status.error}" if run.status.error else "")
    )


def command_line(config: SimulationConfig, verb: str = "simulate") -> str:
    """The command that gives the same run; what equals the default is left out, but for the main choices."""
    private = config.privacy.private
    usual = SimulationConfig().flat() | {"clip_norm": DEFAULT_CLIP_NORM if private else None}
    always = ("tagger", "noise_multiplier")
    words = ["python", "-m", "engine", verb, "--corpus", config.corpus]
    for name, value in config.flat().items():
        if name == "corpus" or (value == usual[name] and name not in always):
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:  # a flag, off by default
            short = isinstance(value, float) and float(f"{value:g}") == value
            words.append(f"{value:g}" if short else str(value))
    return shlex.join(words)


def paper_text(found: Iterable[Measured]) -> str:
    """The paper's tables for a shell."""
    lines, last, found = [], "", list(found)
    for each in found:
        if each.cell.table != last:
            last = each.cell.table
            lines += [
                "",
                f"{last}: {TABLES[last]}",
                f"{'':24}{'printed F1':>11}{'same metric':>20}{'entities':>20}{'ε':>9}",
            ]
        ours = [spread.f1_text for spread in (each.token, each.entity) if spread]
        epsilon = "" if each.epsilon is None else epsilon_text(each.epsilon)
        floor = f"   finding nothing: {each.floor.f1:.3f}, seeds: {each.seeds_text}" if each.floor else "not run yet"
        lines.append(
            f"{setting_text(each.cell):24}{each.cell.published['f1']:11.3f}"
            + "".join(f"{text:>20}" for text in ours or ("", ""))
            + f"{epsilon:>9}{floor}"
        )
    older = older_text(run for each in found for run in each.runs)
    return "\n".join([*lines[1:], *(["", older] if older else [])])


def score_fields(scores: EntityScores) -> dict[str, Any]:
    """Every average at every level; token-level ones with and without the tag O, since published tables differ."""
    return {
        "strict": _averages(scores.strict.values()) | {"per_type": _per_class(scores.strict)},
        "relaxed": _averages(scores.relaxed.values()) | {"per_type": _per_class(scores.relaxed)},
        "token": {
            "with_o": _averages(scores.tokens(outside=True)),
            "without_o": _averages(scores.tokens(outside=False)),
            "per_tag": _per_class(scores.token),
        },
    }


def _averages(counts: Iterable[Counts]) -> dict[str, float]:
    counts = list(counts)
    overall, by_class, by_support = micro(counts), macro(counts), weighted(counts)
    return {
        "precision": overall.precision,
        "recall": overall.recall,
        "f1": overall.f1,
        "macro_f1": by_class.f1,
        "weighted_precision": by_support.precision,
        "weighted_recall": by_support.recall,
        "weighted_f1": by_support.f1,
    }


def _per_class(counts: Any) -> dict[str, dict[str, float]]:
    return {
        name: {
            "precision": each.ratios.precision,
            "recall": each.ratios.recall,
            "f1": each.ratios.f1,
            "correct": each.correct,
            "predicted": each.predicted,
            "gold": each.gold,
        }
        for name, each in sorted(counts.items())
    }


def score_table(scores: EntityScores) -> str:
    """The main averages and the strict scores per type, as a table of text."""
    fields = score_fields(scores)
    rows = [
        ("entities, strict", fields["strict"]),
        ("entities, relaxed", fields["relaxed"]),
        ("tokens, with O", fields["token"]["with_o"]),
        ("tokens, without O", fields["token"]["without_o"]),
    ]
    lines = [f"{'':20}{'P':>8}{'R':>8}{'F1':>8}{'macro F1':>10}{'weighted F1':>13}"]
    lines += [
        f"{name:20}{row['precision']:8.3f}{row['recall']:8.3f}{row['f1']:8.3f}"
        f"{row['macro_f1']:10.3f}{row['weighted_f1']:13.3f}"
        for name, row in rows
    ]
    lines += [
        f"  {name:18}{row['precision']:8.3f}{row['recall']:8.3f}{row['f1']:8.3f}{row['gold']:10,} names"
        for name, row in fields["strict"]["per_type"].items()
    ]
    return "\n".join(lines)


def privacy_fields(plan: PrivacyPlan, epsilon: float, accountant: str) -> dict[str, Any]:
    """What a plan costs."""
    return {
        "epsilon": None if math.isinf(epsilon) else epsilon,
        "delta": plan.delta,
        "noise_multiplier": plan.noise_multiplier,
        "accountant": accountant,
        "steps": plan.steps,
        "examples": plan.examples,
        "batch_size": plan.batch_size,
        "sampling_probability": plan.sampling_probability,
    }


def trial_line(trial: Trial) -> str:
    """A recipe that was tried, as a line."""
    values = {name: f"{value:g}" if isinstance(value, float) else value for name, value in trial.chosen.items()}
    chosen = ", ".join(f"{name} {value}" for name, value in values.items())
    return f"{trial.number:3}  F1 {trial.f1:.4f}  {chosen}, σ {trial.noise_multiplier:g}, {trial.seconds:.0f} s"


def study_outcome(study: Study, runs: Sequence[Run]) -> dict[str, Any]:
    """A search for other programs: what won, what it gives on the corpus, what is booked for it, and what tuning there
    would have cost: (ε, δ) by basic composition, and ε at the study's δ if all trials had been fixed beforehand."""
    winner = study.winner
    f1 = [run.final.test.f1 for run in runs if run.final and run.final.test]
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
            "f1_mean": statistics.fmean(f1),
            "f1_sd": statistics.stdev(f1) if len(f1) > 1 else 0.0,
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
        lines += [f"Best of {outcome['trials']:,} on {study.development}: {best}", winner["command"]]
    if test:
        f1 = f"F1 {test['f1_mean']:.4f} ± {test['f1_sd']:.4f}"
        lines += [f"On the test part of {study.corpus}: {f1} over {len(test['runs'])} seeds"]
    return [*lines, study_cost(study), study_origin(study)]


def study_cost(study: Study) -> str:
    """What a search cost its corpus, and what it would have cost there, in sentences."""
    if study.private:
        return _cost_of_looking(study)
    where = study.development
    return (
        f"The trials looked at {where} alone: they cost {study.corpus} nothing. {_cost_of_runs(study)} On "
        f"{study.corpus} itself the {len(study.trials):,} trials would have cost {_would_have_cost(study)}."
    )


def _cost_of_looking(study: Study) -> str:
    trials = f"These {len(study.trials):,} trials looked at {study.corpus} itself"
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
        return f"Each run of the winner on {study.corpus} costs ε = {study.epsilon:g}, and several add up."
    who = "the winner" if len(study.released) == 1 else f"{len(study.released)} winners"
    together = f"ε = {epsilon_text(study.released_epsilon)} (δ = {delta_text(study.delta)})"
    if runs == 1:
        return f"One run of {who} on {study.corpus} costs {together}."
    return (
        f"{runs:,} runs of {who} on {study.corpus}, each with a seed of its own, are {runs:,} releases: "
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
