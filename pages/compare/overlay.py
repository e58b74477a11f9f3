"""Chart of F1 of several configurations against ε, steps, rounds, bytes or seconds. Does not use Streamlit."""

from collections.abc import Sequence

import plotly.graph_objects as go

from pages.compare.groups import ALONG, Group, Step, curve
from pages.shared import charts, palette, titles
from pages.shared.epsilon_axis import EpsilonAxis


def overlay(groups: Sequence[Group], along: str, *, key: str) -> go.Figure:
    """Draw F1 as one line for each group, with the standard deviation over seeds as error bars.

    A run without privacy moves through the section of ε = ∞ during training.

    Args:
        groups: The groups to draw.
        along: Quantity on the horizontal axis, a key of :data:`pages.compare.groups.ALONG`.
        key: A chart with the same key keeps its zoom and selection.
    """
    curves = [curve(group, along) for group in groups]
    axis = EpsilonAxis([step.x for steps in curves for step in steps])
    figure = go.Figure()
    for number, (group, steps) in enumerate(zip(groups, curves, strict=True)):
        name = charts.literal(titles.setting(group.config))
        positions = [axis.position(step.x, step.progress) if along == "epsilon" else step.x for step in steps]
        figure.add_trace(_line(number, name, positions, steps, ALONG[along]))
    if along == "epsilon":
        axis.shade(figure)
    plain = {"title": {"text": ALONG[along]}, "gridcolor": palette.GRID, "zeroline": False}
    return figure.update_layout(
        **charts.plain_layout(key, height=400 + 22 * len(groups)),
        margin={"l": 52, "r": 8, "t": 36, "b": 48},
        legend={"orientation": "v", "y": -0.18, "yanchor": "top", "x": 0},
        showlegend=True,
        xaxis=axis.layout() if along == "epsilon" else plain,
        yaxis={
            "title": {"text": "F1, validation set"},
            "rangemode": "tozero",
            "gridcolor": palette.GRID,
            "zeroline": False,
        },
    )


def _line(number: int, name: str, positions: Sequence[float], steps: Sequence[Step], title: str) -> go.Scatter:
    colour = palette.TYPES[number % len(palette.TYPES)]
    return go.Scatter(
        x=list(positions),
        y=[step.f1.mean for step in steps],
        error_y={"type": "data", "array": [step.f1.sd for step in steps], "thickness": 1, "width": 2},
        mode="lines+markers",
        name=name,
        line={"color": colour, "width": 2.2, "dash": palette.DASHES[number % len(palette.DASHES)]},
        marker={"symbol": palette.SYMBOLS[number % len(palette.SYMBOLS)], "size": 7, "color": colour},
        text=[f"{step.x:.4g}" if step.x != float("inf") else "∞" for step in steps],
        hovertemplate=f"{title}: %{{text}}<br>F1 %{{y:.3f}}<extra>{name}</extra>",
    )
