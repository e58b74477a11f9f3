"""What is said of FedNER's figures: sentences that follow from the runs. No streamlit."""

import math
from collections.abc import Sequence

from engine.experiments.papers import fedner_2020
from engine.experiments.papers.fedner_2020 import Row
from engine.experiments.statistics import PairedDifference
from engine.records import Measurement
from engine.reports.fedner import TITLES
from engine.reports.numbers import points_text

NOT_RUN = "FedNER on three medical corpora has not been run here yet"
CORPORA = (
    "Three platforms: **ADE** (case reports; as in the paper), **PsyTAR** (patients' posts, in the place of CADEC) and "
    "**BC5CDR** (abstracts, in the place of SMM4H): CADEC and SMM4H may not be passed on, so only ADE's numbers can be "
    "held against the printed ones. ADE and PsyTAR are split anew for each seed, 80 % to train; BC5CDR has the parts "
    "that everybody tests with."
)
RELAXED = (
    "**Strict**: both ends and the type are right. **Relaxed**: same type and any overlap, each overlap counting (many "
    "to many); *one to one* is the stricter reading of the same sentence. In place of ELMo, whose weights come in no "
    "package, stands a public language model, MiniLM: *LM-NER* is the paper's ELMoNER with it."
)


def answer(found: Sequence[Row]) -> str:
    """Whether sharing pays, on all platforms, in one sentence."""
    gains, parted = (_gains(found, way) for way in (fedner_2020.FEDERATED, fedner_2020.PARTED))
    if not gains:
        return _so_far(found)
    sentence = f"Sharing brings {_verdict(gains)}: {_told(gains)} points of F1 over {_seeds(gains)} seeds"
    if not parted:
        return sentence
    same = (_verdict(gains), _seeds(gains)) == (_verdict(parted), _seeds(parted))
    more = "" if same else f"{_verdict(parted)}, over {_seeds(parted)} seeds: "
    return f"{sentence}. Where platforms part after a while, {more}{_told(parted)}"


def _gains(found: Sequence[Row], way: str) -> list[tuple[str, PairedDifference]]:
    """In Table 2, of each platform that trained that way, over being alone with as many updates."""
    return [
        (together.cell.platform, gain)
        for together, alone, gain in fedner_2020.gains(found)
        if together.cell.table == "table2" and together.cell.setting.get("trained", fedner_2020.FEDERATED) == way
        if alone.cell.setting["trained"] == fedner_2020.ALONE_AS_OFTEN
    ]


def _verdict(gains: Sequence[tuple[str, PairedDifference]]) -> str:
    shown = [platform for platform, gain in gains if gain.significant and gain.mean > 0]
    lost = [platform for platform, gain in gains if gain.significant and gain.mean < 0]
    if len(shown) == len(gains):
        return "a gain beyond chance on each platform"
    beyond = [_where(shown, "a gain beyond chance on"), _where(lost, "a cost beyond chance on")]
    return " and ".join(filter(None, beyond)) or "no more than chance could"


def _told(gains: Sequence[tuple[str, PairedDifference]]) -> str:
    return ", ".join(f"{TITLES[platform]} {points_text(gain.mean)}" for platform, gain in gains)


def _seeds(gains: Sequence[tuple[str, PairedDifference]]) -> int:
    return min(gain.number for _, gain in gains)


def _so_far(found: Sequence[Row]) -> str:
    """The same where no two seeds have both: what one seed gives, which says nothing of chance."""
    told = []
    for platform, title in TITLES.items():
        both = [
            row.strict.f1.mean
            for way in (fedner_2020.FEDERATED, fedner_2020.ALONE_AS_OFTEN)
            for row in found
            if row.cell.table == "table2" and row.cell.platform == platform and row.strict
            if row.cell.setting.get("trained", fedner_2020.FEDERATED) == way
        ]
        told += [f"{title} {points_text(both[0] - both[1])}"] if len(both) == 2 else []
    if not told:
        return NOT_RUN
    return (
        f"Sharing was worth, with the one seed so far, in points of F1: {', '.join(told)}. How much of it is "
        "chance, more seeds will tell"
    )


