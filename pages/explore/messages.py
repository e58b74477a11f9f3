"""Texts of Explore about a run. Does not use Streamlit."""

import math
from collections.abc import Sequence

from engine.config import SYNTHETIC, SimulationConfig
from engine.config.mechanism_registry import ZERO_OUT
from engine.experiments.statistics import ScoreSpread
from engine.records import EntityScores, NoiseCheck, PrivacySpent, RoundRecord, Run, RunState
from engine.reports.noise_check import blind_spots, check_rows, looked_less
from engine.reports.numbers import SURE, delta_text, epsilon_text, right_text
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


def promise(privacy: PrivacySpent, config: SimulationConfig) -> list[str]:
    """Return the meaning of an ε in paragraphs; the last one lists its assumptions."""
    if privacy.assumptions and math.isinf(privacy.epsilon):
        return list(privacy.assumptions)
    if math.isinf(privacy.epsilon):
        return [
            "This run adds no noise, so it has no privacy guarantee. An attacker may recover training sentences from "
            "the weights; nothing bounds the attacker's success."
        ]
    # Hypothesis testing view (Wasserman and Zhou 2010; Kairouz et al. 2015): an attacker with a prior of 1/2 is right
    # with probability at most e^ε / (1 + e^ε), ignoring δ.
    paragraphs = [
        f"An attacker has the trained weights, {_attack(privacy)} "
        f"A random guess is right half the time. With {_unbroken('ε', epsilon_text(privacy.epsilon))} the attacker is "
        f"right at most {right_text(privacy.epsilon)} of the time, plus at most "
        f"{_unbroken('δ', delta_text(privacy.delta))}.",
        _adjacency(privacy, config),
    ]
    if privacy.accountant != "exact":
        looser = f"Rényi accounting, a looser bound, gives ε = {epsilon_text(privacy.rdp_epsilon)}."
        tiny = "Rényi accounting computes ε, since rounding would decide a tighter one at so small a δ."
        paragraphs.append(tiny if privacy.accountant == "rdp" else looser)
    if (papers := privacy.poisson_epsilon) is not None:
        often = f"Papers often report ε = {epsilon_text(papers)} for such batches. This value assumes Poisson "
        paragraphs.append(f"{often}sampling, which was not used; it is not valid here.")
    return [*paragraphs, "This ε assumes:\n" + "\n".join(f"- {sentence}" for sentence in privacy.assumptions)]


def _unbroken(name: str, value: str) -> str:
    """Return a value with its name, without a possible line break."""
    return f"{name}\u00a0=\u00a0{value}".replace("-", "\u2011")


def _attack(privacy: PrivacySpent) -> str:
    """Describe the attacker's knowledge and goal."""
    if privacy.unit == PrivacySpent.unit:
        return f"knows every other training sentence, and tries to infer whether {privacy.unit} was in the data."
    if privacy.neighbouring == PrivacySpent.neighbouring:
        return "knows the data of every other client, and tries to infer whether one more client took part."
    return "knows the data of every other client, and tries to infer which of two sets of sentences one client has."


def _adjacency(privacy: PrivacySpent, config: SimulationConfig) -> str:
    if privacy.unit == PrivacySpent.unit:
        adjacent = (
            f"an empty sentence replaces one sentence (zero-out). {_why_zero_out(config)}"
            if privacy.neighbouring == ZERO_OUT
            else "one sentence is added or removed."
        )
        return (
            f"Two corpora are adjacent if {adjacent} The guarantee is weaker for a person named in k sentences: the ε "
            "of all k sentences can be more than k times this ε."
        )
    return f"The protected unit is {privacy.unit}. Two federations are adjacent if you {privacy.neighbouring}."


def _why_zero_out(config: SimulationConfig) -> str:
    """Return why ε does not hold for adding a sentence: what one more sentence may change for others."""
    if not config.moves_sentences:
        return "The program split the corpus, so one more sentence may move others, for example to the test set."
    federation, reasons = config.federation, []
    if config.data_fraction < 1:
        reasons = [
            "The program chooses the share of the data by the sentences' positions and number, so one more "
            "sentence may change which others are used."
        ]
    if federation.clients > 1 and not config.platforms:
        by_number = federation.partition not in ("document", "natural")
        how = "by their positions and number" if by_number else "in whole documents or sections"
        reasons.append(
            f"The program assigns sentences to clients {how}, so one more sentence may move others to other clients."
        )
    if federation.schedule == "incremental" and federation.rounds > 1:
        reasons.append(
            "The program assigns each client's sentences to phases by their positions and number, so one more sentence "
            "may move others to other phases."
        )
    return " ".join(reasons)


def worst_person(privacy: PrivacySpent, config: SimulationConfig) -> str:
    """Return which change of the data the ε of a person with several sentences covers."""
    change = "all these sentences are added or removed together"
    if privacy.neighbouring == ZERO_OUT:
        change = "empty sentences replace all these sentences together"
    several = " This holds for sentences at one client or at several." if config.federation.clients > 1 else ""
    return (
        f"This ε is group privacy at the same δ: {change}. It covers the worst case: all their gradients have the clip "
        f"norm and the same direction.{several}"
    )


def no_person(config: SimulationConfig) -> str:
    """Return why there is no ε for a person with several sentences; empty if there is an ε."""
    if config.privacy.kind.client_level:
        return (
            "A person whose sentences are all at one client is protected with that client. A person with sentences at "
            "several clients counts as a group of clients, with a weaker guarantee."
        )
    if config.privacy.sampling != "poisson":
        return (
            "No ε is known for a person named in several sentences: in shuffled batches, removing sentences moves "
            "others into other batches, and this effect has no known bound here."
        )
    return ""


def person(sentences: int, epsilon: float) -> str:
    """Describe the guarantee for a person who is named in this number of sentences."""
    many = "one sentence" if sentences == 1 else f"{sentences:,} sentences"
    return f"A person named in {many}: {odds(epsilon)}"


def odds(epsilon: float) -> str:
    """Describe an ε by the attacker's largest success rate."""
    value = epsilon_text(epsilon)
    right = right_text(epsilon)
    if epsilon > SURE:
        return f"**ε = {value}**, a weak guarantee: an attacker can be right {right} of the time."
    return f"**ε = {value}**; an attacker is right at most {right} of the time."


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
