"""Markers of a guess in a chart, and the common layout of lesson charts. Without Streamlit."""

import math

import plotly.graph_objects as go

from pages.shared import charts, palette

GUESS = {"color": palette.F1, "width": 3, "dash": "dash"}
"""Line style of a guess in every chart; width in pixels."""


def layout(figure: go.Figure, key: str, *, x: str, y: str, height: int = 410) -> go.Figure:
    """Apply the common layout of lesson charts: axis titles, and a legend above the plot.

    Args:
        figure: The chart to change.
        key: Charts with the same key keep zoom and selection.
        x: Title of the horizontal axis.
        y: Title of the vertical axis.
        height: Height in pixels.
    """
    figure.update_layout(
        **charts.plain_layout(key, height=height),
        margin={"l": 56, "r": 12, "t": 80, "b": 48},
        legend={"orientation": "h", "y": 1.08, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        hovermode="closest",
        barmode="stack",
        bargap=0.25,
    )
    figure.update_xaxes(title={"text": x}, gridcolor=palette.GRID, zeroline=False)
    figure.update_yaxes(title={"text": y}, gridcolor=palette.GRID, zeroline=False)
    return figure


def horizontal_line(figure: go.Figure, at: float | None, text: str = "your guess", *, log: bool = False) -> None:
    """Draw a guess as a horizontal line.

    Args:
        figure: The chart to change.
        at: Value of the guess on the vertical axis; None draws nothing.
        text: Label of the line.
        log: Whether the axis is logarithmic. Plotly then expects plain values for lines and powers of ten for labels.
    """
    if at is not None:
        figure.add_hline(y=at, line=GUESS)
        y = math.log10(at) if log else at
        figure.add_annotation(
            x=0, xref="paper", y=y, text=text, showarrow=False, xanchor="left", yanchor="bottom", name="guess"
        )


def vertical_line(figure: go.Figure, at: float | None, text: str = "your guess", *, side: str = "top") -> None:
    """Draw a guess as a vertical line.

    Args:
        figure: The chart to change.
        at: Value of the guess on the horizontal axis; None draws nothing.
        text: Label of the line.
        side: Position of the label, such as ``top left``.
    """
    if at is not None:
        figure.add_vline(x=at, line=GUESS, annotation={"text": text}, annotation_position=side)


def limit_line(figure: go.Figure, at: float, text: str, *, position: str = "bottom right") -> None:
    """Draw a limit as a thin dotted horizontal line with a label at this position."""
    line = {"color": palette.QUIET, "width": 1.5, "dash": "dot"}
    figure.add_hline(y=at, line=line, annotation={"text": text}, annotation_position=position)
