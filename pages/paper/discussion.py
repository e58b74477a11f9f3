"""What each of the paper's tables is about: what it concluded, what is seen here, why they differ. No streamlit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.experiments.papers import jana_biemann_2021
from engine.experiments.papers.jana_biemann_2021 import Row
from engine.reports.numbers import epsilon_text


@dataclass(frozen=True)
class Story:
    """What a table is about. concluded: by the paper. seen: by us, with the numbers of the runs at hand. why: they
    differ, inference marked as such."""

    concluded: str
    seen: str
    why: str


def story(table: str, found: Sequence[Row]) -> Story:
    """What was concluded, what is seen here, why they differ."""
    entity = [_entity(each) for each in found]
    some = [(each, f1) for each, f1 in zip(found, entity, strict=True) if f1 is not None]
    seen = f"{_seen(table, some)}{_floor(found)}" if some else "Nothing of this table has been run here yet."
    concluded, why = _STORIES[table]
    return Story(concluded, seen, why)


def _entity(row: Row) -> float | None:
    return row.found.entity.f1.mean if row.found.entity else None


def _seen(table: str, some: Sequence[tuple[Row, float]]) -> str:
    """The rows in words, whole names."""
    listed = "; ".join(f"{jana_biemann_2021.setting_text(each.cell)}: {f1:.2f}" for each, f1 in some)
    text = f"F1 of whole names: {listed}."
    epsilons = [row.found.epsilon for row, _ in some]
    costs = [epsilon for epsilon in epsilons if epsilon is not None and not math.isinf(epsilon)]
    if table in ("table5", "table6") and costs:
        least, most = epsilon_text(min(costs)), epsilon_text(max(costs))
        span = least if least == most else f"{least} to {most}"
        text += f" A client's sentences pay ε = {span}, since its own part is small; the paper states 0.688 throughout."
    if table == "table2" and costs:
        text += f" Honest accounting gives ε = {epsilon_text(max(costs))} to {epsilon_text(min(costs))} for these σ."
    return text


def _floor(found: Sequence[Row]) -> str:
    """Printed rows that lie where a tagger that finds nothing does."""
    floors = [each.found.floor.f1 for each in found if each.found.floor]
    if not floors:
        return ""
    at = [jana_biemann_2021.setting_text(each.cell) for each in found if each.cell.published["f1"] <= floors[0] + 0.015]
    text = f" On the published scale a tagger that finds no name scores {floors[0]:.3f} on this corpus"
    return text + (f"; printed rows at or below that: {', '.join(at)}." if at else ".")


_METRIC = (
    "The printed triples come nearest to token scores weighted by support with O as a class; that this is what was "
    "used is our inference."
)
_STORIES = {
    "table1": (
        "The BiLSTM with a dense layer (TDDL) reaches F1 0.916 and the one with a CRF 0.864, so the CRF is the weaker.",
        f"{_METRIC} In every metric we tried our CRF comes out above TDDL. The hidden size is not printed, and the "
        "word vectors differ (20,000 rows here, about 500,000 there), which may account for a part.",
    ),
    "table2": (
        "TDDL keeps F1 above 0.90 at every noise multiplier up to 50; the CRF loses a lot under DP.",
        "With σ = 50 the noise of one step is far longer than the sum it is added to, and no tagger here survives it. "
        "A row that does not fall is consistent with noise that never reached the weights, which optimisers of that "
        "time could do in silence under Keras's fit; we cannot know. The printed ε come out with batch size 1 in place "
        "of 32, by an older conversion (docs, “What the numbers mean”).",
    ),
    "table3": (
        "The more clients share the same sentences, the lower F1 after one round, since each sees less.",
        f"The direction agrees, and in the published metric so do the sizes. {_METRIC}",
    ),
    "table4": (
        "Sending weights after each tenth of the data does nearly as well as sending them once: 0.846 against 0.874.",
        "Ten rounds of averaging help the clients to stay together; each tenth is trained on for ten epochs.",
    ),
    "table5": (
        "DP at the clients costs one to six points of F1, at ε = 0.688 for any number of clients.",
        "ε depends on how many sentences a client has: the fewer, the likelier each is drawn, and the more it pays. "
        "One ε for all rows cannot be right. The scores fall as the printed ones do.",
    ),
    "table6": (
        "With DP the incremental setting works until 60 % of the data and then collapses; why is left open.",
        "With the noise divided by the batch size, as DP-SGD has it, F1 does not collapse here. Noise at the scale of "
        "batch size 1, which is 32 times as much, gives scores nearly as low as the printed ones after 60 %, but from "
        "the first phase on (what-if runs); that something of this kind happened there is our inference. Each sentence "
        "is in one phase alone, so it pays for that phase only.",
    ),
}
