"""Charts of training diagnostics: one run record by record, and variants compared. Without Streamlit."""

from collections.abc import Callable, Mapping, Sequence

import plotly.graph_objects as go

from engine.experiments.diagnosis import COUNTERFACTUAL
from engine.experiments.seed_aggregates import OverSeeds
from engine.experiments.statistics import ScoreSpread
from engine.records import Run
from engine.reports.numbers import epsilon_text
from pages.diagnose.findings import NOISY, Tried, of_type
from pages.shared import charts, palette

_COLOURS = {"CRF": palette.F1, "TDDL": palette.PRECISION, "phases": palette.F1}


def layers(run: Run, *, key: str) -> go.Figure:
    """Draw the median gradient norm before clipping, of all weights and by layer, with the clip norm."""
    series = {"all weights": [record.gradient_norm_median for record in run.records]}
    for name in run.records[-1].layer_norms:
        series[name] = [record.layer_norms.get(name) for record in run.records]
    clip_norm = run.config.privacy.clip_norm
    if clip_norm and not run.config.privacy.kind.client_level:
        series[f"clip norm {clip_norm:g}"] = [clip_norm] * len(run.records)
    figure = _over_steps(run, series, "median L2 norm before clipping (log)", key, log=True)
    quiet = {"dash": "dot", "width": 1.5, "color": palette.QUIET}
    return figure.update_traces(mode="lines", line=quiet, selector=lambda trace: trace.name.startswith("clip norm"))


def clipped(run: Run, *, key: str) -> go.Figure:
    """Draw the share of the sampled sentences whose gradient was clipped."""
    series = {"clipped": [record.clipped_fraction for record in run.records]}
    figure = _over_steps(run, series, "share of clipped gradients", key, legend=False)
    return figure.update_yaxes(range=[-0.02, 1.02], tickformat=".0%")


def noise(run: Run, *, key: str) -> go.Figure:
    """Draw the noise-to-signal ratio: L2 norm of the noise ÷ L2 norm of the sum that it is added to."""
    series = {"noise ÷ signal": [record.noise_to_signal for record in run.records]}
    figure = _over_steps(run, series, "noise ÷ signal (log)", key, log=True, legend=False, shown=1.0)
    return figure.add_hline(
        y=1,
        line={"dash": "dot", "width": 1.5, "color": palette.QUIET},
        annotation={"text": "noise = signal", "font": {"size": 11}},
        annotation_position="top right",
    )


def drift(run: Run, *, key: str) -> go.Figure:
    """Draw the drift (distance of the clients' weights from their mean) and the mean norm of the clients' updates."""
    communications = [record.federation for record in run.records if record.federation]
    rounds = [record.round for record in communications]
    lengths = [sum(record.update_norms) / max(1, len(record.update_norms)) for record in communications]
    series: dict[str, Sequence[float | None]] = {
        "distance from mean weights (drift)": [record.drift for record in communications],
        "update, mean over clients": lengths,
    }
    figure = go.Figure(
        [_line(number, name, rounds, values, "round %{x}") for number, (name, values) in enumerate(series.items())]
    )
    return _laid_out(figure, "communication rounds", "L2 norm", key)


def types(run: Run, *, key: str) -> go.Figure:
    """Draw the F1 of each entity type on the validation set."""
    of_records = [of_type(record) for record in run.records]
    series = {name: [scores.get(name) for scores in of_records] for name in sorted(of_records[-1])}
    figure = _over_steps(run, series, "F1, validation set", key)
    return figure.update_yaxes(range=[-0.02, 1.02])


