"""Texts of the page Replication of FedNER 2020, from the runs. Without Streamlit."""

import math
from collections.abc import Sequence

from engine.experiments.papers import fedner_2020, fedner_2020_scores
from engine.experiments.papers.fedner_2020_scores import Row
from engine.experiments.statistics import PairedDifference
from engine.records import Measurement
from engine.reports.fedner import TITLES
from engine.reports.numbers import points_text

NOT_RUN = "No run of FedNER on three medical corpora is finished yet"
CORPORA = (
    "Three silos: **ADE** (case reports, as in the paper), **PsyTAR** (patients' posts, instead of CADEC) and "
    "**BC5CDR** (abstracts, instead of SMM4H). CADEC and SMM4H must not be redistributed, so only the scores on ADE "
    "can be compared with the paper's. ADE and PsyTAR have a random split for each seed, with 80 % for training; "
    "BC5CDR has its official split."
)
RELAXED = (
    "**Strict**: both boundaries and the type are correct. **Relaxed**: the type is correct and the spans overlap; "
    "each overlap counts (many to many). *One to one* matches each entity at most once. No package has the weights of "
    "ELMo, so the public language model MiniLM replaces it: *LM-NER* is the paper's ELMoNER with MiniLM."
)


def answer(rows: Sequence[Row]) -> str:
    """Return a sentence on the effect of sharing on F1, over all silos."""
    gains, parted = (_gains(rows, way) for way in (fedner_2020.FEDERATED, fedner_2020.PARTED))
    if not gains:
        return _so_far(rows)
    sentence = (
        f"Sharing layers, compared with training alone with the same number of updates, gives {_significance(gains)}: "
        f"{_points(gains)} points of F1 over {_seeds(gains)} seeds"
    )
    if not parted:
        return sentence
    same = (_significance(gains), _seeds(gains)) == (_significance(parted), _seeds(parted))
    more = "" if same else f"{_significance(parted)}, over {_seeds(parted)} seeds: "
    return f"{sentence}. Sharing first, then training alone, compared with the same baseline: {more}{_points(parted)}."


def _gains(rows: Sequence[Row], way: str) -> list[tuple[str, PairedDifference]]:
    """Return the gain in Table 2 of each silo that trained that way, over training alone with as many updates."""
    return [
        (together.cell.platform, gain)
        for together, alone, gain in fedner_2020_scores.gains(rows)
        if together.cell.table == "table2" and together.cell.setting.get("trained", fedner_2020.FEDERATED) == way
        if alone.cell.setting["trained"] == fedner_2020.ALONE_AS_OFTEN
    ]


def _significance(gains: Sequence[tuple[str, PairedDifference]]) -> str:
    gained = [platform for platform, gain in gains if gain.significant and gain.mean > 0]
    lost = [platform for platform, gain in gains if gain.significant and gain.mean < 0]
    if len(gained) == len(gains):
        return "a significant gain (5 %) on each silo"
    significant = [_where(gained, "a significant gain (5 %) on"), _where(lost, "a significant loss (5 %) on")]
    return " and ".join(filter(None, significant)) or "no significant gain (5 %)"


def _points(gains: Sequence[tuple[str, PairedDifference]]) -> str:
    return ", ".join(f"{TITLES[platform]} {points_text(gain.mean)}" for platform, gain in gains)


def _seeds(gains: Sequence[tuple[str, PairedDifference]]) -> int:
    return min(gain.number for _, gain in gains)


def _so_far(rows: Sequence[Row]) -> str:
    """Return the answer where no two seeds have both runs: the gain of one seed, without a significance test."""
    gains = []
    for platform, title in TITLES.items():
        both = [
            row.strict.f1.mean
            for way in (fedner_2020.FEDERATED, fedner_2020.ALONE_AS_OFTEN)
            for row in rows
            if row.cell.table == "table2" and row.cell.platform == platform and row.strict
            if row.cell.setting.get("trained", fedner_2020.FEDERATED) == way
        ]
        gains += [f"{title} {points_text(both[0] - both[1])}"] if len(both) == 2 else []
    if not gains:
        return NOT_RUN
    return (
        f"Gain of sharing with the one seed so far, in points of F1: {', '.join(gains)}. Run more seeds to test "
        "significance"
    )


def _where(platforms: Sequence[str], what: str) -> str:
    return f"{what} {', '.join(TITLES[platform] for platform in platforms)}" if platforms else ""


