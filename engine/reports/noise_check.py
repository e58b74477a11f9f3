"""The noise check as text: measured values, planned values and limits."""

import math
from collections.abc import Callable

from engine.records import (
    NoiseCheck,
    PrivacySpent,
    RoundRecord,
)
from engine.reports.numbers import delta_text, epsilon_text

WITHHELD = "withheld"
"""In place of a measured value that is computed from samples and noise."""


def privacy_lines(record: RoundRecord) -> list[str]:
    """Return the noise check of a record and the assumptions of its ε; empty without noise."""
    check, privacy = record.noise_check, record.privacy
    lines = ["", *check_lines(check)] if check else []
    if privacy.assumptions:
        lines += ["", f"{guarantee_text(privacy)} assumes:"]
        lines += [f"  {sentence}" for sentence in privacy.assumptions]
    return lines


def guarantee_text(privacy: PrivacySpent) -> str:
    """Return ε with δ, the protected unit and the adjacency; ε alone without a guarantee."""
    epsilon = f"ε = {epsilon_text(privacy.epsilon)}"
    if math.isinf(privacy.epsilon):
        return epsilon
    return f"{epsilon} at δ = {delta_text(privacy.delta)} for {privacy.unit} (adjacency: {privacy.neighbouring})"


def check_lines(check: NoiseCheck) -> list[str]:
    """Return a noise check as lines of text: its result, then the measured and the planned values."""
    result = "failed" if check.failed else "passed" if check.passed else "not possible: rounding hides the noise"
    lines = [f"Noise check {result}, {check.steps:,} steps measured", *(f"  {fault}" for fault in check.faults)]
    rows = check_rows(check)
    name_width, value_width = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines += [
        f"  {name:{name_width}}  {value:>{value_width}}" + (f"   planned: {planned}" if planned else "")
        for name, value, planned in rows
    ]
    lines += filter(None, [looked_less(check)])
    return [*lines, "Limits of the check:", *(f"  {sentence}" for sentence in blind_spots(check))]


def check_rows(check: NoiseCheck, *, samples: bool = True) -> list[tuple[str, str, str]]:
    """Return quantity, measured value and planned value of each row.

    Args:
        check: the noise check.
        samples: whether values that are computed from the samples are shown; they depend on who was sampled.
    """
    return [*_noise_rows(check), *_sum_rows(check), *_sample_rows(check, withheld=check.withheld or not samples)]


def _noise_rows(check: NoiseCheck) -> list[tuple[str, str, str]]:
    noise = _measured(check, lambda: _number(check.noise_std, ".5g"))
    rows = [("Noise on each weight, σ · C", noise, f"{check.noise_planned:.5g} ± {check.noise_tolerance:.2g}")]
    rows += [
        (
            f"… in layer “{layer.title}”",
            _number(100 * layer.ratio, ".2f", " %"),
            f"100 % ± {100 * layer.tolerance:.2g} %",
        )
        for layer in check.layers
    ]
    if check.layers or check.least_visits:
        rows.append(("Steps at which each weight was measured", f"at least {check.least_visits:,}", ""))
    if check.draws_compared:
        compared = WITHHELD if check.withheld else _compared(check, check.draws_compared)
        rows.append(("Noise values recomputed from the keys", compared, _EQUAL))
    if check.shape_distance:
        distance = _number(100 * check.shape_distance, ".2g", " %")
        rows.append(("Distance from the normal distribution", distance, "near 0"))
    if check.along_spread:
        name = "Noise in the direction of the clipped sums, ÷ σ · C"
        rows.append((name, _number(check.along, "+.2f", f" ± {check.along_spread:.2f}"), "0 ± 1"))
    return rows


def _number(value: float | None, digits: str, after: str = "") -> str:
    """Return a measured value with a unit; the values of a diverged run may be no numbers."""
    return f"{value:{digits}}{after}" if value is not None and math.isfinite(value) else "not finite"


_EQUAL = "all equal"


def _compared(check: NoiseCheck, number: int) -> str:
    """Return a number of comparisons, and their result if nothing differs; otherwise a fault names the difference."""
    return f"{number:,} compared" if check.failed else f"{number:,}, {_EQUAL}"


def _measured(check: NoiseCheck, value: Callable[[], str]) -> str:
    """Return a measured value, or why the record has none."""
    if not check.measurable:
        return "hidden by rounding"
    return WITHHELD if check.withheld else value()


def _sum_rows(check: NoiseCheck) -> list[tuple[str, str, str]]:
    rows = []
    if check.sentences_measured:
        largest = "Largest clipped gradient norm" if check.unit == "sentence" else "Largest clipped update norm"
        name = f"{largest} of {check.sentences_measured:,} {check.unit}s, measured one by one"
        rows.append((name, f"{check.clipped_norm_max:.5g}", f"at most {check.clip_norm:.5g}"))
    if check.looks and not check.withheld:
        judged = "" if check.looks_counted == check.looks else f", {check.looks_counted:,} of them precise enough"
        summands = "gradients" if check.unit == "sentence" else "updates"
        moments = f"{check.looks:,} {_moment(check)}{'' if check.looks == 1 else 's'}"
        gap = f"{check.largest_gap:.2g} clip norms" if check.looks_counted else "hidden by rounding"
        rows.append((f"Sum of clipped {summands} recomputed at {moments}{judged}: largest difference", gap, "0"))
    return rows


