"""Pictures of audits: what is claimed beside what was measured, and whom membership inference catches."""

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from engine.privacy.audit.membership import allowed
from engine.records import RATES, SHOWN, MembershipAudit
from engine.reports.numbers import epsilon_text
from pages.audit.groups import Group, mean
from pages.shared import palette
from pages.shared.charts import plain_layout
from pages.shared.epsilon_axis import EpsilonAxis

_NAMES = {"loss": "loss alone", "LiRA": "LiRA", "RMIA": "RMIA", "Bayes": "Bayes"}
_LEAST = RATES[0]
_ABOVE = {
    "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    "margin": {"l": 62, "r": 8, "t": 80, "b": 52},
}


def claims(groups: Sequence[Group], key: str) -> go.Figure:
    """A row for each setting: the ε it claims, and what attackers show to be lost at least."""
    axis = EpsilonAxis([group.claimed for group in groups])
    names = [group.title for group in groups]
    figure = go.Figure()
    for group, name in zip(groups, names, strict=True):
        best = max((mean(found) or 0.0 for found in (group.white, group.black)), default=0.0)
        figure.add_scatter(
            x=[axis.position(best), axis.position(group.claimed)],
            y=[name, name],
            mode="lines",
            line={"color": palette.QUIET, "width": 2, "dash": "dot"},
            hoverinfo="skip",
            showlegend=False,
        )
    rows = (
        ("claimed", palette.PRIVATE, "diamond", [group.claimed for group in groups]),
        ("reads steps", palette.RECALL, "circle", [mean(group.white) for group in groups]),
        ("has the tagger", palette.PRECISION, "square", [mean(group.black) for group in groups]),
    )
    for name, colour, symbol, values in rows:
        there = [(value, row) for value, row in zip(values, names, strict=True) if value is not None]
        figure.add_scatter(
            x=[axis.position(value) for value, _ in there],
            y=[row for _, row in there],
            mode="markers",
            cliponaxis=False,
            name=name,
            marker={"color": colour, "symbol": symbol, "size": 13, "line": {"width": 1, "color": "white"}},
            text=[f"{name} ε = {epsilon_text(value) if value else '0, nothing was told'}" for value, _ in there],
            hovertemplate="%{y}<br>%{text}<extra></extra>",
        )
    axis.shade(figure)
    figure.update_layout(plain_layout(key, height=190 + 46 * len(groups)) | _ABOVE)
    figure.update_xaxes(axis.layout())
    figure.update_yaxes(
        automargin=True,
        gridcolor=palette.GRID,
        tickvals=names,
        ticktext=[_broken(name) for name in names],
        ticklabelstandoff=8,
    )
    figure.update_yaxes(range=[len(groups) - 0.4, -0.6])
    return figure


def _broken(name: str) -> str:
    """In two lines, so that a phone has room for the picture beside it."""
    return "<br>ε = ".join(name.rsplit(", ε = ", 1))


def caught(found: MembershipAudit, key: str) -> go.Figure:
    """Members caught against others wrongly named, on logarithmic axes, with what (ε, δ) permits."""
    figure = go.Figure()
    rates = list(RATES)
    figure.add_scatter(
        x=rates, y=rates, mode="lines", name="by chance", line={"color": palette.QUIET, "dash": "dot"}, hoverinfo="skip"
    )
    if math.isfinite(found.claimed):
        figure.add_scatter(
            x=rates,
            y=allowed(np.array(RATES), found.claimed, found.delta).tolist(),
            mode="lines",
            name="permitted by ε",
            line={"color": palette.PRIVATE, "width": 2},
            hovertemplate="at most %{y:.2%} of members where %{x:.2%} of others<extra></extra>",
        )
    for curve, colour, dash in zip(found.curves, palette.TYPES, palette.DASHES, strict=False):
        figure.add_scatter(
            x=rates,
            y=[max(share, _LEAST) for share in curve.caught],
            mode="lines",
            name=_NAMES.get(curve.attack, curve.attack),
            line={"color": colour, "dash": dash, "width": 3 if curve.attack == found.best else 1.5},
            hovertemplate="%{y:.2%} of members where %{x:.2%} of others<extra>" + curve.attack + "</extra>",
        )
    strongest = found.strongest
    figure.add_scatter(
        x=list(SHOWN),
        y=[share for share, _, _ in strongest.shown],
        mode="markers",
        name=f"{_NAMES.get(strongest.attack, strongest.attack)}, 95 %",
        marker={"color": palette.RECALL, "size": 7},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [most - share for share, _, most in strongest.shown],
            "arrayminus": [share - max(least, _LEAST) for share, least, _ in strongest.shown],
        },
        hovertemplate="%{y:.2%} of members where %{x:.2%} of others<extra>95 % over models</extra>",
    )
    figure.update_layout(plain_layout(key, height=460) | _ABOVE)
    axis: dict[str, object] = {
        "type": "log",
        "range": [math.log10(_LEAST), 0.02],
        "gridcolor": palette.GRID,
        "tickformat": "~%",
    }
    axis |= {"tickvals": [1e-4, 1e-3, 0.01, 0.1, 1], "zeroline": False}
    figure.update_xaxes(axis | {"title": {"text": "others wrongly named", "standoff": 6}})
    figure.update_yaxes(axis | {"title": {"text": "members caught"}})
    return figure
