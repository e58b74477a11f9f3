"""The assumptions of an ε, one row each, and whether this run checked them."""

from dataclasses import dataclass
from enum import StrEnum

from engine.config import has_own_corpus
from engine.config.feature_registry import FITTED_ON
from engine.corpus.deduplication import LEAST_WORDS
from engine.records import NoiseCheck, assumption_texts
from engine.reports.labels import corpus_title
from engine.reports.numbers import delta_text, epsilon_text
from engine.reports.privacy_report.evidence import Evidence, Verdict

_KEPT_BACK = "Measured values are withheld, since they would be released without noise."
_SHOWN = "Explore shows them for a simulation, whose seed is public."
_FROM_THE_CODE = "The independence of the samples follows from the program code; it was not measured."
_COMPARED = (
    "Samples were compared with the draws of the steps' keys: each sampled {unit}, and in turn some or all others. The "
    "draws are as independent as the key stream of ChaCha20."
)

SEPARATE = "For the mean privacy loss of a sampled step, the PRV accountant uses a function of this program."
"""How far the second accountant is independent."""
UNSEEN = "Runs of other users, which the user who wrote this report cannot see, are not counted."
"""Limit of the number of other runs, with sign-in."""

COMPOSITION = "ε is composed correctly over all steps"
DELTA = "δ is smaller than 1/n"
HIDDEN_NOISE = "The noise is secret"
DECLARED = "The entity types do not depend on the sentences"
EXACT = "The arithmetic is exact"


class Held(StrEnum):
    """How far the reader can rely on an assumption or an answer."""

    CHECKED = "claimed and checked"
    CLAIMED = "claimed"
    NOT = "not claimed"


@dataclass(frozen=True)
class Assumption:
    """An assumption of an ε.

    Attributes:
        name: the assumption as a sentence.
        held: how far the reader can rely on it.
        why: the evidence, and what it does not cover.
    """

    name: str
    held: Held
    why: str


def rows(evidence: Evidence) -> list[Assumption]:
    """Return all assumptions, that on noise first; none is claimed without noise or after a failed noise check."""
    assumptions = [
        _noise(evidence),
        _clipping(evidence),
        _sampling(evidence),
        _accountant(evidence),
        _unit(evidence),
        _delta(evidence),
        _source(evidence),
        _public(evidence),
        *_own_types(evidence),
        *_clients(evidence),
        _secret(evidence),
        _searches(evidence),
        _floating(),
    ]
    if evidence.promises:
        return assumptions
    builders = [_noise, _clipping, _sampling] if evidence.check else []
    builders += [_public] if evidence.verdict is Verdict.BROKEN else []
    explained = {build(evidence).name for build in builders}
    return [
        Assumption(row.name, Held.NOT, row.why if row.name in explained else nothing(evidence)) for row in assumptions
    ]


def nothing(evidence: Evidence) -> str:
    """Return the sentence for a row that assumes a privacy guarantee which this run does not give."""
    return f"There is no privacy guarantee: {evidence.verdict}."


def _of(check: NoiseCheck | None, good: bool, why: str, name: str) -> Assumption:
    if check is None:
        return Assumption(name, Held.NOT, "The run adds no noise, so there was nothing to measure.")
    return Assumption(name, Held.CHECKED if good and not check.failed else Held.CLAIMED, why)


def _noise(evidence: Evidence) -> Assumption:
    name, check = "Noise of the planned size is added at every step", evidence.check
    if check and check.failed and check.withheld:
        return Assumption(name, Held.NOT, _failed(check))
    if check is None or not check.measurable:
        return _of(check, False, "Rounding of the weights hides the noise, so it could not be measured.", name)
    measured = (
        f"as planned, {check.noise_planned:.5g}, to" if check.withheld else f"{check.noise_std:.5g} on each weight"
    )
    planned = "" if check.withheld else f", planned {check.noise_planned:.5g}"
    why = (
        f"Measured on the weights over {check.steps:,} {evidence.measured}: standard deviation {measured}{planned} ± "
        f"{check.noise_tolerance:.2g}.{_silo_text(evidence)}"
    )
    return _of(check, True, why, name)


def _failed(check: NoiseCheck) -> str:
    """Return the text of a failed noise check whose values are withheld."""
    return f"The noise check failed: {' '.join(check.faults)} Its values are withheld."


def _silo_text(evidence: Evidence) -> str:
    """Return a sentence on the client (silo) whose noise check is shown; empty if one check is for all."""
    if not evidence.checked_silo:
        return ""
    return (
        f" This is the check of the silo {corpus_title(evidence.checked_silo)}; “Scores by client” has the results of "
        "the other silos' checks."
    )


