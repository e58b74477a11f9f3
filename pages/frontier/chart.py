"""The best F1 that is known for each ε, drawn: no streamlit."""

from collections.abc import Sequence

import plotly.graph_objects as go

from engine.reports.numbers import epsilon_text
from pages.frontier.points import Setting, best
from pages.shared import address, charts, palette, titles
from pages.shared.epsilon_axis import EpsilonAxis

FEDERATED = ((5, palette.TYPES[0], "square"), (20, palette.TYPES[2], "triangle-up"))
"""Numbers of clients that have a line of their own, and how it looks."""


def picture(
    found: Sequence[Setting],
    frontier: Sequence[Setting],
    top: Setting | None,
    published: Sequence[tuple[float, float, str]],
    floor: float,
    *,
    key: str,
) -> go.Figure:
    """F1 against ε: every setting, the frontier, the ceiling and the floor. A click opens the setting in Explore."""
    known = [each.epsilon for each in found if each.private] + [epsilon for epsilon, _, _ in published]
    axis = EpsilonAxis(known)
    figure = go.Figure(_points(found, axis, "all settings", palette.QUIET, "circle-open", 7))
    axis.shade(figure)
    _line(figure, frontier, axis, "best known", palette.F1, "circle", "solid")
    for (clients, colour, symbol), dash in zip(FEDERATED, ("dash", "dot"), strict=True):
        if split := best(found, clients):
            _line(figure, split, axis, f"{clients} clients", colour, symbol, dash)
    if published:
        figure.add_trace(_printed(published, axis))
    if top:
        _level(figure, top.f1.mean, "not private")
    _level(figure, floor, "finds no name")
    return figure.update_layout(
        **charts.plain_layout(key, height=440),
        margin={"l": 52, "r": 8, "t": 64, "b": 48},
        hovermode="closest",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        xaxis=axis.layout(),
        yaxis={"title": {"text": "F1, test part"}, "range": [-0.03, 1], "gridcolor": palette.GRID, "zeroline": False},
    )


def _line(
    figure: go.Figure, found: Sequence[Setting], axis: EpsilonAxis, name: str, colour: str, symbol: str, dash: str
) -> None:
    """A frontier, with the spread over seeds; the one over all settings is larger than those of federations."""
    whole = dash == "solid"
    line = _points(found, axis, name, colour, symbol, 12 if whole else 9)
    line.mode, line.line = "lines+markers", {"shape": "hv", "color": colour, "width": 2.5 if whole else 2, "dash": dash}
    if whole:
        line.error_y = {"type": "data", "array": [each.f1.sd for each in found], "thickness": 1.5}
    figure.add_trace(line)


def _printed(published: Sequence[tuple[float, float, str]], axis: EpsilonAxis) -> go.Scatter:
    return go.Scatter(
        x=[axis.position(epsilon) for epsilon, _, _ in published],
        y=[f1 for _, f1, _ in published],
        mode="markers",
        name="printed, at honest ε",
        marker={"symbol": "diamond-open", "size": 11, "color": palette.RECALL, "line": {"width": 2.2}},
        text=[name for _, _, name in published],
        hovertemplate="%{text}: printed F1 %{y:.3f}<extra></extra>",
    )


def _level(figure: go.Figure, f1: float, name: str) -> None:
    figure.add_hline(
        y=f1,
        line={"dash": "dot", "width": 1.5, "color": palette.QUIET},
        annotation={"text": name, "font": {"size": 11}},
        annotation_position="top left",
    )


def _points(found: Sequence[Setting], axis: EpsilonAxis, name: str, colour: str, symbol: str, size: int) -> go.Scatter:
    return go.Scatter(
        x=[axis.position(each.epsilon) for each in found],
        y=[each.f1.mean for each in found],
        mode="markers",
        name=name,
        marker={"symbol": symbol, "size": size, "color": colour},
        text=[
            f"<b>{titles.setting(each.config, with_corpus=False)}</b><br>"
            f"ε = {epsilon_text(each.epsilon)}, F1 {each.f1.text}, seeds: {each.seeds_text}"
            for each in found
        ],
        customdata=[address.link(each.config) for each in found],
        hovertemplate="%{text}<extra>" + name + "</extra>",
    )
