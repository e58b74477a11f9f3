"""The paper's tables → rows, sentences and pictures: no streamlit."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from engine.experiments import paper
from engine.experiments.paper import Measured, Spread
from engine.reports.numbers import epsilon_text
from engine.runs.repeats import Repeat
from pages.shared import address, charts, palette

METRICS = {"published": "As published (tokens, O counts)", "entity": "Whole names (entities, strict)"}
"""How F1 is counted."""


WHAT_IF_SCORES = ("F1, published metric", "F1, whole names")
"""Columns of the what-if runs."""


@dataclass(frozen=True)
class Story:
    """What a table is about. concluded: by the paper. seen: by us, with the numbers of the runs at hand. why: they
    differ, inference marked as such."""

    concluded: str
    seen: str
    why: str


def ours(found: Measured, metric: str) -> Spread | None:
    """The measured scores in a metric."""
    return found.token if metric == "published" else found.entity


def rows(found: Sequence[Measured], metric: str, repeats: Mapping[str, Repeat]) -> list[dict[str, Any]]:
    """A table to show: printed, measured, the difference, what came of runs that were computed again, where to look."""
    shown = []
    for each in found:
        scores = ours(each, metric)
        printed = each.cell.published
        shown.append(
            {
                "setting": paper.setting_text(each.cell),
                "printed P": printed["precision"],
                "printed R": printed["recall"],
                "printed F1": printed["f1"],
                "P": scores.mean.precision if scores else None,
                "R": scores.mean.recall if scores else None,
                "F1": scores.mean.f1 if scores else None,
                "± sd": scores.sd.f1 if scores and len(each.runs) > 1 else None,
                "difference": scores.mean.f1 - printed["f1"] if scores and metric == "published" else None,
                "ε printed": f"{printed['epsilon']:g}" if "epsilon" in printed else _printed_epsilon(each),
                "ε": epsilon_text(each.epsilon) if each.epsilon is not None else "",
                "seeds": each.seeds_text,
                "again": _again([repeats[run.run_id] for run in each.runs if run.run_id in repeats]),
                "run": address.link(each.cell.config),
            }
        )
    return shown


def _again(repeats: Sequence[Repeat]) -> str:
    """Of a row's runs those that were computed again and came out the same; else the largest difference of F1."""
    known = [each.outcome for each in repeats if each.outcome]
    apart = [each for each in known if not each.identical]
    if apart:
        return max(apart, key=lambda each: abs(each.f1_difference)).text
    return f"{len(known)} of {len(repeats)} equal" if repeats else ""


def _printed_epsilon(found: Measured) -> str:
    """Tables 5 and 6 state one ε for all of their rows."""
    return "0.688" if found.cell.table in ("table5", "table6") else "∞"


def what_ifs(table: str, found: Sequence[tuple[str, Measured]]) -> list[dict[str, Any]]:
    """Rows of the what-if runs that belong beside a table: those in phases with the phases, the others with DP-SGD."""
    shown = []
    for name, each in found:
        if table not in ("table2", "table6") or name.startswith("phases") != (table == "table6"):
            continue
        shown.append(
            {
                "what if": name,
                WHAT_IF_SCORES[0]: each.token.mean.f1 if each.token else None,
                WHAT_IF_SCORES[1]: each.entity.mean.f1 if each.entity else None,
                "± sd": each.entity.sd.f1 if each.entity and len(each.runs) > 1 else None,
                "seeds": each.seeds_text,
                "run": address.link(each.cell.config),
            }
        )
    return shown


def picture(found: Sequence[Measured], metric: str, *, key: str) -> go.Figure:
    """F1 of each row, printed and measured, with a line where a tagger that finds nothing stands."""
    names = [paper.setting_text(each.cell) for each in found]
    figure = go.Figure()
    printed_sd = [each.cell.published.get("f1_sd", 0.0) for each in found]
    figure.add_trace(
        go.Scatter(
            x=names,
            y=[each.cell.published["f1"] for each in found],
            error_y={"type": "data", "array": printed_sd, "visible": any(printed_sd), "thickness": 1.5},
            mode="markers",
            name="printed",
            marker={"symbol": "diamond-open", "size": 12, "color": palette.RECALL, "line": {"width": 2.5}},
            hovertemplate="%{x}<br>printed F1 %{y:.3f}<extra></extra>",
        )
    )
    known = [(name, scores) for name, each in zip(names, found, strict=True) if (scores := ours(each, metric))]
    figure.add_trace(
        go.Scatter(
            x=[name for name, _ in known],
            y=[scores.mean.f1 for _, scores in known],
            error_y={"type": "data", "array": [scores.sd.f1 for _, scores in known], "thickness": 1.5},
            mode="markers",
            name="measured here",
            marker={"symbol": "circle", "size": 12, "color": palette.F1},
            hovertemplate="%{x}<br>measured F1 %{y:.3f} ± %{error_y.array:.3f}<extra></extra>",
        )
    )
    floors = [each.floor.f1 for each in found if each.floor]
    if floors and metric == "published":
        figure.add_hline(
            y=floors[0],
            line={"dash": "dot", "width": 1.5, "color": palette.QUIET},
            annotation={"text": "finds no name at all", "font": {"size": 11}},
            annotation_position="bottom left",
        )
    figure.update_layout(
        **charts.plain_layout(key, height=360),
        margin={"l": 52, "r": 8, "t": 72, "b": 40},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        xaxis={"categoryorder": "array", "categoryarray": names, "gridcolor": palette.GRID, "automargin": True},
        yaxis={"title": {"text": "F1"}, "range": [0, 1.02], "gridcolor": palette.GRID, "zeroline": False},
    )
    return figure


def story(table: str, found: Sequence[Measured]) -> Story:
    """What was concluded, what is seen here, why they differ."""
    entity = [_entity(each) for each in found]
    some = [(each, f1) for each, f1 in zip(found, entity, strict=True) if f1 is not None]
    seen = f"{_seen(table, some)}{_floor(found)}" if some else "Nothing of this table has been run here yet."
    concluded, why = _STORIES[table]
    return Story(concluded, seen, why)


def _entity(found: Measured) -> float | None:
    return found.entity.mean.f1 if found.entity else None


def _seen(table: str, some: Sequence[tuple[Measured, float]]) -> str:
    """The rows in words, whole names."""
    listed = "; ".join(f"{paper.setting_text(each.cell)}: {f1:.2f}" for each, f1 in some)
    text = f"F1 of whole names: {listed}."
    costs = [each.epsilon for each, _ in some if each.epsilon is not None and not math.isinf(each.epsilon)]
    if table in ("table5", "table6") and costs:
        least, most = epsilon_text(min(costs)), epsilon_text(max(costs))
        span = least if least == most else f"{least} to {most}"
        text += f" A client's sentences pay ε = {span}, since its own part is small; the paper states 0.688 throughout."
    if table == "table2" and costs:
        text += f" Honest accounting gives ε = {epsilon_text(max(costs))} to {epsilon_text(min(costs))} for these σ."
    return text


def _floor(found: Sequence[Measured]) -> str:
    """Printed rows that lie where a tagger that finds nothing does."""
    floors = [each.floor.f1 for each in found if each.floor]
    if not floors:
        return ""
    at = [paper.setting_text(each.cell) for each in found if each.cell.published["f1"] <= floors[0] + 0.015]
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
