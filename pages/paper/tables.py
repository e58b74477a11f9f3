"""The paper's tables → rows and pictures: no streamlit."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from engine.experiments.papers import jana_biemann_2021
from engine.experiments.papers.jana_biemann_2021 import Row
from engine.experiments.seed_aggregates import OverSeeds
from engine.reports.numbers import epsilon_text
from engine.service.reproducibility import Rerun
from pages.shared import address, charts, palette
from pages.shared.metrics import in_metric

WHAT_IF_SCORES = ("F1, published metric", "F1, whole names")
"""Columns of the what-if runs."""


def rows(found: Sequence[Row], metric: str, repeats: Mapping[str, Rerun]) -> list[dict[str, Any]]:
    """A table to show: printed, measured, the difference, what came of runs that were computed again, where to look."""
    shown = []
    for each in found:
        scores, cell, ours = in_metric(each.found, metric), each.cell, each.found
        printed = cell.published
        shown.append(
            {
                "setting": jana_biemann_2021.setting_text(cell),
                "printed P": printed["precision"],
                "printed R": printed["recall"],
                "printed F1": printed["f1"],
                "P": scores.precision.mean if scores else None,
                "R": scores.recall.mean if scores else None,
                "F1": scores.f1.mean if scores else None,
                "± sd": scores.f1.known_sd if scores else None,
                "difference": scores.f1.mean - printed["f1"] if scores and metric == "published" else None,
                "ε printed": f"{printed['epsilon']:g}" if "epsilon" in printed else _printed_epsilon(each),
                "ε": epsilon_text(ours.epsilon) if ours.epsilon is not None else "",
                "seeds": ours.seeds_text,
                "again": _again([repeats[run.run_id] for run in ours.runs if run.run_id in repeats]),
                "run": address.link(cell.config),
                "ε rests on": address.ledger(*ours.runs),
            }
        )
    return shown


def _again(repeats: Sequence[Rerun]) -> str:
    """Of a row's runs those that were computed again and came out the same; else the largest difference of F1."""
    known = [each.comparison for each in repeats if each.comparison]
    apart = [each for each in known if not each.identical]
    if apart:
        return max(apart, key=lambda each: abs(each.f1_difference)).text
    return f"{len(known)} of {len(repeats)} equal" if repeats else ""


def _printed_epsilon(row: Row) -> str:
    """Tables 5 and 6 state one ε for all of their rows."""
    return "0.688" if row.cell.table in ("table5", "table6") else "∞"


def what_ifs(table: str, found: Sequence[tuple[str, OverSeeds]]) -> list[dict[str, Any]]:
    """Rows of the what-if runs that belong beside a table: those in phases with the phases, the others with DP-SGD."""
    shown = []
    for name, each in found:
        if table not in ("table2", "table6") or name.startswith("phases") != (table == "table6"):
            continue
        shown.append(
            {
                "what if": name,
                WHAT_IF_SCORES[0]: each.token.f1.mean if each.token else None,
                WHAT_IF_SCORES[1]: each.entity.f1.mean if each.entity else None,
                "± sd": each.entity.f1.known_sd if each.entity else None,
                "seeds": each.seeds_text,
                "run": address.link(each.config),
                "ε rests on": address.ledger(*each.runs),
            }
        )
    return shown


def picture(found: Sequence[Row], metric: str, *, key: str) -> go.Figure:
    """F1 of each row, printed and measured, with a line where a tagger that finds nothing stands."""
    names = [jana_biemann_2021.setting_text(each.cell) for each in found]
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
    known = [
        (name, scores) for name, each in zip(names, found, strict=True) if (scores := in_metric(each.found, metric))
    ]
    figure.add_trace(
        go.Scatter(
            x=[name for name, _ in known],
            y=[scores.f1.mean for _, scores in known],
            error_y={"type": "data", "array": [scores.f1.sd for _, scores in known], "thickness": 1.5},
            mode="markers",
            name="measured here",
            marker={"symbol": "circle", "size": 12, "color": palette.F1},
            hovertemplate="%{x}<br>measured F1 %{y:.3f} ± %{error_y.array:.3f}<extra></extra>",
        )
    )
    floors = [each.found.floor.f1 for each in found if each.found.floor]
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
