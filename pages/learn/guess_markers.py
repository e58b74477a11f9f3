"""A guess drawn into a picture, and what pictures of lessons have in common: no streamlit."""

import math

import plotly.graph_objects as go

from pages.shared import charts, palette

GUESS = {"color": palette.F1, "width": 3, "dash": "dash"}
"""How a guess looks, in each picture."""


def layout(figure: go.Figure, key: str, *, x: str, y: str, height: int = 410) -> go.Figure:
    """Frame of a lesson's picture: titles of the axes, a legend above it."""
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


def across(figure: go.Figure, at: float | None, text: str = "your guess", *, log: bool = False) -> None:
    """A guess as a horizontal line; nothing where there is none. log: whether the axis is logarithmic, where plotly
    wants places of lines as they are and those of words as powers of ten."""
    if at is not None:
        figure.add_hline(y=at, line=GUESS)
        place = math.log10(at) if log else at
        figure.add_annotation(
            x=0, xref="paper", y=place, text=text, showarrow=False, xanchor="left", yanchor="bottom", name="guess"
        )


def upright(figure: go.Figure, at: float | None, text: str = "your guess", *, side: str = "top") -> None:
    """A guess as a vertical line; nothing where there is none."""
    if at is not None:
        figure.add_vline(x=at, line=GUESS, annotation={"text": text}, annotation_position=side)


def level(figure: go.Figure, at: float, text: str, *, position: str = "bottom right") -> None:
    """A limit, as a quiet horizontal line."""
    line = {"color": palette.QUIET, "width": 1.5, "dash": "dot"}
    figure.add_hline(y=at, line=line, annotation={"text": text}, annotation_position=position)
