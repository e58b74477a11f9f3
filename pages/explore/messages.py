"""Texts of Explore about a run. Does not use Streamlit."""

import math
from collections.abc import Sequence

from engine.config import SYNTHETIC, SimulationConfig
from engine.experiments.statistics import ScoreSpread
from engine.records import EntityScores, NoiseCheck, PrivacySpent, RoundRecord, Run, RunState
from engine.reports.noise_check import blind_spots, check_rows, looked_less
from engine.reports.numbers import delta_text, epsilon_text
from engine.reports.scores import f1_text
from engine.service import Estimate, Preview
from pages.shared.messages import duration, percent

TIERS = {
    "strong": "strong: ε ≤ 1",
    "reasonable": "reasonable: 1 < ε ≤ 10",
    "weak": "weak: ε > 10",
    "none": "no privacy",
}
"""Strength of the guarantee of an ε, by Ponomareva et al. 2023, "How to DP-fy ML", section 5.2.1."""


def answer(run: Run | None, preview: Preview, reference: EntityScores | None, seeds: ScoreSpread | None = None) -> str:
    """Return the headline: the result of a configuration, or the state of its run.

    Args:
        run: The run, or None if the configuration has not been run.
        preview: Planned ε and overlap of the configuration.
        reference: Test scores of the run without privacy, if there is one.
        seeds: Scores over several seeds, if there are several.
    """
    if run and run.final and run.final.test:
        return f"{_done(run.final, run.final.test, reference, seeds)} {preview.overlap.optimism_bias()}".strip()
    if run is None:
        return f"Not run yet. Planned privacy cost: {cost(preview.privacy)}."
    state = run.status.state
    if state == RunState.QUEUED:
        position = run.status.queue_place or 1
        return f"Queued (position {position})."
    if state == RunState.RUNNING:
        return _running(run)
    if state == RunState.FAILED:
        return f"The run failed. {run.status.error or ''}".strip()
    return f"Stopped at {percent(run.status.progress)} of the training; the results so far are saved."


def over_seeds(runs: Sequence[Run], found: ScoreSpread | None) -> str:
    """Return progress and scores of the runs with other seeds; empty if there is one run.

    Args:
        runs: The runs with these settings and any seed.
        found: Scores over the finished runs, or None if fewer than two are finished.
    """
    if len(runs) < 2:
        return ""
    done = sum(run.final is not None for run in runs)
    names = ", ".join(str(run.config.seed) for run in runs)
    state = f"Runs of this configuration: {len(runs)} seeds ({names})"
    if done < len(runs):
        state = f"Runs of this configuration: {done} of {len(runs)} seeds ({names}) {'is' if done == 1 else 'are'} done"
    if found is None:
        return f"{state}."
    parts = (("F1", found.f1), ("precision", found.precision), ("recall", found.recall))
    text = f"{state}: " + ", ".join(f"{name} {score.text}" for name, score in parts) + "; mean ± standard deviation."
    if runs[0].config.privacy.private:
        text += " The ε is for one run; releasing several models has a larger ε."
    return text


def _done(last: RoundRecord, test: EntityScores, reference: EntityScores | None, seeds: ScoreSpread | None) -> str:
    privacy = last.privacy
    if last.noise_check and last.noise_check.failed:
        return f"Not private: the noise check failed. Recall {percent(test.recall)}, F1\u00a0{f1_text(test)}."
    start = "Without noise" if math.isinf(privacy.epsilon) else f"At {cost(privacy)}"
    if math.isinf(privacy.epsilon) and privacy.assumptions:  # noise was added, but the features' training had none
        start = "Not private, although noise was added"
    if not (seeds.recall.mean if seeds else test.recall):
        text = f"{start}: no correct entity, F1 0."
    elif seeds:
        text = (
            f"{start}: recall {percent(seeds.recall.mean)}, precision {percent(seeds.precision.mean)}, "
            f"F1\u00a0{seeds.f1.mean:.2f}\u00a0±\u00a0{seeds.f1.sd:.2f}, {seeds.f1.number} seeds."
        )
    else:
        text = f"{start}: recall {percent(test.recall)}, precision {percent(test.precision)}, F1\u00a0{f1_text(test)}."
    if reference and not math.isinf(privacy.epsilon):
        text += f" Without noise: F1\u00a0{reference.f1:.2f}."
    return text


def _running(run: Run) -> str:
    if not run.records:
        stage = run.status.stage or "starting"
        return f"{stage[:1].upper()}{stage[1:]} …"
    last = run.records[-1]
    if last.noise_check and last.noise_check.failed:
        return f"Training, and not private: the noise check failed. F1 {last.scores.f1:.2f} so far."
    spent = "without noise" if math.isinf(last.privacy.epsilon) else f"{cost(last.privacy)} spent"
    if last.scores.recall == 0:
        return f"Training, {spent}: no correct entity yet."
    share = percent(last.scores.recall)
    return f"Training, {spent}: recall {share}, F1 {last.scores.f1:.2f} so far."


