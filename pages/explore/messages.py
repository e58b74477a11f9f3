"""What Explore says about a run, in sentences: no streamlit."""

import math
from collections.abc import Sequence

from engine.config import SYNTHETIC, SimulationConfig
from engine.experiments.statistics import ScoreSpread
from engine.records import EntityScores, FederatedRound, NoiseCheck, PrivacySpent, RoundRecord, Run, RunState
from engine.reports.noise_check import blind_spots, check_rows, looked_less
from engine.reports.numbers import SURE, delta_text, epsilon_text, right_text
from engine.reports.scores import f1_text
from engine.service import Estimate, Holdings, Preview
from pages.shared.messages import duration, percent

TIERS = {
    "strong": "strong: ε ≤ 1",
    "reasonable": "reasonable: 1 < ε ≤ 10",
    "weak": "weak: ε > 10",
    "none": "no privacy",
}
"""Ponomareva et al. 2023, "How to DP-fy ML", section 5.2.1."""


def answer(run: Run | None, preview: Preview, reference: EntityScores | None, seeds: ScoreSpread | None = None) -> str:
    """The first thing a reader sees: what this configuration gives, or what stands between. seeds: what it gives over
    several of them."""
    if run and run.final and run.final.test:
        return f"{_done(run.final, run.final.test, reference, seeds)} {preview.overlap.optimism_bias()}".strip()
    if run is None:
        return f"Not run yet. Planned privacy cost: {cost(preview.privacy)}."
    state = run.status.state
    if state == RunState.QUEUED:
        place = run.status.queue_place or 1
        return f"Queued (position {place})."
    if state == RunState.RUNNING:
        return _running(run)
    if state == RunState.FAILED:
        return f"The run failed. {run.status.error or ''}".strip()
    return f"Stopped at {percent(run.status.progress)} of the training; its records are kept."


def over_seeds(runs: Sequence[Run], found: ScoreSpread | None) -> str:
    """How far the runs with other seeds are, and what those give that are done; empty where there is one run."""
    if len(runs) < 2:
        return ""
    done = sum(run.final is not None for run in runs)
    which = ", ".join(str(run.config.seed) for run in runs)
    far = f"{len(runs)} seeds ({which})" if done == len(runs) else f"{done} of {len(runs)} seeds ({which}) are done"
    if found is None:
        return f"{far}."
    parts = (("F1", found.f1), ("precision", found.precision), ("recall", found.recall))
    text = f"{far}: " + ", ".join(f"{name} {each.text}" for name, each in parts) + "; mean ± standard deviation."
    if runs[0].config.privacy.private:
        text += " ε is that of one run: releasing several models reveals more."
    return text


def _done(last: RoundRecord, test: EntityScores, reference: EntityScores | None, seeds: ScoreSpread | None) -> str:
    privacy = last.privacy
    if last.noise_check and last.noise_check.failed:
        return f"Not private: the noise check failed. Recall {percent(test.recall)}, F1\u00a0{f1_text(test)}."
    start = "Without privacy" if math.isinf(privacy.epsilon) else f"At {cost(privacy)}"
    if math.isinf(privacy.epsilon) and privacy.assumptions:  # noise was added, but what was learned before had none
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
        text += f" Without privacy: {reference.f1:.2f}."
    return text


def _running(run: Run) -> str:
    if not run.records:
        stage = run.status.stage or "starting"
        return f"{stage[:1].upper()}{stage[1:]} …"
    last = run.records[-1]
    if last.noise_check and last.noise_check.failed:
        return f"Training, and not private: the noise check failed. F1 {last.scores.f1:.2f} so far."
    spent = "without privacy" if math.isinf(last.privacy.epsilon) else f"{cost(last.privacy)} spent"
    if last.scores.recall == 0:
        return f"Training, {spent}: no correct entity yet."
    share = percent(last.scores.recall)
    return f"Training, {spent}: recall {share}, F1 {last.scores.f1:.2f} so far."


def working_out(config: SimulationConfig) -> str:
    """What keeps a reader waiting before there is anything to see."""
    if config.platforms:
        return "Comparing the sentences of all clients. This takes some seconds for new corpora …"
    return "Computing the privacy cost …"


def as_published(missing: str) -> str:
    """What is shown, and what cannot be, where the corpus of a published run is not here."""
    return (
        f"{missing.removesuffix('.')}.\n\nYou see the published run. It cannot be verified without its corpora: the "
        "split among clients, shared sentences, overlap with the features' data and group privacy are unknown. "
        "New runs need the corpora too."
    )


