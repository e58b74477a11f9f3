"""What an ε rests on, one row an assumption, and whether it was checked in this very run."""

import math
from dataclasses import dataclass
from enum import StrEnum

from engine.privacy import accounting
from engine.records import NoiseCheck
from engine.reports.numbers import delta_text, epsilon_text
from engine.reports.privacy_report.evidence import Evidence, Verdict

_AGREES = 0.01
"""Relative difference of two computations of one ε by Rényi accounting that steps rounded otherwise may explain."""


class Held(StrEnum):
    """How far an assumption, or an answer, can be relied on."""

    CHECKED = "claimed and checked"
    CLAIMED = "claimed"
    NOT = "not claimed"


@dataclass(frozen=True)
class Assumption:
    """name: what is assumed. held: how far. why: what was looked at, and what not."""

    name: str
    held: Held
    why: str


def rows(evidence: Evidence) -> list[Assumption]:
    """All of them, that on noise first. Where the noise check failed, or without noise, none is claimed."""
    found = [
        _noise(evidence),
        _clipping(evidence),
        _sampling(evidence),
        _accountant(evidence),
        _unit(evidence),
        _delta(evidence),
        _source(evidence),
        _public(evidence),
        *_clients(evidence),
        _secret(evidence),
        _searches(evidence),
        _floating(),
    ]
    if evidence.promises:
        return found
    measured = (_noise, _clipping, _sampling) if evidence.check else ()
    told = {each(evidence).name for each in (*measured, *((_public,) if evidence.verdict is Verdict.BROKEN else ()))}
    return [Assumption(each.name, Held.NOT, each.why if each.name in told else nothing(evidence)) for each in found]


def nothing(evidence: Evidence) -> str:
    """What is said where something rests on a promise that is not made."""
    return f"Nothing is promised: {evidence.verdict}."


def _of(check: NoiseCheck | None, good: bool, why: str, name: str) -> Assumption:
    if check is None:
        return Assumption(name, Held.NOT, "No noise is added, so nothing was measured.")
    return Assumption(name, Held.CHECKED if good and not check.failed else Held.CLAIMED, why)


def _noise(evidence: Evidence) -> Assumption:
    name, check = "Noise of the planned size is added at every step", evidence.check
    if check is None or check.noise_std is None:
        return _of(check, False, "The rounding of the weights hides the noise, so it could not be measured.", name)
    why = (
        f"Measured on the weights over {check.steps:,} steps: {check.noise_std:.5g} on each, planned "
        f"{check.noise_planned:.5g} ± {check.noise_tolerance:.2g}."
    )
    return _of(check, True, why, name)


def _clipping(evidence: Evidence) -> Assumption:
    check, unit = evidence.check, evidence.check.unit if evidence.check else "sentence"
    name = f"No {unit} moves the weights further than the clip norm"
    if check is None or not check.sentences_measured:
        return _of(check, False, f"No {unit} was measured alone.", name)
    why = (
        f"The longest of {check.sentences_measured:,} {unit}s measured alone: {check.clipped_norm_max:.5g}, at most "
        f"{check.clip_norm:.5g} allowed. The others were not looked at one by one."
    )
    return _of(check, True, why, name)


def _sampling(evidence: Evidence) -> Assumption:
    check, config = evidence.check, evidence.run.config.privacy
    if config.sampling != "poisson":
        name = "Nothing is gained by drawing sentences at random"
        return Assumption(name, Held.CLAIMED, "Batches are fixed, so ε has no amplification by sampling.")
    if config.kind.client_side_noise:
        name = "Each message is paid for, whoever sends it"
        return Assumption(name, Held.CLAIMED, "ε has no amplification by sampling.")
    name = "Each step draws independently, with the same probability (Poisson)"
    if check is None or check.batch_std_planned is None:
        return _of(check, False, "How many were drawn was not compared with what chance gives.", name)
    what = "Sentences a step" if check.unit == "sentence" else "Clients a round"
    why = (
        f"{what}: {check.batch_mean:.4g} ± {check.batch_std:.3g}, planned {check.batch_planned:.4g} ± "
        f"{check.batch_std_planned:.3g}. That the draws do not hang on what was drawn is how the program is made."
    )
    return _of(check, True, why, name)


def _accountant(evidence: Evidence) -> Assumption:
    name, privacy, theirs = "ε is added up rightly", evidence.privacy, evidence.statement
    how = {"pld": "privacy loss distributions", "exact": "the exact formula for Gaussian noise"}
    ours = f"ε = {epsilon_text(privacy.epsilon)} by {how.get(privacy.accountant, privacy.accountant)}"
    if privacy.accountant == "pld":
        ours += f", {epsilon_text(privacy.rdp_epsilon)} by Rényi accounting, which is never below it in theory"
    if theirs is None or privacy.poisson_epsilon is not None or math.isinf(privacy.rdp_epsilon):
        return Assumption(name, Held.CLAIMED, f"{ours}. No second program was asked.")
    agreed = abs(theirs.poisson - privacy.rdp_epsilon) <= max(0.0005, _AGREES * privacy.rdp_epsilon)
    said = f"{ours}. TensorFlow Privacy says {theirs.poisson:g} by Rényi accounting, for the same steps"
    held = Held.CHECKED if agreed and privacy.epsilon <= privacy.rdp_epsilon * (1 + _AGREES) else Held.NOT
    return Assumption(name, held, f"{said}: {'the two agree' if agreed else 'THE TWO DO NOT AGREE'}.")


