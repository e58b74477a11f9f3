"""The bar chart of a budget: finished charges, running charges, and the remainder."""

import plotly.graph_objects as go

from engine.privacy.budget import BudgetState
from pages.shared import palette
from pages.shared.charts import literal, plain_layout


def bar(now: BudgetState, key: str) -> go.Figure:
    """Return one bar to 100 %, with one segment for each charge by time, hatched while its run is active."""
    figure = go.Figure()
    capacity = now.budget.filter.capacity if now.budget else 1.0
    segments = [(charge.rdp / capacity, charge.what, charge.pending) for charge in now.bookings]
    left = max(0.0, 1 - now.share)
    for share, what, pending in segments:
        figure.add_bar(
            y=[""],
            x=[share],
            orientation="h",
            marker={
                "color": palette.RECALL if pending else palette.PRIVATE,
                "pattern": {"shape": "/" if pending else ""},
                "line": {"width": 1, "color": "white"},
            },
            hovertext=f"{literal(what)}: {share:.1%}" + (", running" if pending else ""),
            hoverinfo="text",
        )
    figure.add_bar(
        y=[""],
        x=[left],
        orientation="h",
        marker={"color": "rgba(128, 128, 128, 0.18)"},
        text=f"{left:.0%} left" if left > 0.1 else "",
        textposition="inside",
        hovertext=f"{left:.1%} left",
        hoverinfo="text",
    )
    figure.update_layout(
        plain_layout(key, height=160)
        | {"barmode": "stack", "showlegend": False, "margin": {"l": 20, "r": 28, "t": 34, "b": 48}}
    )
    figure.update_xaxes(
        title={"text": "share of the budget spent"},
        range=[0, 1],
        tickvals=[0, 0.2, 0.4, 0.6, 0.8, 1],
        tickformat=".0%",
        gridcolor=palette.GRID,
    )
    figure.update_yaxes(showticklabels=False)
    return figure
