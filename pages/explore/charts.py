"""Charts of Explore, made from runs. Does not use Streamlit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from engine.experiments.statistics import spread
from engine.reports.numbers import epsilon_text
from engine.service import Holdings
from pages.explore.curves import METRICS, Point, TypeScore
from pages.shared import palette, titles
from pages.shared.charts import WHOLE_HEIGHT, band, literal, plain_layout
from pages.shared.epsilon_axis import EpsilonAxis


@dataclass(frozen=True)
class _Style:
    label: str
    colour: str
    symbol: str
    dash: str
    width: float


STYLES = {
    "precision": _Style("Precision", palette.PRECISION, "triangle-up", "dot", 1.8),
    "recall": _Style("Recall", palette.RECALL, "square", "dash", 1.8),
    "f1": _Style("F1", palette.F1, "circle", "solid", 3.0),
}
_PATTERNS = ("", "/", "\\", "x", "-", "|", "+", ".")
"""Hatching of adjacent bars, which repeats their colours' information for colour-blind readers."""


def utility_by_epsilon(
    live: Sequence[Point],
    finish: Sequence[Point],
    others: Sequence[Point],
    seeds: Sequence[Point] = (),
    pinned: Sequence[Point] = (),
    *,
    planned: float,
    key: str,
    running: bool,
) -> go.Figure:
    """Draw precision, recall and F1 against ε.

    Args:
        live: Records of the current run so far, on the validation set.
        finish: Its final record, on the test set.
        others: Final records of finished runs with these settings and any noise, this run included.
        seeds: Final records of runs that differ in their seeds only.
        pinned: Final record of the pinned run.
        planned: Planned ε at the run's end.
        key: A chart with the same key keeps its zoom and selection.
        running: Whether to emphasise the newest point.

    """
    axis = EpsilonAxis([planned, *(point.epsilon for point in (*live, *finish, *others, *pinned))])
    figure = go.Figure()
    shapes, annotations = _tiers(axis)
    if not finish:
        goal, text = _goal(axis, planned)
        shapes.append(goal)
        annotations.append(text)
    for metric in METRICS if others else ():
        figure.add_trace(_line(others, metric, axis, moving=False, name=f"{STYLES[metric].label}, finished"))
    for metric in METRICS if live else ():
        figure.add_trace(_line(live, metric, axis, moving=True, name=f"{STYLES[metric].label}, this run"))
    for metric in METRICS if seeds else ():
        figure.add_trace(_spread(seeds, metric, axis))
    for metric in METRICS if pinned else ():
        style = STYLES[metric]
        mark = _line(pinned, metric, axis, moving=False, name=f"{style.label}, pinned")
        mark.mode, mark.opacity, mark.showlegend = "markers", 1.0, metric == "f1"
        mark.marker = {"symbol": "diamond-open", "size": 13, "color": style.colour, "line": {"width": 2.5}}
        figure.add_trace(mark)
    for points, symbol, size, label in _ends(live, finish, running=running):
        for metric in METRICS:
            style = STYLES[metric]
            end = _line(points, metric, axis, moving=label == "now", name=f"{style.label}, {label}")
            end.mode, end.showlegend, end.opacity = "markers", False, 1.0
            end.marker = {"symbol": symbol or style.symbol, "size": size, "color": style.colour, "line": _RING}
            figure.add_trace(end)
    figure.update_layout(
        **plain_layout(key, height=400),
        shapes=shapes,  # all at once: Plotly checks the whole layout at each addition
        annotations=annotations,
        margin={"l": 48, "r": 8, "t": 52, "b": 44},
        hovermode="closest",
        legend={"orientation": "h", "y": -0.19, "x": 0, "entrywidth": 165},
        xaxis=axis.layout(),
        yaxis={
            "title": {"text": "precision, recall, F1"},
            "range": [-0.02, 1.02],
            "tickformat": ".1f",
            "gridcolor": palette.GRID,
            "zeroline": False,
        },
    )
    return figure


_RING = {"color": "white", "width": 1.2}


def _ends(
    live: Sequence[Point], finish: Sequence[Point], *, running: bool
) -> list[tuple[Sequence[Point], str | None, int, str]]:
    """Return the larger markers: the newest point of an active run, or the final one of a finished run."""
    if finish:
        return [(finish, "star", 16, "this run, test set")]
    return [(live[-1:], None, 13, "now")] if live and running else []


def _spread(points: Sequence[Point], metric: str, axis: EpsilonAxis) -> go.Scatter:
    """Draw mean and standard deviation over seeds, at the largest ε of the runs."""
    style, statistics = STYLES[metric], spread(getattr(point, metric) for point in points)
    largest = max(point.epsilon for point in points)
    name = f"{style.label}, {statistics.number} seeds"
    return go.Scatter(
        x=[axis.position(largest, None)],
        y=[statistics.mean],
        error_y={"type": "data", "array": [statistics.sd], "color": style.colour, "thickness": 2, "width": 7},
        name=name,
        mode="markers",
        showlegend=False,
        marker={"symbol": style.symbol, "size": 8, "color": style.colour, "line": _RING},
        text=[f"{statistics.text}, mean ± standard deviation of {statistics.number} seeds"],
        hovertemplate="%{text}<extra>" + name + "</extra>",
    )


