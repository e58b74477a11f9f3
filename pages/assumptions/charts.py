"""The waterfall chart from a reported ε to the guaranteed ε and to the chosen assumptions. Does not use Streamlit."""

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from engine.privacy.assumptions import TITLES, Step
from engine.reports.assumptions import UNKNOWN
from engine.reports.numbers import epsilon_text
from pages.shared import palette
from pages.shared.charts import plain_layout


def waterfall(steps: Sequence[Step], key: str) -> go.Figure:
    """Draw one bar for each step on a logarithmic axis, from the ε before it to the ε after it.

    An assumption that the reported value ignores makes ε larger; a too conservative one makes it smaller.
    """
    finite = [step.epsilon for step in steps if step.epsilon and math.isfinite(step.epsilon)]
    least, most = (min(finite), max(finite)) if finite else (0.1, 10.0)
    bottom, top = 10 ** (math.floor(math.log10(least)) - 0.3), 10 ** (math.log10(most) + 0.5)
    figure = go.Figure()
    before = bottom
    for number, step in enumerate(steps):
        value = step.epsilon
        end = top if value is None or math.isinf(value) else max(value, bottom)
        whole = step.assumption == ""
        low, high = (bottom, end) if whole else (min(before, end), max(before, end))
        colour = palette.PRIVATE if whole else palette.RECALL if end >= before else palette.PRECISION
        text = "?" if value is None else epsilon_text(value)
        beyond = f"<br>at least {epsilon_text(step.at_least)}" if step.at_least else ""
        figure.add_bar(
            x=[number],
            y=[math.log10(high) - math.log10(low) or 0.01],
            base=math.log10(low),
            marker={"color": colour, "pattern": {"shape": "" if whole else "/" if end >= before else "\\"}},
            text=f"<b>{text}</b>{beyond}",
            textposition="outside",
            hovertext=f"{_label(step, '. ')}<br>{UNKNOWN if value is None else f'ε = {text}'}{beyond}",
            hoverinfo="text",
            cliponaxis=False,
        )
        before = end
    figure.update_layout(
        plain_layout(key, height=420) | {"showlegend": False, "margin": {"l": 52, "r": 8, "t": 40, "b": 8}}
    )
    figure.update_xaxes(
        tickvals=list(range(len(steps))), ticktext=[_label(step, "<br>") for step in steps], automargin=True
    )
    powers = range(math.floor(math.log10(bottom)), math.ceil(math.log10(top)) + 1)
    figure.update_yaxes(
        title={"text": "ε (logarithmic axis)"},
        range=[math.log10(bottom), math.log10(top) + 0.1],
        tickvals=list(powers),
        ticktext=[f"{10.0**power:g}" for power in powers],
        gridcolor=palette.GRID,
        zeroline=False,
    )
    return figure


def _label(step: Step, between: str) -> str:
    if not step.assumption:
        return step.choice
    words = f"{TITLES[step.assumption]}:{between}{step.choice}"
    return _lines(words) if between == "<br>" else words


def _lines(text: str, width: int = 20) -> str:
    """Return the text with line breaks between words."""
    lines = [""]
    for word in text.replace("<br>", " ").split():
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "<br>".join(lines)