def _moment(check: NoiseCheck) -> str:
    return "step" if check.unit == "sentence" else "round"


def _sample_rows(check: NoiseCheck, *, withheld: bool) -> list[tuple[str, str, str]]:
    spread = "" if check.batch_std_planned is None else f" ± {check.batch_std_planned:.3g}"
    name = f"Mean number of {check.unit}s in a {_moment(check)}"
    measured = WITHHELD if withheld else f"{check.batch_mean:.4g} ± {check.batch_std:.3g}"
    rows = [(name, measured, f"{check.batch_planned:.4g}{spread}")]
    if check.sampling_compared:
        name = f"Sampling decisions (one for each {check.unit} and {_moment(check)}) recomputed from the keys"
        rows.append((name, WITHHELD if withheld else _compared(check, check.sampling_compared), _EQUAL))
    return rows


_LOOKED_LESS = (
    "Engine 5 checked this run less closely. It tested the noise as a whole, not by layer, shape or direction, and in "
    "short runs not on all weights. For batches above 64 sentences it did not check the sum that was used."
)


def looked_less(check: NoiseCheck) -> str:
    """Return the limits of an older engine's check; empty for the current engine."""
    todays = check.layers or check.least_visits or check.looks or check.shape_distance
    return "" if todays else _LOOKED_LESS


def blind_spots(check: NoiseCheck) -> list[str]:
    """Return the limits of a noise check, a sentence each."""
    limits = []
    if check.unit == "sentence":
        steps = "few steps" if looked_less(check) else f"{check.looks:,} of {check.steps:,} steps"
        limits.append(
            f"The check measures noise at every step, but clipping at {steps} only. If a clipping fault "
            "affects few sentences, one of these steps must sample such a sentence to find it."
        )
    else:
        limits.append(
            "The check does not see the training at a client before the client sends its update. The program "
            "clips each update as received."
        )
    return [
        *limits,
        *(_draws(check) if check.draws_compared else _TAILS),
        *(_samples(check) if check.sampling_compared else _coarse_samples(check)),
        "Where rounding of the weights adds between 0.01 and 1 % of the noise variance, the check does not test the "
        "noise in the direction of the clipped sum.",
        "The check cannot show that the key of the noise is secret. Noise from a public seed passes the check but "
        "protects no one.",
        "The check runs inside the program that it tests, and this program tells it which sum of clipped gradients was "
        "used. So it cannot detect a program that deceives it.",
        "The check does not cover releases outside training: losses and scores without noise, other runs on the same "
        "sentences, and copies of the data.",
    ]


_TAILS = (
    "In a run with few random numbers, the check cannot test the tails of the noise: it does not detect noise "
    "truncated beyond four standard deviations.",
)
"""The limit of checks that did not compare noise with the draws of its keys."""


def _draws(check: NoiseCheck) -> list[str]:
    """Return the limits of the comparison of noise with the draws of its keys, and of the settings."""
    settings = (
        "At each step, the check compares the plan and the training settings with those of the first step. It also "
        "detects more steps than planned. It cannot show that these settings were chosen without private values, nor "
        "why a person ended the run. A clip norm that changes with private values is detected when a sum is next "
        "recomputed."
    )
    return [
        *([settings] if check.unit == "sentence" else []),
        "Noise truncated at five standard deviations is detected only if a compared draw is that large. Of a million "
        "draws, 0.6 are.",
        "A difference between noise and draws that is smaller than the rounding of the weights is not detected. With "
        "Adam, nor is an error of an update that is smaller than a ten-thousandth of it.",
        "Keys are compared within a run, not between the machines of a federation.",
    ]


def _samples(check: NoiseCheck) -> list[str]:
    """Return the limits of the comparison of samples with the draws of the steps' keys."""
    moment, batch = _moment(check), "batch size" if check.unit == "sentence" else "number of sampled clients"
    return [
        f"A {check.unit} that is wrongly in a sample is detected at the first such {moment}. A {check.unit} that is "
        f"wrongly left out is detected only if this {moment} compares it. Each {moment} compares the next 256 "
        f"{check.unit}s, or about twice the {batch} if that is more."
    ]


def _coarse_samples(check: NoiseCheck) -> list[str]:
    """Return the limits of the sampling check; empty without random sampling."""
    if check.batch_std_planned is None:
        return []
    steps = "steps" if check.unit == "sentence" else "rounds"
    return [
        f"In a run of few {steps} that each sample most of the {check.unit}s, the check cannot detect a {check.unit} "
        "that is in every sample. Nor can it detect a division by the actual instead of the expected batch size. "
        "In both cases a correct run gives similar values."
    ]