def _where(platforms: Sequence[str], what: str) -> str:
    return f"{what} {', '.join(TITLES[each] for each in platforms)}" if platforms else ""


def common(left_out: int, every: int) -> str:
    """What hospitals leave out since others have it too."""
    return (
        f"{left_out:,} of {every:,} training sentences are left out: another hospital has the same one, to train or to "
        "test with, but for case and punctuation. To find them hospitals compare checksums of their sentences."
    )


def points(sentences: Sequence[str]) -> str:
    """Sentences one below the other."""
    return "\n".join(f"- {each}" for each in sentences)


STORIES = {
    "table2": (
        "The paper concluded that its tagger finds more than the older ones, and still more within FedNER: on ADE "
        "82.57 % against 81.62 % strict. A platform's batches within FedNER are a third as large, so it moves its "
        "weights three times as often an epoch: *alone, as many updates* has the same steps on the same sentences, and "
        "shares nothing. Only what lies above that is due to sharing. *Then alone* is ours: after 60 % of the steps "
        "each platform goes on by itself from what all have learned."
    ),
    "figure3": (
        "The paper concluded that the fewer sentences a platform has, the more sharing is worth. With fewer sentences "
        "each run here makes more passes over them, so that no curve ends early."
    ),
    "figure4": (
        "The paper concluded that sharing nothing and sharing everything are both worse than sharing what lies below "
        "the LSTM. To share everything is to have one tagger for all, with the entity types of all three."
    ),
    "figure5": (
        "The paper concluded that names which several platforms know explain a part of the gain, and not all of it. It "
        "does not say how names are masked: here the words of each mention are replaced in the training part, and its "
        "type stays."
    ),
    "figure6": (
        "The paper concluded that every method gains within FedNER. Each shares what it has below its first LSTM; "
        "LSTM-CRF and S-LSTM-CRF have nothing there and share their LSTM."
    ),
    "private": (
        "The paper leaves this for later. **Each sentence**: DP-SGD on all weights of a hospital's tagger, of which a "
        "part is sent; batches of 1,024 over all hospitals, 30 passes. **A platform whole**: secure sums, 5 rounds; "
        "who sends nothing needs no noise, so each alone without noise stands beside it. The noise of 77,312 shared "
        "weights is 748 clip norms long at ε = 8, where three updates together have 3 at most: after a round the "
        "shared layer is nearly one drawn by chance, and a hospital's own part was learned above the layer before it. "
        "The small taggers read a public language model's frozen vectors; FedNER's own has 1.2 million weights, and "
        "each gets noise. A linear tagger has no part that could be shared: each hospital is alone."
    ),
}
"""What the paper says of each table and figure, and how ours is made."""


def trap(found: Measurement) -> str:
    """What noise on what is sent alone would promise, and what it keeps, as it was measured."""
    values = found.values
    honest, bare, trials, share = values["honest"], values["trap"], values["trials"], values["right_at_most"]
    oftener = range(honest["right"], trials + 1)
    chance = sum(math.comb(trials, each) * share**each * (1 - share) ** (trials - each) for each in oftener)
    return (
        "Why not clip and noise **only what is sent**? The parts that stay would learn from the same sentences without "
        "noise, and through them one sentence would change every later gradient. It was tried: one sentence moved the "
        f"sum by up to **{bare['moved_most']:.0f} clip norms**, where one is promised, and who looked for it was right "
        f"in **{bare['right']} of {trials}** trials; by what such noise promises it could be right in "
        f"{share:.0%} of them. With noise on all that is learned from it moved by "
        f"{honest['moved_most']:.1f} clip norms, and who looked was right in {honest['right']} of {trials}: so often "
        f"or oftener in {100 * chance:.0f} % of such series by chance. So an ε stands only beside noise of that kind."
    )