def _clipping(evidence: Evidence) -> Assumption:
    check, unit = evidence.check, evidence.check.unit if evidence.check else "sentence"
    name = f"The contribution of each {unit} is bounded by the clip norm"
    if check and check.failed and check.withheld:
        return Assumption(name, Held.NOT, _failed(check))
    if check and check.withheld and check.looks and unit == "sentence":
        why = (
            f"Single sentences were measured at {check.looks:,} of {check.steps:,} steps; none exceeded the limit of "
            f"{check.clip_norm:.5g}. The other sentences were not measured one by one."
        )
        return _of(check, True, f"{why} {_KEPT_BACK}{_silo_text(evidence)}", name)
    if check is None or not check.sentences_measured:
        return _of(check, False, f"No single {unit} was measured.", name)
    why = (
        f"Largest norm after clipping, of {check.sentences_measured:,} {unit}s measured one by one: "
        f"{check.clipped_norm_max:.5g}; the limit is {check.clip_norm:.5g}. The other {unit}s were not measured one "
        f"by one.{_silo_text(evidence)}"
    )
    return _of(check, True, why, name)


def _sampling(evidence: Evidence) -> Assumption:
    check, config = evidence.check, evidence.run.config.privacy
    if config.sampling != "poisson":
        name = "ε uses no amplification by subsampling"
        return Assumption(name, Held.CLAIMED, "The batches are shuffled, so ε uses no amplification by subsampling.")
    if config.kind.client_side_noise:
        name = "ε counts every message, whichever client sends it"
        return Assumption(name, Held.CLAIMED, "ε uses no amplification by subsampling.")
    name = "Each step samples independently with the same probability (Poisson sampling)"
    if check and check.failed and check.withheld:
        return Assumption(name, Held.NOT, _failed(check))
    if check is None or check.batch_std_planned is None:
        return _of(check, False, "The batch sizes were not compared with those of Poisson sampling.", name)
    how = _COMPARED.format(unit=check.unit) if check.sampling_compared else _FROM_THE_CODE
    why = f"The sizes of the samples were compared with those of Poisson sampling. {how} {_KEPT_BACK}"
    why += f" {_SHOWN}" if config.noise_source == "seeded" else ""
    why += _silo_text(evidence)
    return _of(check, bool(check.sampling_compared), why, name)


def _accountant(evidence: Evidence) -> Assumption:
    name, privacy, second = COMPOSITION, evidence.privacy, evidence.second
    how = {
        "pld": "privacy loss distributions",
        "exact": "the exact formula for Gaussian noise",
        "rdp": "Rényi accounting, the bound for so small a δ",
    }
    ours = f"ε = {epsilon_text(privacy.epsilon)} by {how.get(privacy.accountant, privacy.accountant)}."
    if second is None:
        return Assumption(name, Held.CLAIMED, f"{ours} No second program computed it.")
    between = f"{epsilon_text(second.lower)} to {epsilon_text(second.rounded)}"
    if not second.contain(privacy.epsilon):
        return Assumption(name, Held.NOT, f"{ours} Microsoft's PRV accountant gives {between}: THE TWO DO NOT AGREE.")
    why = f"{ours} Microsoft's PRV accountant, a separate program, gives {between}: the two agree. {SEPARATE}"
    return Assumption(name, Held.CHECKED, f"{why} Both assume the steps, noise and sampling stated in this report.")


def _unit(evidence: Evidence) -> Assumption:
    privacy = evidence.privacy
    why = f"The guarantee protects {privacy.unit} (adjacency: {privacy.neighbouring})."
    if not evidence.run.config.privacy.kind.client_level:
        why += " The guarantee is weaker for a person named in several sentences: see “Protected unit and attackers”."
    return Assumption(
        "The protected unit is the unit that matters to the data subjects",
        Held.NOT,
        f"{why} Whether it is the right unit, you decide.",
    )


def _delta(evidence: Evidence) -> Assumption:
    federation, delta = evidence.run.config.federation, evidence.privacy.delta
    number, of = evidence.in_use or evidence.made.train_sentences, evidence.number_of_sentences
    if evidence.run.config.privacy.kind.client_level:
        number, of = federation.clients, f"{federation.clients:,} clients"
    small = delta < 1 / number
    why = f"δ = {delta_text(delta)}, 1/n = {delta_text(float(f'{1 / number:.2g}'))} for {of}." + (
        "" if small else " With δ ≥ 1/n, a mechanism that publishes one complete record would be allowed."
    )
    return Assumption(DELTA, Held.CHECKED if small else Held.NOT, why)


