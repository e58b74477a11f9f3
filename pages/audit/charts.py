"""Charts of audits: claimed ε with measured lower bounds, and ROC curves of membership inference. Without Streamlit."""

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from engine.privacy.audit.membership import allowed
from engine.records import RATES, SHOWN, CanaryAudit, MembershipAudit
from engine.reports.audits import ATTACKS
from engine.reports.numbers import epsilon_text
from pages.audit.groups import Group
from pages.shared import palette
from pages.shared.charts import plain_layout
from pages.shared.epsilon_axis import EpsilonAxis

_SMALLEST_RATE = RATES[0]
"""Start of the logarithmic axes, which cannot show a rate of 0."""
_LEGEND_ABOVE = {
    "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    "margin": {"l": 62, "r": 8, "t": 80, "b": 52},
}


def claims(groups: Sequence[Group], key: str) -> go.Figure:
    """Draw a row for each group: its claimed ε, and the lower bounds of white-box and black-box attackers.

    With several seeds, the lower bound is the joint one (filled marker), else the mean (open marker).

    Args:
        groups: The groups, from top to bottom.
        key: Charts with the same key keep zoom and selection.
    """
    axis = EpsilonAxis([group.claimed for group in groups])
    names = [group.title for group in groups]
    figure = go.Figure()
    for group, name in zip(groups, names, strict=True):
        best = max((group.bound(audits) or 0.0 for audits in (group.white, group.black)), default=0.0)
        figure.add_scatter(
            x=[axis.position(best), axis.position(group.claimed)],
            y=[name, name],
            mode="lines",
            line={"color": palette.QUIET, "width": 2, "dash": "dot"},
            hoverinfo="skip",
            showlegend=False,
        )
    rows = (
        ("claimed", palette.PRIVATE, "diamond", [(group.claimed, False) for group in groups]),
        ("white-box attacker", palette.RECALL, "circle", [_marker(group, group.white) for group in groups]),
        ("black-box attacker", palette.PRECISION, "square", [_marker(group, group.black) for group in groups]),
    )
    for name, colour, symbol, values in rows:
        points = [(value, row, mean) for (value, mean), row in zip(values, names, strict=True) if value is not None]
        figure.add_scatter(
            x=[axis.position(value) for value, _, _ in points],
            y=[row for _, row, _ in points],
            mode="markers",
            cliponaxis=False,
            name=name,
            marker={
                "color": colour,
                "symbol": [f"{symbol}-open" if mean else symbol for _, _, mean in points],
                "size": 13,
                "line": {"width": [3 if mean else 1 for _, _, mean in points], "color": "white"},
            },
            text=[
                f"{name}: ε = {epsilon_text(value) if value else '0'}" + (" (mean over seeds)" if mean else "")
                for value, _, mean in points
            ],
            hovertemplate="%{y}<br>%{text}<extra></extra>",
        )
    axis.shade(figure)
    figure.update_layout(plain_layout(key, height=190 + 46 * len(groups)) | _LEGEND_ABOVE)
    figure.update_xaxes(axis.layout())
    figure.update_yaxes(
        automargin=True,
        gridcolor=palette.GRID,
        tickvals=names,
        ticktext=[_two_lines(name) for name in names],
        ticklabelstandoff=8,
    )
    figure.update_yaxes(range=[len(groups) - 0.4, -0.6])
    return figure


def _marker(group: Group, audits: Sequence[CanaryAudit]) -> tuple[float | None, bool]:
    """Return the bound of an attacker, and whether it is the mean over several seeds."""
    return group.bound(audits), len(audits) > 1 and group.joint(audits) is None


def _two_lines(name: str) -> str:
    """Return a name in two lines, so that the chart beside it fits on a phone."""
    return "<br>ε = ".join(name.rsplit(", ε = ", 1))


def roc_curves(audit: MembershipAudit, key: str) -> go.Figure:
    """Draw TPR over FPR of each attack on logarithmic axes, with the largest TPR that (ε, δ) permits.

    Args:
        audit: The result of membership inference; error bars show the 95 % CI of its strongest attack.
        key: Charts with the same key keep zoom and selection.
    """
    figure = go.Figure()
    rates = list(RATES)
    figure.add_scatter(
        x=rates,
        y=rates,
        mode="lines",
        name="random guessing",
        line={"color": palette.QUIET, "dash": "dot"},
        hoverinfo="skip",
    )
    if math.isfinite(audit.claimed):
        figure.add_scatter(
            x=rates,
            y=allowed(np.array(RATES), audit.claimed, audit.delta).tolist(),
            mode="lines",
            name="permitted by ε",
            line={"color": palette.PRIVATE, "width": 2},
            hovertemplate="TPR at most %{y:.2%} at FPR %{x:.2%}<extra></extra>",
        )
    for curve, colour, dash in zip(audit.curves, palette.TYPES, palette.DASHES, strict=False):
        figure.add_scatter(
            x=rates,
            y=[max(tpr, _SMALLEST_RATE) for tpr in curve.caught],
            mode="lines",
            name=ATTACKS.get(curve.attack, curve.attack),
            line={"color": colour, "dash": dash, "width": 3 if curve.attack == audit.best else 1.5},
            hovertemplate="TPR %{y:.2%} at FPR %{x:.2%}<extra>" + ATTACKS.get(curve.attack, curve.attack) + "</extra>",
        )
    strongest = audit.strongest
    figure.add_scatter(
        x=list(SHOWN),
        y=[tpr for tpr, _, _ in strongest.shown],
        mode="markers",
        name=f"{ATTACKS.get(strongest.attack, strongest.attack)}, 95 % CI",
        marker={"color": palette.RECALL, "size": 7},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [high - tpr for tpr, _, high in strongest.shown],
            "arrayminus": [tpr - max(low, _SMALLEST_RATE) for tpr, low, _ in strongest.shown],
        },
        hovertemplate="TPR %{y:.2%} at FPR %{x:.2%}<extra>95 % CI over models</extra>",
    )
    figure.update_layout(plain_layout(key, height=460) | _LEGEND_ABOVE)
    axis: dict[str, object] = {
        "type": "log",
        "range": [math.log10(_SMALLEST_RATE), 0.02],
        "gridcolor": palette.GRID,
        "tickformat": "~%",
    }
    axis |= {"tickvals": [1e-4, 1e-3, 0.01, 0.1, 1], "zeroline": False}
    figure.update_xaxes(axis | {"title": {"text": "false-positive rate (FPR)", "standoff": 6}})
    figure.update_yaxes(axis | {"title": {"text": "true-positive rate (TPR)"}})
    return figure