def cost(privacy: PrivacySpent) -> str:
    """ε with its δ."""
    if math.isinf(privacy.epsilon):
        return "all privacy (ε = ∞)"
    return f"ε = {epsilon_text(privacy.epsilon)} (δ = {delta_text(privacy.delta)})"


def epsilon(privacy: PrivacySpent) -> str:
    """ε alone."""
    return epsilon_text(privacy.epsilon)


def assumptions(privacy: PrivacySpent, config: SimulationConfig) -> str:
    """One line on which everything rests."""
    if math.isinf(privacy.epsilon):
        return f"Not private: no privacy guarantee · seed {config.seed}"
    drawn = "Poisson sampling" if config.privacy.sampling == "poisson" else "shuffled batches, no amplification"
    if config.privacy.kind.client_side_noise:
        share = "a share of the noise" if config.privacy.kind.distributed_noise else "noise"
        drawn = f"{share} on each update"
    accountant = "exact accounting" if privacy.accountant == "exact" else f"{privacy.accountant.upper()} accountant"
    drawn += " · noise from the operating system" if config.privacy.noise_source == "system" else ""
    return f"Protects {privacy.unit} ({privacy.neighbouring}) · {drawn} · {accountant}"


def caution(privacy: PrivacySpent, config: SimulationConfig) -> str:
    """Why the ε above does not protect this very tagger, or noise did not make one; empty where it does."""
    if math.isinf(privacy.epsilon):
        return privacy.assumptions[0] if privacy.assumptions else ""
    if config.privacy.noise_source == "system":
        return ""
    return f"Simulation only: the noise seed ({config.seed}) is public, so this model is not protected."


def federation(config: SimulationConfig) -> str:
    """Clients and rounds in a few words; empty for central training."""
    found = config.federation
    if found.central:
        return ""
    clients = f"{found.clients:,} clients" if found.clients > 1 else "one client"
    if found.schedule == "gradients":
        return f"{clients}, gradients at each step"
    some = f", {found.participants:,} a round" if found.participants else ""
    rounds = f"{found.rounds:,} rounds" if found.rounds > 1 else "one round"
    return f"{clients}{some}, {rounds}" + (", a piece of the data each" if found.schedule == "incremental" else "")


def travelled(last: FederatedRound) -> str:
    """What moved between clients and server."""
    failed = ""
    if last.failed:
        names = ", ".join(str(client + 1) for client in last.failed)
        failed = f" Left out of the last round, since their weights stopped being finite: client {names}."
    lay = f", which lay {last.drift:.3g} apart from their mean (L2, root mean square)" if last.update_norms else ""
    return (
        f"Round {last.round:,} of {last.rounds:,}: {len(last.clients):,} clients joined their weights{lay}. Sent so "
        f"far: {megabytes(last.bytes_down)} to clients, {megabytes(last.bytes_up)} back.{failed}"
    )


def holdings(found: Holdings) -> str:
    """The split in a sentence."""
    least, most = min(found.sentences), max(found.sentences)
    sizes = f"{least:,} sentences each" if least == most else f"{least:,} to {most:,} sentences each"
    return f"{len(found.sentences):,} clients with {sizes}, {sum(found.tokens):,} tokens in all."


def megabytes(number: int) -> str:
    """Bytes in MB, or GB."""
    return f"{number / 1e6:,.1f} MB" if number < 1e9 else f"{number / 1e9:,.2f} GB"


def promise(privacy: PrivacySpent) -> list[str]:
    """What ε says, for somebody who must judge it: paragraphs."""
    if privacy.assumptions and math.isinf(privacy.epsilon):
        return list(privacy.assumptions)
    if math.isinf(privacy.epsilon):
        return [
            "This run adds no noise, so it has no privacy guarantee. An attacker may find a training sentence in "
            "the weights, with a certainty that nothing bounds."
        ]
    # Hypothesis testing view (Wasserman and Zhou 2010; Kairouz et al. 2015): an attacker with a fair prior is right
    # with probability at most e^ε / (1 + e^ε), leaving δ aside.
    sure = 1 / (1 + math.exp(-privacy.epsilon))
    paragraphs = [
        f"An attacker has the trained weights, {_attack(privacy)} "
        f"A guess is right half the time. With {_whole('ε', epsilon_text(privacy.epsilon))} the attacker is right at "
        f"most {percent(sure)} of the time, except with probability {_whole('δ', delta_text(privacy.delta))}.",
        _neighbours(privacy),
    ]
    if privacy.accountant != "exact":
        paragraphs.append(f"The same by Rényi accounting: ε = {epsilon_text(privacy.rdp_epsilon)}.")
    if privacy.poisson_epsilon is not None:
        paragraphs.append(
            f"Papers often report ε = {epsilon_text(privacy.poisson_epsilon)} for such batches. This value assumes "
            "Poisson sampling, which was not used; it is not valid here."
        )
    return [*paragraphs, "This ε assumes:\n" + "\n".join(f"- {sentence}" for sentence in privacy.assumptions)]


