"""Texts of Explore about the meaning of an ε. Does not use Streamlit."""

import math

from engine.config import SimulationConfig
from engine.config.mechanism_registry import ZERO_OUT
from engine.records import PrivacySpent
from engine.reports.numbers import SURE, delta_text, epsilon_text, right_text


def paragraphs(privacy: PrivacySpent, config: SimulationConfig) -> list[str]:
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
    texts = [
        f"An attacker has the trained weights, {_attack(privacy)} "
        f"A random guess is right half the time. With {_unbroken('ε', epsilon_text(privacy.epsilon))} the attacker is "
        f"right at most {right_text(privacy.epsilon)} of the time, plus at most "
        f"{_unbroken('δ', delta_text(privacy.delta))}.",
        _adjacency(privacy, config),
    ]
    if privacy.accountant != "exact":
        looser = f"Rényi accounting, a looser bound, gives ε = {epsilon_text(privacy.rdp_epsilon)}."
        tiny = "Rényi accounting computes ε, since rounding would decide a tighter one at so small a δ."
        texts.append(tiny if privacy.accountant == "rdp" else looser)
    if (papers := privacy.poisson_epsilon) is not None:
        often = f"Papers often report ε = {epsilon_text(papers)} for such batches. This value assumes Poisson "
        texts.append(f"{often}sampling, which was not used; it is not valid here.")
    return [*texts, "This ε assumes:\n" + "\n".join(f"- {sentence}" for sentence in privacy.assumptions)]


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
        return (
            "The program split the corpus, or an earlier version did not record this. So one more sentence may move "
            "others, for example to the test set."
        )
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
