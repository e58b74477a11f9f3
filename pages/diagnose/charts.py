"""Why training breaks, drawn: a run record by record, and variants beside each other. No streamlit."""

from collections.abc import Callable, Mapping, Sequence

import plotly.graph_objects as go

from engine.experiments.diagnosis import WHAT_IF
from engine.experiments.seed_aggregates import OverSeeds
from engine.experiments.statistics import ScoreSpread
from engine.records import Run
from engine.reports.numbers import epsilon_text
from pages.diagnose.findings import NOISY, Tried, of_type
from pages.shared import charts, palette

_COLOURS = {"CRF": palette.F1, "TDDL": palette.PRECISION, "phases": palette.F1}


def layers(run: Run, *, key: str) -> go.Figure:
    """Median gradient norm before clipping, whole and by layer, beside the clip norm."""
    series = {"whole": [record.gradient_norm_median for record in run.records]}
    for name in run.records[-1].layer_norms:
        series[name] = [record.layer_norms.get(name) for record in run.records]  # type: ignore[misc]
    clip_norm = run.config.privacy.clip_norm
    if clip_norm and not run.config.privacy.kind.client_level:
        series[f"clip norm {clip_norm:g}"] = [clip_norm] * len(run.records)
    figure = _over_steps(run, series, "L2 norm before clipping (log)", key, log=True)
    quiet = {"dash": "dot", "width": 1.5, "color": palette.QUIET}
    return figure.update_traces(mode="lines", line=quiet, selector=lambda trace: trace.name.startswith("clip norm"))


def clipped(run: Run, *, key: str) -> go.Figure:
    """Share of the sampled sentences whose gradient was scaled down."""
    series = {"clipped": [record.clipped_fraction for record in run.records]}
    figure = _over_steps(run, series, "share of gradients clipped", key, legend=False)
    return figure.update_yaxes(range=[-0.02, 1.02], tickformat=".0%")


def noise(run: Run, *, key: str) -> go.Figure:
    """Length of the noise ÷ length of the sum that it is added to."""
    series = {"noise ÷ signal": [record.noise_to_signal for record in run.records]}
    figure = _over_steps(run, series, "noise ÷ signal (log)", key, log=True, legend=False)
    return figure.add_hline(y=1, line={"dash": "dot", "width": 1.5, "color": palette.QUIET})


def drift(run: Run, *, key: str) -> go.Figure:
    """How far the clients' weights lie from their mean, and how long their updates are."""
    known = [record.federation for record in run.records if record.federation]
    rounds = [each.round for each in known]
    lengths = [sum(each.update_norms) / max(1, len(each.update_norms)) for each in known]
    series = {"drift": [each.drift for each in known], "update, mean over clients": lengths}
    figure = go.Figure(
        [_line(number, name, rounds, values, "round %{x}") for number, (name, values) in enumerate(series.items())]
    )
    return _laid_out(figure, "communication rounds", "L2 norm, weights", key)


def types(run: Run, *, key: str) -> go.Figure:
    """F1 of each entity type, validation part."""
    of_records = [of_type(record) for record in run.records]
    series = {name: [found.get(name) for found in of_records] for name in sorted(of_records[-1])}
    figure = _over_steps(run, series, "F1, validation part", key)
    return figure.update_yaxes(range=[-0.02, 1.02])