def _whole(name: str, value: str) -> str:
    """A number with its name, which no line breaks in two."""
    return f"{name}\u00a0=\u00a0{value}".replace("-", "\u2011")


def _attack(privacy: PrivacySpent) -> str:
    """What they know, and what they want to tell."""
    if privacy.unit == PrivacySpent.unit:
        return f"knows every other training sentence, and tries to infer whether {privacy.unit} was in the data."
    if privacy.neighbouring == PrivacySpent.neighbouring:
        return "knows the data of every other client, and tries to infer whether one more client took part."
    return "knows the data of every other client, and tries to infer which of two sets of sentences one client has."


def _neighbours(privacy: PrivacySpent) -> str:
    if privacy.unit == PrivacySpent.unit:
        return (
            "Two corpora are adjacent if one sentence is added or removed. The guarantee is weaker for a person who is "
            "named in k sentences, and can be more than k times this ε."
        )
    return f"The protected unit is {privacy.unit}. Two federations are adjacent if you {privacy.neighbouring}."


WORST_PERSON = (
    "At the same δ, for adding or removing all of them at once. In the worst case all gradients point one way, each "
    "with the largest norm that clipping allows."
)
WORST_PERSON_OF_SEVERAL = f"{WORST_PERSON} This holds for sentences at one client or at several."


def no_person(config: SimulationConfig) -> str:
    """Why there is no ε for a person with several sentences; empty if there is one."""
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
    """What somebody is promised who is named in so many sentences."""
    many = "one sentence" if sentences == 1 else f"{sentences:,} sentences"
    return f"A person named in {many}: {odds(epsilon)}"


def odds(epsilon: float) -> str:
    """ε, and how often an attacker who guesses may be right."""
    value = epsilon_text(epsilon)
    right = right_text(epsilon)
    if epsilon > SURE:
        return f"**ε = {value}**, no meaningful guarantee: an attacker can be right {right} of the time."
    return f"**ε = {value}**; an attacker is right at most {right} of the time."


def check_label(check: NoiseCheck) -> str:
    """The badge's text, in Markdown."""
    if check.failed:
        return ":red[Noise check failed]"
    return "Noise not measurable" if check.noise_std is None else ":green[Noise check passed]"


def check_paragraphs(check: NoiseCheck) -> list[str]:
    """What was measured and why, for somebody who must judge it."""
    rows = [f"| {name} | {found} | {planned} |" for name, found, planned in check_rows(check)]
    found = [
        "Training without its noise looks the same from outside. So the noise was measured on the weights, before and "
        f"after each of {check.steps:,} steps, and not read from the settings.",
        "\n".join(["| | measured | planned |", "|---|---|---|", *rows]),
    ]
    if check.noise_std is None:
        found.append(
            "Here the noise is smaller than the last digit of the weights, so it cannot be measured on them; "
            "clipping and sampling were."
        )
    if check.failed:
        found.append("Deviations:\n" + "\n".join(f"- {fault}" for fault in check.faults))
    elif check.passed and not looked_less(check):
        found.append(
            "All statistics are within their tolerance. A run that follows its plan fails less than once in a million."
        )
    if less := looked_less(check):
        found.append(less)
    missed = "\n".join(f"- {sentence}" for sentence in blind_spots(check))
    return [*found, f"Limits of the check (more in docs/metrics.md, *The noise check*):\n{missed}"]


def estimate(found: Estimate) -> str:
    """How long a run may take, and by what that is judged."""
    about = f"about {duration(found.seconds)}"
    if found.machine:
        return f"{about} on another machine ({found.machine})"
    between = f", between {duration(found.least)} and {duration(found.most)}"
    return about + (between if found.most > 1.25 * found.least else "")


def time_left(run: Run) -> str:
    """How long a run may still take, judged by its records so far; empty before the second one."""
    if len(run.records) < 2:
        return ""
    first, last = run.records[0], run.records[-1]
    per_step = (last.seconds - first.seconds) / max(1, last.step - first.step)
    return duration(per_step * (last.steps_total - last.step))


def corpus_note(name: str, title: str) -> str:
    """The corpus in a line under the answer."""
    return "Synthetic corpus: generated sentences, no personal data" if name == SYNTHETIC else title
