"""The picture of 100 guesses."""

import plotly.graph_objects as go

from pages.shared import charts, palette

_ROWS, _HALF = 5, 50


def guesses(right: int, person: int | None, *, key: str) -> go.Figure:
    """Draw 100 guesses of an attacker: right by chance, right at most with the model, and wrong.

    Args:
        right: Largest number of right guesses about one protected unit.
        person: The same about a person with several records; None if that is not another number.
        key: Key of the chart.
    """
    most = max(right, person or 0)
    groups = [
        (f"right without the model: {_HALF}", range(_HALF), palette.QUIET, "circle"),
        (f"also right with the model, at most: {right - _HALF}", range(_HALF, right), palette.RECALL, "diamond"),
    ]
    if person is not None and person > right:
        label = f"also right about the person, at most: {person - right}"
        groups.append((label, range(right, person), palette.F1, "square"))
    groups.append((f"wrong: {100 - most}", range(most, 100), palette.QUIET, "circle-open"))
    figure = go.Figure()
    for name, numbers, colour, symbol in groups:
        figure.add_trace(
            go.Scatter(
                x=[number // _ROWS for number in numbers],
                y=[-(number % _ROWS) for number in numbers],
                mode="markers",
                name=name,
                marker={"size": 15, "color": colour, "symbol": symbol, "line": {"color": colour, "width": 1.5}},
                hovertemplate=f"{name}<extra></extra>",
            )
        )
    hidden = {"visible": False, "fixedrange": True}
    return figure.update_layout(
        **charts.plain_layout(key, height=230),
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        xaxis=hidden | {"range": [-0.8, 19.8]},
        yaxis=hidden | {"range": [-4.8, 0.8]},
        legend={"orientation": "h", "y": -0.02, "yanchor": "top", "x": 0},
    )