def _line(points: Sequence[Point], metric: str, axis: EpsilonAxis, *, moving: bool, name: str) -> go.Scatter:
    style = STYLES[metric]
    values = [getattr(point, metric) for point in points]
    return go.Scatter(
        x=[axis.position(point.epsilon, point.progress if moving else None) for point in points],
        y=values,
        name=name,
        mode="lines+markers",
        opacity=1.0 if moving else 0.7,
        line={"color": style.colour, "dash": style.dash, "width": style.width if moving else 1.3},
        marker={"symbol": style.symbol if moving else f"{style.symbol}-open", "size": 6 if moving else 9},
        text=[_hover(point) for point in points],
        hovertemplate="%{text}<extra>" + name + "</extra>",
    )


def _hover(point: Point) -> str:
    scores = f"precision {point.precision:.3f}, recall {point.recall:.3f}, F1 {point.f1:.3f}"
    scores += f" ({point.interval})" if point.interval else ""
    return "<br>".join([f"<b>ε = {epsilon_text(point.epsilon)}</b>", scores, *point.note])


def _goal(axis: EpsilonAxis, planned: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the line at the planned ε of the run's end, and its label."""
    x = axis.position(planned)
    line = {"color": palette.QUIET, "dash": "dot", "width": 1.5}
    text = "no privacy: final ε = ∞" if math.isinf(planned) else f"final ε = {epsilon_text(planned)}"
    left = x > (axis.low + axis.high) / 2
    beside = {"xanchor": "right", "xshift": -6} if left else {"xanchor": "left", "xshift": 6}
    label = {"x": x, "y": 0.95, "text": text, "showarrow": False, "font": {"size": 12}, **beside}
    return {"type": "line", "x0": x, "x1": x, "line": line, **WHOLE_HEIGHT}, label


def _tiers(axis: EpsilonAxis) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return bands behind the curves and their labels: how strong the privacy guarantee of an ε is."""
    edges = (
        ("strong", axis.low - 0.04, 0.0),
        ("reasonable", 0.0, 1.0),
        ("weak", 1.0, axis.high),
        ("none", axis.infinity, axis.end),
    )
    above = {"y": 1, "yref": "paper", "yshift": 1, "yanchor": "bottom", "showarrow": False, "font": {"size": 12}}
    bands, labels = [], []
    for name, start, end in edges:
        start = max(start, axis.low - 0.04)
        if end <= start:
            continue
        if name in palette.BAND:
            bands.append(band(start, end, palette.BAND[name]))
        if end - start > 0.3:
            labels.append({"x": (start + end) / 2, "text": "no privacy" if name == "none" else name, **above})
    return bands, labels


def f1_by_type(types: Sequence[TypeScore], *, private: bool, key: str) -> go.Figure:
    """Draw F1 of each entity type as bars; a line marks the run without noise."""
    names = [f"{literal(score.name)} ({score.names:,})" for score in types]
    figure = go.Figure(
        go.Bar(
            y=names,
            x=[score.f1 for score in types],
            orientation="h",
            name="this run",
            marker={
                "color": palette.PRIVATE if private else palette.NOT_PRIVATE,
                "pattern": {"shape": "" if private else "/", "fgopacity": 0.35},
            },
            text=[f"{score.f1:.2f}" for score in types],
            textposition="auto",
            customdata=[(score.precision, score.recall) for score in types],
            hovertemplate="%{y}<br>precision %{customdata[0]:.3f}, recall %{customdata[1]:.3f}, F1 %{x:.3f}"
            "<extra></extra>",
        )
    )
    references = [
        (name, score.reference) for name, score in zip(names, types, strict=True) if score.reference is not None
    ]
    if private and references:
        figure.add_trace(
            go.Scatter(
                y=[name for name, _ in references],
                x=[value for _, value in references],
                mode="markers",
                name="without noise",
                marker={"symbol": "line-ns", "size": 22, "line": {"width": 3, "color": palette.NOT_PRIVATE}},
                hovertemplate="without noise: F1 %{x:.3f}<extra></extra>",
            )
        )
    figure.update_layout(
        **plain_layout(key, height=138 + 38 * len(types)),
        margin={"l": 8, "r": 8, "t": 64, "b": 40},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        xaxis={"title": {"text": "F1"}, "range": [0, 1.0], "gridcolor": palette.GRID, "zeroline": False},
        yaxis={"autorange": "reversed", "automargin": True, "ticksuffix": " "},
        bargap=0.35,
    )
    return figure


def holdings(found: Holdings, *, key: str) -> go.Figure:
    """Draw the number of entities of each type that each client holds, as stacked bars."""
    clients = [int(name) if name.isdigit() else literal(titles.corpus(name)) for name in found.clients]
    facts = list(zip(found.sentences, found.tokens, strict=True))
    figure = go.Figure(
        [
            go.Bar(
                x=clients,
                y=[row[number] for row in found.entities],
                name=name,
                marker={
                    "color": palette.TYPES[number % len(palette.TYPES)],
                    "pattern": {"shape": _PATTERNS[number % len(_PATTERNS)], "fillmode": "overlay", "fgopacity": 0.35},
                },
                customdata=facts,
                hovertemplate=f"client %{{x}}: %{{y:,}} {name}<br>%{{customdata[0]:,}} sentences, "
                "%{customdata[1]:,} tokens<extra></extra>",
            )
            for number, name in enumerate(map(literal, found.types))
        ]
    )
    figure.update_layout(
        **plain_layout(key, height=348),
        margin={"l": 56, "r": 8, "t": 64, "b": 44},
        barmode="stack",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        xaxis={"title": {"text": "client"}, "dtick": max(1, len(clients) // 10), "zeroline": False},
        yaxis={"title": {"text": "entities"}, "gridcolor": palette.GRID, "zeroline": False},
        bargap=0.2,
    )
    return figure