def common(left_out: int, total: int) -> str:
    """Return sentences on the training sentences that silos leave out because another silo has them too.

    Args:
        left_out: Number of left-out training sentences.
        total: Number of all training sentences.
    """
    return (
        f"{left_out:,} of {total:,} training sentences are left out: another silo has the same sentence in its "
        "training or test set, apart from case and punctuation. Silos find such sentences by comparing checksums."
    )


def points(sentences: Sequence[str]) -> str:
    """Return the sentences as a Markdown list."""
    return "\n".join(f"- {sentence}" for sentence in sentences)


DISCUSSION = {
    "table2": (
        "The paper concludes that its model outperforms the older ones and gains further within FedNER: on ADE a "
        "strict F1 of 82.57 % instead of 81.62 %. Within FedNER a silo's batches are a third as large, so it updates "
        "its weights three times as often per epoch. *Alone, same number of updates* has the same steps on the same "
        "sentences and shares nothing. Only a gain over this baseline is due to sharing. *FedNER, then alone* is our "
        "addition: after 60 % of the steps each silo trains alone, starting from the shared weights."
    ),
    "figure3": (
        "The paper concludes that sharing gains more when a silo has fewer sentences. With fewer sentences, each run "
        "here makes more passes over them, since training needs more passes to converge: 15 with all sentences, 75 "
        "with 10 %."
    ),
    "figure4": (
        "The paper concludes that sharing nothing and sharing all layers are both worse than sharing the layers below "
        "the LSTM. Sharing all layers means one common model with the entity types of all three silos."
    ),
    "figure5": (
        "The paper concludes that entities common to several silos explain a part of the gain, but not all of it. It "
        "does not describe its entity masking. Our runs replace the words of each mention in the training set and keep "
        "its type."
    ),
    "figure6": (
        "The paper concludes that every method gains within FedNER. Each method shares its layers below the first "
        "LSTM; LSTM-CRF and S-LSTM-CRF have no layers there, so they share their LSTM. CNN-CRF and GRAM-CNN have no "
        "LSTM. They share their convolutions and the layers below."
    ),
    "private": (
        "The paper leaves privacy to future work. **Sentence level**: each silo trains all weights of its model with "
        "DP-SGD and sends the shared layers. Batches have 1,024 sentences over all silos, and training makes 30 "
        "passes. **Silo level**: secure aggregation in 5 rounds. A silo that sends nothing needs no noise, so the "
        "baseline is training alone without noise. At ε = 8 the noise on the 77,312 shared weights has an L2 norm of "
        "748 clip norms. The sum of three updates has an L2 norm of at most 3 clip norms. After a round the shared "
        "layer is nearly random, but each private head was trained on the shared layer before that round. The small "
        "models read frozen vectors of a public language model. FedNER's model has 1.2 million weights, and each gets "
        "noise. A linear model has no layer to share: each silo trains alone."
    ),
}
"""By table or figure: the paper's conclusion, and the setup of our runs."""


def partial_noise_attack(measurement: Measurement) -> str:
    """Return sentences on an attack against noise on the shared layers only, from its measurement."""
    values = measurement.values
    all_layers, shared_only = values["honest"], values["trap"]
    trials, share = values["trials"], values["right_at_most"]
    counts = range(all_layers["right"], trials + 1)
    p_value = sum(math.comb(trials, count) * share**count * (1 - share) ** (trials - count) for count in counts)
    verdict = (
        f"At the allowed rate, chance alone gives {all_layers['right']} or more successes with probability "
        f"{100 * p_value:.0f} %" + (", so this does not contradict the guarantee." if p_value >= 0.05 else ".")
    )
    return (
        "With clipping and noise on **the shared layers only**, the private head would train on the same sentences "
        "without noise. Through this head, one sentence would change every later gradient. We measured this: one "
        f"sentence changed the released sum of gradients by up to **{shared_only['moved_most']:.0f} clip norms**, "
        "where the guarantee assumes one. An attacker who tested for the sentence was right in "
        f"**{shared_only['right']} of {trials}** trials; the claimed guarantee allows {share * trials:.0f} on average. "
        f"With noise on all layers, the sum changed by {all_layers['moved_most']:.1f} clip norms, and the attacker was "
        f"right in {all_layers['right']} of {trials} trials. {verdict} Therefore this page shows an ε only for noise "
        "on all layers."
    )