def _over_steps(
    run: Run,
    series: Mapping[str, Sequence[float | None]],
    title: str,
    key: str,
    *,
    log: bool = False,
    legend: bool = True,
    shown: float | None = None,
) -> go.Figure:
    steps = [record.step for record in run.records]
    facts = [f"step {record.step:,}, ε = {epsilon_text(record.privacy.epsilon)}" for record in run.records]
    figure = go.Figure(
        [
            _line(number, charts.literal(name), steps, values, "%{text}", facts)
            for number, (name, values) in enumerate(series.items())
        ]
    )
    _laid_out(figure, "optimiser steps", title, key)
    figure.update_layout(showlegend=legend, margin_t=64 if legend else 36)
    positive = [value for values in (*series.values(), [shown]) for value in values if value]
    if log and positive:
        ticks = charts.log_ticks(min(positive) / 2, max(positive) * 2)
        figure.update_yaxes(type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
    return figure


def _line(
    number: int,
    name: str,
    x: Sequence[float],
    y: Sequence[float | None],
    where: str,
    text: Sequence[str] | None = None,
) -> go.Scatter:
    colour = palette.TYPES[number % len(palette.TYPES)]
    return go.Scatter(
        x=list(x),
        y=list(y),
        name=name,
        text=list(text) if text else None,
        mode="lines+markers",
        line={"color": colour, "width": 2.2, "dash": palette.DASHES[number % len(palette.DASHES)]},
        marker={"symbol": palette.SYMBOLS[number % len(palette.SYMBOLS)], "size": 7, "color": colour},
        hovertemplate=f"{where}: %{{y:.3g}}<extra>{name}</extra>",
    )


def _laid_out(figure: go.Figure, along: str, title: str, key: str) -> go.Figure:
    return figure.update_layout(
        **charts.plain_layout(key, height=320),
        margin={"l": 60, "r": 8, "t": 64, "b": 44},
        showlegend=True,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        xaxis={"title": {"text": along}, "gridcolor": palette.GRID, "zeroline": False, "rangemode": "tozero"},
        yaxis={"title": {"text": title}, "gridcolor": palette.GRID, "zeroline": False},
    )


def variants(tried: Sequence[Tried], *, key: str) -> go.Figure:
    """Draw the entity-level F1 of each variant with its standard deviation; counterfactual runs have hollow markers.

    Each group has a colour of its own. A dotted line marks the F1 of the variant in question.
    """
    names = list(dict.fromkeys(result.variant.name for result in tried))
    figure = go.Figure()
    groups = list(dict.fromkeys(result.variant.group for result in tried))
    for group, symbol in zip(groups, palette.SYMBOLS, strict=False):
        scored = [result for result in tried if result.variant.group == group and result.f1]
        scores = [result.f1 for result in scored if result.f1]
        figure.add_trace(
            go.Scatter(
                x=[f1.mean for f1 in scores],
                y=[result.variant.name for result in scored],
                error_x={"type": "data", "array": [f1.sd for f1 in scores], "thickness": 1.5},
                mode="markers",
                name=group,
                marker={
                    "symbol": [
                        symbol + ("-open" if result.variant.kind == COUNTERFACTUAL else "") for result in scored
                    ],
                    "size": 12,
                    "color": _COLOURS[group],
                    "line": {"width": 2, "color": _COLOURS[group]},
                },
                hovertemplate="%{y}<br>F1 %{x:.3f} ± %{error_x.array:.3f}<extra>" + group + "</extra>",
            )
        )
        base = next((result.f1.mean for result in scored if result.variant.name == NOISY and result.f1), None)
        if base is not None:
            figure.add_vline(x=base, line={"dash": "dot", "width": 1.5, "color": _COLOURS[group]})
    return figure.update_layout(
        **charts.plain_layout(key, height=130 + 34 * len(names)),
        margin={"l": 8, "r": 8, "t": 64, "b": 44},
        showlegend=len(groups) > 1,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        xaxis={
            "title": {"text": "entity-level F1, test set"},
            "gridcolor": palette.GRID,
            "zeroline": False,
            "rangemode": "tozero",
        },
        yaxis={
            "categoryorder": "array",
            "categoryarray": names,
            "autorange": "reversed",
            "automargin": True,
            "gridcolor": palette.GRID,
        },
    )


def phases(
    by_phase: Mapping[str, Sequence[OverSeeds]],
    reported: Sequence[tuple[float, float]],
    ours: Callable[[OverSeeds], ScoreSpread | None],
    floor: float | None,
    *,
    key: str,
) -> go.Figure:
    """Draw F1 after each phase: a line for each variant, and the paper's rows as diamonds.

    Args:
        by_phase: By the name of a variant, its runs after each phase.
        reported: The rows that the paper reports: share of the data in [0, 1], F1.
        ours: Returns the scores of runs over seeds in the metric of the chart; None where they have none.
        floor: F1 of a tagger that marks no entity, in the metric of the chart; None draws no line.
        key: Charts with the same key keep zoom and selection.
    """
    figure = go.Figure()
    for number, (name, phases_of) in enumerate(by_phase.items()):
        points = [
            (100 * (at + 1) / len(phases_of), scores) for at, runs in enumerate(phases_of) if (scores := ours(runs))
        ]
        line = _line(
            number, name, [x for x, _ in points], [scores.f1.mean for _, scores in points], "%{x:.0f} % of the data"
        )
        line.error_y = {"type": "data", "array": [scores.f1.sd for _, scores in points], "thickness": 1.2}
        figure.add_trace(line)
    if reported:
        figure.add_trace(
            go.Scatter(
                x=[100 * share for share, _ in reported],
                y=[f1 for _, f1 in reported],
                mode="markers",
                name="paper, table 6",
                marker={"symbol": "diamond-open", "size": 12, "color": palette.RECALL, "line": {"width": 2.5}},
                hovertemplate="%{x:.0f} % of the data: reported F1 %{y:.3f}<extra></extra>",
            )
        )
    if floor is not None:
        figure.add_hline(
            y=floor,
            line={"dash": "dot", "width": 1.5, "color": palette.QUIET},
            annotation={"text": "F1 of a tagger that marks no entity", "font": {"size": 11}},
            annotation_position="bottom right",
        )
    _laid_out(figure, "share of the data, %", "F1, test set", key)
    return figure.update_layout(height=400).update_yaxes(rangemode="tozero")


def all_charts(run: Run, *, key: str) -> dict[str, go.Figure]:
    """Return all charts of a run by title, without those that have no data."""
    privacy, last = run.config.privacy, run.records[-1]
    figures: dict[str, go.Figure] = {}
    if privacy.clip_norm and not privacy.kind.client_level and last.clipped_fraction is not None:
        figures["Clipped gradients"] = clipped(run, key=f"clipped-{key}")
    if last.noise_to_signal is not None:
        figures["Noise-to-signal ratio"] = noise(run, key=f"noise-{key}")
    if last.gradient_norm_median is not None:
        figures["Gradient norm by layer"] = layers(run, key=f"layers-{key}")
    if last.federation and len(last.federation.update_norms) > 1:
        figures["Drift between clients"] = drift(run, key=f"drift-{key}")
    figures["F1 by entity type"] = types(run, key=f"types-{key}")
    return figures
