"""The noise check in words: what was measured, what was planned, what cannot be seen."""

from engine.records import (
    NoiseCheck,
    RoundRecord,
)
from engine.reports.numbers import epsilon_text


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
        found.append(
            f"Sums that it did not look at: it measures noise at every step, but clipping at {few}. A fault of "
            "clipping that few sentences meet is found if one of them is drawn at such a step."
        )
    else:
        found.append("What a client does before it sends its update: any update is taken as it comes, and clipped.")
    return [
        *found,
        "In a run of few draws the tails: noise that is cut off beyond four standard deviations passes where few draws "
        "are expected there.",
        *_coarse_samples(check),
        "Where the rounding of the weights adds between 0.01 and 1 % of the noise's variance: what lies along the "
        "clipped sum is then not judged.",
        "Whether somebody knows the key of the noise. Noise from a printed seed passes, and protects nobody.",
        "A program made to deceive: the check runs in the same program, and believes it as to which sum it used.",
        "What happens outside training: losses and scores shown without noise, other runs on the same sentences, "
        "copies of the data.",
    ]


def _coarse_samples(check: NoiseCheck) -> list[str]:
    """What of sampling is not seen, where it is left to chance."""
    if check.batch_std_planned is None:
        return []
    return [
        f"Where few {'steps' if check.unit == 'sentence' else 'rounds'} draw most of the {check.unit}s, one that is in "
        "each sample, or a sum that is divided by the actual batch: chance does much the same."
    ]
