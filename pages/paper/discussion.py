"""Discussion of each of the paper's tables: its conclusion, our results, reasons for differences. Without Streamlit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.experiments.papers import jana_biemann_2021
from engine.experiments.papers.jana_biemann_2021 import Row
from engine.reports.numbers import epsilon_text


@dataclass(frozen=True)
class Story:
    """The discussion of a table.

    Attributes:
        concluded: The paper's conclusion.
        seen: Our results, with the numbers of the available runs.
        why: Reasons for a difference; inferences are marked as such.
    """

    concluded: str
    seen: str
    why: str


def story(table: str, measured: Sequence[Row]) -> Story:
    """Return the discussion of a table from its rows."""
    entity = [_entity(row) for row in measured]
    scored = [(row, f1) for row, f1 in zip(measured, entity, strict=True) if f1 is not None]
    seen = (
        f"{_seen(table, scored)}{_no_entity_sentence(measured)}" if scored else "No run of this table is finished yet."
    )
    concluded, why = _STORIES[table]
    return Story(concluded, seen, why)


def _entity(row: Row) -> float | None:
    return row.found.entity.f1.mean if row.found.entity else None


def _seen(table: str, scored: Sequence[tuple[Row, float]]) -> str:
    """Return sentences on the rows: entity-level F1, and ε where the table has privacy."""
    listed = "; ".join(f"{jana_biemann_2021.setting_text(row.cell)}: {f1:.2f}" for row, f1 in scored)
    text = f"Entity-level F1: {listed}."
    epsilons = [row.found.epsilon for row, _ in scored]
    costs = [epsilon for epsilon in epsilons if epsilon is not None and not math.isinf(epsilon)]
    if table in ("table5", "table6") and costs:
        least, most = epsilon_text(min(costs)), epsilon_text(max(costs))
        span = least if least == most else f"{least} to {most}"
        text += (
            f" For the sentences of a client, ε is {span}, since a client has few sentences. The paper reports ε = "
            "0.688 for all clients."
        )
    if table == "table2" and costs:
        text += f" For these σ our accounting gives ε = {epsilon_text(max(costs))} to {epsilon_text(min(costs))}."
    return text


def _no_entity_sentence(measured: Sequence[Row]) -> str:
    """Return a sentence on the reported rows whose F1 is that of a tagger that marks no entity."""
    floors = [row.found.floor.f1 for row in measured if row.found.floor]
    if not floors:
        return ""
    at = [jana_biemann_2021.setting_text(row.cell) for row in measured if row.cell.published["f1"] <= floors[0] + 0.015]
    text = f" In the paper's metric a tagger that predicts no entity scores {floors[0]:.3f} on this corpus"
    return text + (f"; reported rows near or below this score: {', '.join(at)}." if at else ".")


_METRIC = (
    "The reported scores come nearest to a token-level metric, weighted by support, with O as a class. That the paper "
    "used this metric is our inference."
)
_STORIES = {
    "table1": (
        "The BiLSTM with a dense layer (TDDL) reaches F1 0.916, the BiLSTM with a CRF 0.864. So the CRF is weaker.",
        f"{_METRIC} In every metric that we tried, our CRF scores higher than TDDL. The paper does not report the "
        "hidden size, and its word vectors have about 500,000 rows; ours have 20,000. This may explain a part of the "
        "differences.",
    ),
    "table2": (
        "TDDL keeps F1 above 0.90 at every noise multiplier up to 50. The CRF loses much of its F1 under DP.",
        "With σ = 50 the noise of one step has a far larger norm than the sum of gradients to which it is added. In "
        "our runs, no tagger learns under this noise. A reported F1 that does not fall is consistent with noise that "
        "never reached the weights. Optimisers of that time could omit the noise in Keras's function fit, "
        "without an error. We cannot verify this. The reported ε follow from batch size 1 instead of 32, by an older "
        "conversion from Rényi DP (docs/metrics.md, “Computation of ε”).",
    ),
    "table3": (
        "If the same sentences are divided among more clients, F1 after one round is lower: each has fewer sentences.",
        f"Our F1 falls too, and in the paper's metric by similar amounts. {_METRIC}",
    ),
    "table4": (
        "Sending weights after each tenth of the data does nearly as well as sending them once: F1 0.846 and 0.874.",
        "In our runs each client trains on each tenth for ten epochs. Ten rounds of averaging reduce the drift "
        "between clients.",
    ),
    "table5": (
        "DP at the clients lowers F1 by one to six points, at ε = 0.688 for any number of clients.",
        "ε depends on the number of sentences of a client. With fewer sentences, each sentence is sampled more "
        "often, and ε is larger. So one ε cannot hold for all rows. Our scores fall as the reported scores do.",
    ),
    "table6": (
        "With DP the incremental setting works up to 40 % of the data; at 60 % F1 has collapsed. The paper gives no "
        "reason.",
        "With the noise divided by the batch size, as in DP-SGD, F1 does not collapse in our runs. Noise scaled for "
        "batch size 1 is 32 times as large. With this noise, scores are low from the first phase on (counterfactual "
        "runs). They are nearly as low as the reported scores at 60 % and later. That a fault of this kind caused the "
        "collapse is our inference. Each sentence is used in one phase only, so its ε is spent in that phase only.",
    ),
}