def _over_steps(
    run: Run,
    series: Mapping[str, Sequence[float | None]],
    title: str,
    key: str,
    *,
    log: bool = False,
    legend: bool = True,
) -> go.Figure:
    steps = [record.step for record in run.records]
    facts = [f"step {record.step:,}, ε = {epsilon_text(record.privacy.epsilon)}" for record in run.records]
    figure = go.Figure(
        [_line(number, name, steps, values, "%{text}", facts) for number, (name, values) in enumerate(series.items())]
    )
    _laid_out(figure, "optimiser steps", title, key)
    figure.update_layout(showlegend=legend, margin_t=64 if legend else 36)
    known = [value for values in series.values() for value in values if value]
    if log and known:
        ticks = charts.log_ticks(min(known) / 2, max(known) * 2)
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
    """F1 of whole names of each variant with its spread, groups in their own colours; what-if runs hollow."""
    names = list(dict.fromkeys(each.variant.name for each in tried))
    figure = go.Figure()
    groups = list(dict.fromkeys(each.variant.group for each in tried))
    for group, symbol in zip(groups, palette.SYMBOLS, strict=False):
        known = [each for each in tried if each.variant.group == group and each.f1]
        scores = [each.f1 for each in known if each.f1]
        figure.add_trace(
            go.Scatter(
                x=[f1.mean for f1 in scores],
                y=[each.variant.name for each in known],
                error_x={"type": "data", "array": [f1.sd for f1 in scores], "thickness": 1.5},
                mode="markers",
                name=group,
                marker={
                    "symbol": [symbol + ("-open" if each.variant.kind == WHAT_IF else "") for each in known],
                    "size": 12,
                    "color": _COLOURS[group],
                    "line": {"width": 2, "color": _COLOURS[group]},
                },
                hovertemplate="%{y}<br>F1 %{x:.3f} ± %{error_x.array:.3f}<extra>" + group + "</extra>",
            )
        )
        base = next((each.f1.mean for each in known if each.variant.name == NOISY and each.f1), None)
        if base is not None:
            figure.add_vline(x=base, line={"dash": "dot", "width": 1.5, "color": _COLOURS[group]})
    return figure.update_layout(
        **charts.plain_layout(key, height=130 + 34 * len(names)),
        margin={"l": 8, "r": 8, "t": 64, "b": 44},
        showlegend=len(groups) > 1,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        xaxis={
            "title": {"text": "F1, whole names"},
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
    printed: Sequence[tuple[float, float]],
    ours: Callable[[OverSeeds], ScoreSpread | None],
    floor: float | None,
    *,
    key: str,
) -> go.Figure:
    """F1 after each phase: a line a variant, and the printed rows (share of the data, F1) as diamonds. floor: F1 of a
    tagger that finds nothing, in the metric that is shown."""
    figure = go.Figure()
    for number, (name, each) in enumerate(by_phase.items()):
        known = [(100 * (at + 1) / len(each), found) for at, one in enumerate(each) if (found := ours(one))]
        line = _line(
            number, name, [x for x, _ in known], [scores.f1.mean for _, scores in known], "%{x:.0f} % of the data"
        )
        line.error_y = {"type": "data", "array": [scores.f1.sd for _, scores in known], "thickness": 1.2}
        figure.add_trace(line)
    if printed:
        figure.add_trace(
            go.Scatter(
                x=[100 * share for share, _ in printed],
                y=[f1 for _, f1 in printed],
                mode="markers",
                name="printed, table 6",
                marker={"symbol": "diamond-open", "size": 12, "color": palette.RECALL, "line": {"width": 2.5}},
                hovertemplate="%{x:.0f} % of the data: printed F1 %{y:.3f}<extra></extra>",
            )
        )
    if floor is not None:
        figure.add_hline(
            y=floor,
            line={"dash": "dot", "width": 1.5, "color": palette.QUIET},
            annotation={"text": "finds no name at all", "font": {"size": 11}},
            annotation_position="bottom right",
        )
    _laid_out(figure, "share of the data, %", "F1, test part", key)
    return figure.update_layout(height=400).update_yaxes(rangemode="tozero")


def pictures(run: Run, *, key: str) -> dict[str, go.Figure]:
    """All pictures of a run, by their titles; those that have nothing to show are left out."""
    privacy, last = run.config.privacy, run.records[-1]
    found: dict[str, go.Figure] = {}
    if privacy.clip_norm and not privacy.kind.client_level:
        found["Gradients clipped"] = clipped(run, key=f"clipped-{key}")
    if last.noise_to_signal is not None:
        found["Noise beside the signal"] = noise(run, key=f"noise-{key}")
    found["Gradients by layer"] = layers(run, key=f"layers-{key}")
    if last.federation and len(last.federation.update_norms) > 1:
        found["Drift between clients"] = drift(run, key=f"drift-{key}")
    found["F1 by entity type"] = types(run, key=f"types-{key}")
    return found