def _unit(evidence: Evidence) -> Assumption:
    privacy = evidence.privacy
    why = f"The promise is for {privacy.unit}; two data sets are neighbours if you {privacy.neighbouring}."
    if not evidence.run.config.privacy.kind.client_level:
        why += " Somebody named in several sentences is promised less: see “For whom, and against whom”."
    return Assumption("What is protected is what matters to people", Held.CLAIMED, why)


def _delta(evidence: Evidence) -> Assumption:
    number = evidence.plan[0].examples if evidence.plan else evidence.made.train_sentences
    clients = evidence.run.config.privacy.kind.client_level
    if clients:
        number = evidence.run.config.federation.clients
    delta, of = evidence.privacy.delta, "clients" if clients else "training sentences"
    small = delta < 1 / number
    why = (
        f"δ = {delta_text(delta)}, 1/n = {delta_text(float(f'{1 / number:.2g}'))} for {number:,} {of}"
        + ("." if clients or not evidence.plan or number == evidence.made.train_sentences else " of one client.")
        + ("" if small else " A δ that is not smaller would allow a mechanism that publishes one of them whole.")
    )
    return Assumption("δ is small beside 1/n", Held.CHECKED if small else Held.NOT, why)


def _source(evidence: Evidence) -> Assumption:
    name, config = "Nobody knows the noise", evidence.run.config
    if config.privacy.noise_source == "system":
        return Assumption(
            name, Held.CLAIMED, f"{accounting.SYSTEM} That nobody copied them meanwhile is not seen here."
        )
    why = f"The noise comes from seed {config.seed}, which is printed: whoever knows it can subtract the noise."
    return Assumption(name, Held.NOT, f"{why} This very tagger is not protected; one made with new noise would be.")


def _public(evidence: Evidence) -> Assumption:
    name = "What the tagger is given besides the sentences is public"
    if evidence.verdict is Verdict.BROKEN:
        return Assumption(name, Held.NOT, " ".join(evidence.privacy.assumptions))
    why = "Word vectors, tag names, numbers of sentences or clients and all settings were fixed in advance."
    if evidence.run.config.features not in ("contextual", "tuned", "names"):
        return Assumption(name, Held.CLAIMED, why)
    if evidence.missing:
        return Assumption(name, Held.CLAIMED, f"{why} {evidence.missing}")
    looked = "No training sentence is among those that the features were fitted on here, by checksum."
    return Assumption(name, Held.CLAIMED, f"{why} {looked} What others trained on, before, is not known.")


def _clients(evidence: Evidence) -> list[Assumption]:
    config = evidence.run.config
    if config.federation.central:
        return []
    found = [Assumption("Each party does what is said of it", Held.CLAIMED, config.privacy.kind.trusted)]
    if evidence.shared_alone:
        why = "The parts that a platform keeps learned without noise: its whole tagger has ε = ∞."
        found.append(Assumption("What is given away holds what the platforms share, and no more", Held.NOT, why))
    if not config.privacy.kind.client_level and config.federation.clients > 1:
        why = next((text for text in evidence.privacy.assumptions if text.startswith("Each sentence is")), "")
        found.append(Assumption("No sentence is held by two clients", Held.CLAIMED, why or "So the split is made."))
    return found


def _secret(evidence: Evidence) -> Assumption:
    why = (
        "Training losses, gradient norms and scores on the validation part are shown here without noise, and who was "
        "drawn would have to stay secret. Sentences of the validation and test parts are not protected at all."
    )
    return Assumption("Nothing leaves but the trained weights", Held.NOT, why)


def _searches(evidence: Evidence) -> Assumption:
    why = f"ε is that of this one run. {others_text(evidence)}"
    return Assumption("Nothing else was released from the same sentences", Held.NOT, why)


def others_text(evidence: Evidence) -> str:
    """How many other runs on the same sentences are known, in a sentence."""
    others = evidence.others
    if not others.private and not others.plain:
        return "No other finished run on this corpus is known here."
    return (
        f"Known here are {others.private:,} other finished runs on the same corpus with noise and {others.plain:,} "
        "without: whoever sees several of them learns more."
    )


def _floating() -> Assumption:
    return Assumption("Numbers are exact", Held.NOT, accounting.FLOATING)
