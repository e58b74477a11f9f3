"""Chart of a score over ε with fitted curves and their confidence bands. Without Streamlit."""

from collections.abc import Sequence

import plotly.graph_objects as go

from engine.experiments.planner.curve import ConfigFamily, Curve
from engine.experiments.planner.evidence import Setting
from engine.experiments.planner.recommendation import Recommendation
from engine.experiments.planner.targets import Measure
from engine.experiments.statistics import spread
from engine.reports.numbers import epsilon_text
from engine.reports.planner import measure_text
from pages.planner.rows import names
from pages.shared import address, charts, palette, titles
from pages.shared.epsilon_axis import EpsilonAxis

MOST = 4
"""Number of curves whose overlapping bands a reader can still distinguish."""


def score_chart(plan: Recommendation, drawn: Sequence[tuple[ConfigFamily, Curve]], *, key: str) -> go.Figure:
    """Draw all configurations, some fitted curves with their bands, and the target.

    A click on a point opens its configuration in Explore.

    Args:
        plan: The recommendation with its evidence and target.
        drawn: The configuration families to draw, with their fitted curves; :data:`MOST` at most.
        key: Charts with the same key keep zoom and selection.
    """
    measure = plan.target.main
    axis = EpsilonAxis([setting.epsilon for setting in plan.evidence.settings])
    figure = go.Figure(_settings(plan.evidence.settings, measure, axis))
    axis.shade(figure)
    for number, ((_, curve), name) in enumerate(zip(drawn, names([family.config for family, _ in drawn]), strict=True)):
        _band(figure, curve, axis, number, name)
        figure.add_trace(_line(curve, axis, number, name))
    required = [threshold.at_least for threshold in plan.target.thresholds if threshold.measure == measure]
    for least in required:
        figure.add_hline(
            y=least,
            line={"dash": "dash", "width": 1.5, "color": palette.PRIVATE},
            annotation={"text": f"required: {least:g}", "font": {"size": 11}},
            annotation_position="bottom left",
        )
    if ceiling := plan.answer.ceiling:
        figure.add_hline(
            y=spread(ceiling.setting.values(measure)).mean,
            line={"dash": "dot", "width": 1.5, "color": palette.QUIET},
            annotation={"text": "without noise", "font": {"size": 11}},
            annotation_position="top right",
        )
    if plan.target.epsilon is not None:
        limit = {"dash": "dash", "width": 1.5, "color": palette.PRIVATE}
        figure.add_vline(x=axis.position(plan.target.epsilon), line=limit)
    return figure.update_layout(
        **charts.plain_layout(key, height=420 + 22 * len(drawn)),
        margin={"l": 52, "r": 8, "t": 36, "b": 48},
        hovermode="closest",
        showlegend=True,
        legend={"orientation": "v", "y": -0.2, "yanchor": "top", "x": 0},
        xaxis=axis.layout(),
        yaxis={
            "title": {"text": f"{charts.literal(measure_text(measure))}, test set"},
            "range": [-0.03, 1.03],
            "gridcolor": palette.GRID,
            "zeroline": False,
        },
    )


def _settings(settings: Sequence[Setting], measure: Measure, axis: EpsilonAxis) -> go.Scatter:
    spreads = [spread(setting.values(measure)) for setting in settings]
    return go.Scatter(
        x=[axis.position(setting.epsilon) for setting in settings],
        y=[scores.mean for scores in spreads],
        mode="markers",
        name="configuration, mean over seeds",
        marker={"symbol": "circle-open", "size": 7, "color": palette.QUIET},
        text=[
            f"<b>{titles.setting(setting.config, with_corpus=False)}</b><br>"
            f"ε = {epsilon_text(setting.epsilon)}, {charts.literal(measure_text(measure))} {scores.text}, "
            f"seeds: {scores.number}"
            for setting, scores in zip(settings, spreads, strict=True)
        ],
        customdata=[address.link(setting.config) for setting in settings],
        hovertemplate="%{text}<extra></extra>",
    )


def _line(curve: Curve, axis: EpsilonAxis, number: int, name: str) -> go.Scatter:
    colour = palette.TYPES[number]
    return go.Scatter(
        x=[axis.position(epsilon) for epsilon in curve.epsilons],
        y=curve.fitted,
        mode="lines+markers",
        name=name,
        legendgroup=name,
        line={"color": colour, "width": 2.2, "dash": palette.DASHES[number]},
        marker={"symbol": palette.SYMBOLS[number], "size": 7, "color": colour},
        text=[epsilon_text(epsilon) for epsilon in curve.epsilons],
        hovertemplate="ε = %{text}: fitted %{y:.3f}<extra>" + name + "</extra>",
    )


def _band(figure: go.Figure, curve: Curve, axis: EpsilonAxis, number: int, name: str) -> None:
    """Add a band as steps: a lower limit holds from its ε upwards, an upper limit up to its ε."""
    positions = [axis.position(epsilon) for epsilon, _ in curve.band]
    colour = palette.TYPES[number]
    for ends, shape, fill in (
        ([interval.low for _, interval in curve.band], "hv", None),
        ([interval.high for _, interval in curve.band], "vh", "tonexty"),
    ):
        figure.add_trace(
            go.Scatter(
                x=positions,
                y=ends,
                mode="lines",
                line={"width": 0.5, "color": colour, "shape": shape},
                fill=fill,
                fillcolor=_pale(colour),
                legendgroup=name,
                showlegend=False,
                hoverinfo="skip",
            )
        )


def _pale(colour: str) -> str:
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, 0.18)"