def computing(config: SimulationConfig) -> str:
    """Return the message while the preview is computed."""
    if config.platforms:
        return "Comparing the sentences of all clients. This takes some seconds for new corpora …"
    return "Computing the privacy cost …"


def as_published(missing: str) -> str:
    """Return the notice on a published run whose corpora are not installed."""
    return (
        f"{missing.removesuffix('.')}.\n\nThis page shows the published run. It cannot be verified without its "
        "corpora. So the split among clients, shared sentences, overlap with the features' data and group privacy are "
        "unknown. New runs need the corpora too."
    )


def cost(privacy: PrivacySpent) -> str:
    """Format ε with its δ."""
    if math.isinf(privacy.epsilon):
        return "ε = ∞ (no privacy)"
    return f"ε = {epsilon_text(privacy.epsilon)} (δ = {delta_text(privacy.delta)})"


def assumptions(privacy: PrivacySpent, config: SimulationConfig) -> str:
    """Return the assumptions of ε in one line."""
    if math.isinf(privacy.epsilon):
        return f"Not private: no privacy guarantee · seed {config.seed}"
    sampling = "Poisson sampling" if config.privacy.sampling == "poisson" else "shuffled batches, no amplification"
    if config.privacy.kind.client_side_noise:
        share = "a share of the noise" if config.privacy.kind.distributed_noise else "noise"
        sampling = f"{share} on each update"
    elif config.privacy.kind.client_level:
        sampling = "Poisson sampling of clients" if config.federation.participants else "no sampling of clients"
    accountant = "exact accounting" if privacy.accountant == "exact" else f"{privacy.accountant.upper()} accountant"
    sampling += " · noise from the operating system" if config.privacy.noise_source == "system" else ""
    types = "" if privacy.types_are_public else " · entity types: not claimed"
    return f"Protects {privacy.unit} ({privacy.neighbouring}) · {sampling} · {accountant}{types}"


def caution(privacy: PrivacySpent, config: SimulationConfig) -> str:
    """Return why this ε does not protect this model, or why there is no finite ε; empty if the model is protected."""
    if math.isinf(privacy.epsilon):
        return privacy.assumptions[0] if privacy.assumptions else ""
    if config.privacy.noise_source == "system":
        return ""
    return f"Simulation only: the noise seed ({config.seed}) is public, so this model is not protected."


def check_label(check: NoiseCheck, *, final: bool = True) -> str:
    """Return the label of the noise check, in Markdown; ``final`` states whether the run has ended."""
    if check.failed:
        return ":red[Noise check failed]"
    if not check.measurable:
        return "Noise not measurable"
    return (
        ":green[Noise check passed]"
        if final
        else f"Noise check: no fault in {check.steps:,} step{'s' if check.steps != 1 else ''} so far"
    )


def check_paragraphs(check: NoiseCheck) -> list[str]:
    """Return the measurements of a noise check, its result and its limits, in paragraphs."""
    rows = [f"| {name} | {value} | {planned or '–'} |" for name, value, planned in check_rows(check)]
    paragraphs = [
        "Training without noise looks the same to its user. So the check does not rely on the settings. It measures "
        f"the noise of each of {check.steps:,} steps on some or all weights, from their values before and after the "
        "step.",
        "\n".join(["| | measured | planned |", "|---|---|---|", *rows]),
    ]
    if not check.measurable:
        hidden = "The noise is smaller than the rounding of the weights, so only clipping and sampling were measured."
        paragraphs.append(hidden)
    if check.failed:
        paragraphs.append("Deviations:\n" + "\n".join(f"- {fault}" for fault in check.faults))
    elif check.passed and not looked_less(check):
        paragraphs.append(
            "All statistics are within their tolerance. A correct run fails with a probability below one in a million."
        )
    if less := looked_less(check):
        paragraphs.append(less)
    missed = "\n".join(f"- {sentence}" for sentence in blind_spots(check))
    return [*paragraphs, f"Limits of the check (more in docs/metrics.md, *The noise check*):\n{missed}"]


def estimate(found: Estimate) -> str:
    """Describe the expected duration of a run, with its range or the machine of the estimate."""
    about = f"about {duration(found.seconds)}"
    if found.machine:
        return f"{about} on another machine ({found.machine})"
    return about + (f" ({duration(found.least)} to {duration(found.most)})" if found.most > 1.25 * found.least else "")


def time_left(run: Run) -> str:
    """Estimate the remaining duration of a run from its records; return an empty string before the second one."""
    if len(run.records) < 2:
        return ""
    first, last = run.records[0], run.records[-1]
    per_step = (last.seconds - first.seconds) / max(1, last.step - first.step)
    return duration(per_step * (last.steps_total - last.step))


def corpus_note(name: str, title: str) -> str:
    """Return the description of the corpus in the line below the headline."""
    return "Synthetic corpus: generated sentences, no personal data" if name == SYNTHETIC else title
