"""Charts of FedNER's table and figures. Without Streamlit."""

import itertools
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from engine.config import NOTHING
from engine.experiments.papers import fedner_2020
from engine.experiments.papers.fedner_2020 import Cell
from engine.experiments.papers.fedner_2020_scores import Row
from engine.taggers import KINDS
from pages.shared import charts, palette

STRICT, RELAXED = "strict", "relaxed"
_STYLES = {
    fedner_2020.ALONE: ("alone, batches of 64", palette.TYPES[0], "square", "dot"),
    fedner_2020.ALONE_AS_OFTEN: ("alone, same number of updates", palette.TYPES[1], "triangle-up", "dash"),
    fedner_2020.FEDERATED: ("FedNER", palette.PRIVATE, "circle", "solid"),
    fedner_2020.PARTED: ("FedNER, then alone", palette.TYPES[2], "star", "dashdot"),
}
"""Title, colour, marker and dash by way of training."""


def f1_chart(rows: Sequence[Row], table: str, score: str, *, key: str) -> go.Figure:
    """Draw F1 in per cent of one table or figure on one silo: a trace for each way of training, and the paper's scores.

    Args:
        rows: The rows of the table on the silo; error bars show the standard deviation over seeds.
        table: A key of :data:`fedner_2020.TABLES`.
        score: :data:`STRICT` or :data:`RELAXED`.
        key: Charts with the same key keep zoom and selection.
    """
    figure = go.Figure()
    names = list(dict.fromkeys(_x(row.cell) for row in rows))
    lines = table in ("figure3", "figure4", "figure5", "private")
    traces: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in rows:
        if getattr(row, score):
            traces.setdefault(_style(row.cell), []).append(row)
    for (title, colour, symbol, dash), of_trace in traces.items():
        values = [getattr(row, score).f1 for row in of_trace]
        figure.add_trace(
            go.Scatter(
                x=[_x(row.cell) for row in of_trace],
                y=[100 * value.mean for value in values],
                error_y={"type": "data", "array": [100 * value.sd for value in values], "thickness": 1.5},
                mode="lines+markers" if lines else "markers",
                name=title,
                line={"color": colour, "dash": dash, "width": 1.5},
                marker={"symbol": symbol, "size": 11, "color": colour},
                hovertemplate="%{x}<br>F1 %{y:.1f} ± %{error_y.array:.1f}<extra>" + title + "</extra>",
            )
        )
    reported = [(row, value) for row in rows if (value := _reported(row.cell, score)) is not None]
    if reported:
        by_position: dict[str | float, float] = {}
        for row, value in reported:
            by_position[_x(row.cell)] = value  # the paper has one score for both ways of training alone
        figure.add_trace(
            go.Scatter(
                x=list(by_position),
                y=[100 * value for value in by_position.values()],
                mode="markers",
                name="reported",
                marker={"symbol": "diamond-open", "size": 12, "color": palette.RECALL, "line": {"width": 2.5}},
                hovertemplate="%{x}<br>reported F1 %{y:.1f}<extra></extra>",
            )
        )
    figure.update_layout(
        **charts.plain_layout(key, height=380),
        margin={"l": 52, "r": 8, "t": 72, "b": 40},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        xaxis=_axis(table, names),
        yaxis={"title": {"text": f"{score} F1, %"}, "gridcolor": palette.GRID, "zeroline": False},
    )
    return figure


def _axis(table: str, names: Sequence[str | float]) -> dict[str, Any]:
    if table == "figure3":
        title = {"text": "share of the training sentences"}
        return {"title": title, "ticksuffix": " %", "rangemode": "tozero", "gridcolor": palette.GRID}
    return {"categoryorder": "array", "categoryarray": names, "gridcolor": palette.GRID, "automargin": True}


def _style(cell: Cell) -> tuple[str, str, str, str]:
    """Return title, colour, marker and dash of a trace."""
    way = str(cell.setting.get("trained", fedner_2020.FEDERATED))
    if cell.table != "private":
        return _STYLES[way]
    kinds = list(
        dict.fromkeys((other.method, *_kind(other)) for other in fedner_2020.cells() if other.table == "private")
    )
    number = kinds.index((cell.method, *_kind(cell)))
    together = "FedNER" if way == fedner_2020.FEDERATED else "alone"
    unit = {fedner_2020.SENTENCE: "ε per sentence", fedner_2020.PLATFORM: "ε per silo"}
    title = f"{KINDS[cell.method].short}, {together}, {unit.get(cell.setting['protects'], 'no noise')}"
    return title, palette.TYPES[number], palette.SYMBOLS[number], palette.DASHES[number]


def _kind(cell: Cell) -> tuple[str, str]:
    return str(cell.setting["trained"]), str(cell.setting["protects"])


def _x(cell: Cell) -> str | float:
    """Return the position of a cell on the horizontal axis."""
    if cell.table == "figure3":
        return 100 * float(cell.setting["share"])
    if cell.table == "private":
        return f"ε = {cell.setting['epsilon']:g}" if "epsilon" in cell.setting else "no noise"
    if cell.table == "figure5":
        return f"{100 * cell.setting['masked']:.0f} % masked"
    if cell.table == "figure4":
        return shared_text(str(cell.setting["shared"]))
    return "FedNER" if cell.method == fedner_2020.FEDERATED else KINDS[cell.method].short


def shared_text(parts: str) -> str:
    """Return a label of the shared layers for an axis: the layer that a split adds to the one before it."""
    if parts == NOTHING:
        return "nothing"
    last = parts.split(",")[-1].replace("lstm", "LSTM")
    return f"… and {last}" if "," in parts else last


def _reported(cell: Cell, score: str) -> float | None:
    return cell.published[f"{score}_f1"] if cell.published else None


def curves(histories: Sequence[tuple[str, bool, Sequence[tuple[float, float]]]], *, key: str) -> go.Figure:
    """Draw the F1 of each silo during training.

    Args:
        histories: For each curve: the silo, whether it trained within the federation, and its points (share of the
            steps in [0, 1], F1 on the validation set in [0, 1]).
        key: Charts with the same key keep zoom and selection.
    """
    figure = go.Figure()
    names = list(dict.fromkeys(platform for platform, _, _ in histories))
    colours = dict(zip(names, itertools.cycle(palette.TYPES)))
    for platform, together, points in histories:
        figure.add_trace(
            go.Scatter(
                x=[100 * x for x, _ in points],
                y=[100 * y for _, y in points],
                mode="lines+markers",
                name=platform if together else f"{platform}, alone",
                line={"color": colours[platform], "dash": "solid" if together else "dot", "width": 2},
                marker={"symbol": "circle" if together else "circle-open", "size": 6, "color": colours[platform]},
                hovertemplate="%{x:.0f} % of the steps<br>F1 %{y:.1f}<extra></extra>",
            )
        )
    figure.update_layout(
        **charts.plain_layout(key, height=360),
        margin={"l": 52, "r": 8, "t": 96, "b": 44},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        xaxis={"title": {"text": "share of the steps, %"}, "range": [0, 101], "gridcolor": palette.GRID},
        yaxis={"title": {"text": "F1 on the validation set, %"}, "range": [0, 100], "gridcolor": palette.GRID},
    )
    return figure
