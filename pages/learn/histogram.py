"""Histogram of the guesses of a class. Without Streamlit."""

import plotly.graph_objects as go

from engine.lessons.poll import Tally
from pages.learn.lesson import with_unit
from pages.shared import palette
from pages.shared.charts import plain_layout


def picture(tally: Tally, *, height: int) -> go.Figure:
    """Draw the number of phones by guess, with a line at the median; the height is in pixels."""
    edges, counts = tally.bins()
    asked, width = tally.question, edges[1] - edges[0]
    last = [min(right - asked.step / 2, asked.high) for right in edges[1:]]
    ranges = [(left + asked.step / 2, right) for left, right in zip(edges[:-1], last, strict=True)]
    labels = [f"{low:g}" if low >= high else f"{low:g} to {high:g}" for low, high in ranges]
    bars = go.Bar(
        x=[left + width / 2 for left in edges[:-1]],
        y=counts,
        width=0.92 * width,
        marker={"color": palette.TYPES[0]},
        customdata=labels,
        hovertemplate="%{customdata}" + asked.unit.replace("%", "&#37;") + ": %{y}<extra></extra>",
    )
    figure = go.Figure(bars, plain_layout(f"guesses-{tally.token}", height=height))
    figure.update_layout(margin={"l": 44, "r": 16, "t": 34, "b": 44}, showlegend=False)
    figure.update_xaxes(title={"text": axis(asked.label, asked.unit)}, range=[edges[0], edges[-1]], zeroline=False)
    most = max(counts)
    figure.update_yaxes(title="guesses", gridcolor=palette.GRID, range=[0, max(most, 4) * 1.1], tickformat=",d")
    if tally.values:
        figure.add_vline(
            tally.median,
            line={"color": palette.F1, "width": 3, "dash": "dash"},
            annotation={"text": f"median {with_unit(tally.median, asked.unit)}", "yanchor": "bottom"},
            annotation_position="top",
        )
    return figure


def axis(label: str, unit: str) -> str:
    """Return the axis title of a guess, with its unit."""
    return f"{label} ({unit.strip()})" if unit.strip() else label


def sentence(tally: Tally) -> str:
    """Return the number of guesses and their median in a sentence."""
    number = len(tally.values)
    if not number:
        return "No guesses yet."
    return f"{number} {'guess' if number == 1 else 'guesses'}, median {with_unit(tally.median, tally.question.unit)}"