def _source(evidence: Evidence) -> Assumption:
    name, config = HIDDEN_NOISE, evidence.run.config
    if config.privacy.noise_source == "system":
        why = (
            f"{assumption_texts.SYSTEM} This report cannot show that the keys were not copied before they were "
            "destroyed."
        )
        return Assumption(name, Held.CLAIMED, why)
    why = f"The noise comes from seed {config.seed}, which is public. Anyone who knows the seed can subtract the noise."
    return Assumption(name, Held.NOT, f"{why} This model is not protected; a model trained with secret noise would be.")


def _public(evidence: Evidence) -> Assumption:
    name = "All inputs except the training sentences are public"
    if evidence.verdict is Verdict.BROKEN:
        return Assumption(name, Held.NOT, " ".join(evidence.privacy.assumptions))
    types = "" if has_own_corpus(evidence.run.config.corpus) else "tag names, "
    why = f"Word vectors, {types}the number of sentences or clients, and all settings were fixed before training."
    pretrained = evidence.run.config.tagger.pretrained
    if pretrained:
        why += f" The initial weights are public. They were trained without noise on {FITTED_ON}, with its labels."
    if not evidence.run.config.feature_set.fitted:
        return Assumption(name, Held.CLAIMED, why)
    if evidence.missing:
        return Assumption(name, Held.CLAIMED, f"{why} {evidence.missing}")
    overlap = (
        f"A comparison of checksums found no training sentence of {LEAST_WORDS} or more words in the data on which "
        "this program fitted the features"
        f"{' and trained the initial weights' if pretrained else ''}."
    )
    unknown = "The pre-training data of the published language model are not known."
    return Assumption(name, Held.CLAIMED, f"{why} {overlap} {unknown}")


def _own_types(evidence: Evidence) -> list[Assumption]:
    """Return the row on the entity types of a user's own corpora; those of published corpora are public."""
    if not has_own_corpus(evidence.run.config.corpus):
        return []
    if not evidence.privacy.types_are_public:
        return [Assumption(DECLARED, Held.NOT, assumption_texts.UNDECLARED_TYPES)]
    why = f"{assumption_texts.DECLARED_TYPES} Mentions of other types were refused or read as O."
    return [Assumption(DECLARED, Held.CLAIMED, why)]


def _clients(evidence: Evidence) -> list[Assumption]:
    config = evidence.run.config
    if config.federation.central:
        return []
    assumptions = [
        Assumption("Each participant behaves as the trust model assumes", Held.CLAIMED, config.privacy.kind.trusted)
    ]
    if evidence.shared_alone:
        why = "The private layers of each client were trained without noise. A complete model of a client has ε = ∞."
        assumptions.append(Assumption("Only the shared layers are released", Held.NOT, why))
    if not config.privacy.kind.client_level and config.federation.clients > 1:
        texts = [text for text in evidence.privacy.assumptions if text.startswith("Each sentence")]
        why = texts[0] if texts else "The program partitions the sentences in this way."
        name = "Each sentence is used by one client only"
        name += ", except short ones" if config.platforms else ""
        assumptions.append(Assumption(name, Held.CLAIMED, why))
    return assumptions


def _secret(evidence: Evidence) -> Assumption:
    why = (
        f"{uncovered(evidence)} The sampled batches must also stay secret. Sentences of the validation set and the "
        "test set are not protected."
    )
    return Assumption("Only the trained weights are released", Held.NOT, why)


def uncovered(evidence: Evidence) -> str:
    """Return the sentences on results of this run that depend on the training sentences and that no ε covers."""
    return (
        f"{evidence.shown} The run ID and the checksum of the corpus depend on every sentence; this report contains "
        "both."
    )


def _searches(evidence: Evidence) -> Assumption:
    why = f"ε covers this run only. {others_text(evidence)}"
    return Assumption("Nothing else computed from the same sentences is released", Held.NOT, why)


def others_text(evidence: Evidence) -> str:
    """Return a sentence on the number of other finished runs on the same corpus."""
    others = evidence.others
    unseen = "" if evidence.sees_all else f" {UNSEEN}"
    if not others.private and not others.plain:
        none = "This installation has no other finished run on this corpus."
        return (
            none
            if evidence.sees_all
            else f"The user who wrote this report sees no other finished run on this corpus.{unseen}"
        )
    return (
        f"Other finished runs on this corpus in this installation: {others.private:,} with noise, {others.plain:,} "
        f"without. An attacker who sees several of these models learns more.{unseen}"
    )


def _floating() -> Assumption:
    return Assumption(EXACT, Held.NOT, assumption_texts.FLOATING)
