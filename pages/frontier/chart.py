"""Chart of the Pareto frontier: the highest measured F1 for each ε. Without Streamlit."""

from collections.abc import Sequence

import plotly.graph_objects as go

from engine.reports.numbers import epsilon_text
from pages.frontier.points import Setting, best
from pages.shared import address, charts, palette, titles
from pages.shared.epsilon_axis import EpsilonAxis

FEDERATED = ((5, palette.TYPES[0], "square"), (20, palette.TYPES[2], "triangle-up"))
"""Numbers of clients with a frontier of their own: clients, colour, marker."""


def picture(
    settings: Sequence[Setting],
    frontier: Sequence[Setting],
    top: Setting | None,
    published: Sequence[tuple[float, float, str]],
    floor: float,
    *,
    key: str,
) -> go.Figure:
    """Draw F1 over ε; a click on a point opens its configuration in Explore.

    Args:
        settings: All configurations, each a grey circle.
        frontier: The Pareto-optimal ones, joined by a line.
        top: The configuration without privacy that bounds F1 from above; None draws no line.
        published: The paper's rows: ε recomputed by us, reported F1, title.
        floor: F1 of a tagger that marks no entity.
        key: Charts with the same key keep zoom and selection.
    """
    epsilons = [setting.epsilon for setting in settings if setting.private] + [epsilon for epsilon, _, _ in published]
    axis = EpsilonAxis(epsilons)
    figure = go.Figure(_points(settings, axis, "all settings", palette.QUIET, "circle-open", 7))
    axis.shade(figure)
    _line(figure, frontier, axis, "Pareto frontier", palette.F1, "circle", "solid")
    for (clients, colour, symbol), dash in zip(FEDERATED, ("dash", "dot"), strict=True):
        if split := best(settings, clients):
            _line(figure, split, axis, f"{clients} clients", colour, symbol, dash)
    if published:
        figure.add_trace(_reported(published, axis))
    if top:
        _level(figure, top.f1.mean, "without noise", "top left")
    _level(
        figure, floor, "tagger that predicts no entity", "top right"
    )  # private runs with large noise are on the left
    return figure.update_layout(
        **charts.plain_layout(key, height=440),
        margin={"l": 52, "r": 8, "t": 64, "b": 48},
        hovermode="closest",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        xaxis=axis.layout(),
        yaxis={"title": {"text": "F1, test set"}, "range": [-0.03, 1], "gridcolor": palette.GRID, "zeroline": False},
    )


def _line(
    figure: go.Figure, settings: Sequence[Setting], axis: EpsilonAxis, name: str, colour: str, symbol: str, dash: str
) -> None:
    """Add a frontier to the figure; the one over all configurations is thicker and has error bars over seeds."""
    over_all = dash == "solid"
    line = _points(settings, axis, name, colour, symbol, 12 if over_all else 9)
    line.mode = "lines+markers"
    line.line = {"shape": "hv", "color": colour, "width": 2.5 if over_all else 2, "dash": dash}
    if over_all:
        line.error_y = {"type": "data", "array": [setting.f1.sd for setting in settings], "thickness": 1.5}
    figure.add_trace(line)


def _reported(published: Sequence[tuple[float, float, str]], axis: EpsilonAxis) -> go.Scatter:
    return go.Scatter(
        x=[axis.position(epsilon) for epsilon, _, _ in published],
        y=[f1 for _, f1, _ in published],
        mode="markers",
        name="reported F1 at recomputed ε",
        marker={"symbol": "diamond-open", "size": 11, "color": palette.RECALL, "line": {"width": 2.2}},
        text=[name for _, _, name in published],
        hovertemplate="%{text}: reported F1 %{y:.3f}<extra></extra>",
    )


def _level(figure: go.Figure, f1: float, name: str, position: str) -> None:
    figure.add_hline(
        y=f1,
        line={"dash": "dot", "width": 1.5, "color": palette.QUIET},
        annotation={"text": name, "font": {"size": 11}},
        annotation_position=position,
    )


def _points(
    settings: Sequence[Setting], axis: EpsilonAxis, name: str, colour: str, symbol: str, size: int
) -> go.Scatter:
    return go.Scatter(
        x=[axis.position(setting.epsilon) for setting in settings],
        y=[setting.f1.mean for setting in settings],
        mode="markers",
        name=name,
        marker={"symbol": symbol, "size": size, "color": colour},
        text=[
            f"<b>{titles.setting(setting.config, with_corpus=False)}</b><br>"
            f"ε = {epsilon_text(setting.epsilon)}, F1 {setting.f1.text}, seeds: {setting.seeds_text}"
            for setting in settings
        ],
        customdata=[address.link(setting.config) for setting in settings],
        hovertemplate="%{text}<extra>" + name + "</extra>",
    )
