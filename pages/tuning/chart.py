"""Table rows, sentences and charts of a hyperparameter search. Without Streamlit."""

from typing import Any

import plotly.graph_objects as go

from engine.experiments.seed_aggregates import OverSeeds
from engine.records import Study, Trial
from pages.shared import charts, palette, titles

_LOGARITHMIC = ("learning_rate", "clip_norm")


def answer(study: Study, tested: OverSeeds | None) -> str:
    """Return the result of the search in a sentence.

    Args:
        study: The search.
        tested: Runs of the best trial's configuration on the target corpus; None if there are none.
    """
    winner = study.winner
    if winner is None:
        return "No trial is finished yet."
    text = f"The best of {len(study.trials):,} trials at ε = {study.epsilon:g} reaches F1 {winner.f1:.2f}"
    if tested and tested.entity:
        return f"{text} on the public corpus and {tested.entity.f1.text} on the target corpus."
    return f"{text} on the public corpus. Its configuration has not been run on the target corpus yet."


def rows(study: Study) -> list[dict[str, Any]]:
    """Return the trials as table rows, best first."""
    ordered = sorted(study.trials, key=lambda trial: (-trial.f1, trial.number))
    return [
        {
            "trial": trial.number,
            "F1": trial.f1,
            **{titles.heading(name): _chosen(trial, name) for name in study.fields},
            "σ": trial.noise_multiplier,
            "seconds": trial.seconds,
        }
        for trial in ordered
    ]


def history(study: Study, *, key: str) -> go.Figure:
    """Draw the F1 of each trial in order, and the best so far."""
    best = [max(trial.f1 for trial in study.trials[: number + 1]) for number in range(len(study.trials))]
    numbers = [trial.number for trial in study.trials]
    figure = go.Figure()
    figure.add_trace(
        go.Scatter(
            x=numbers,
            y=[trial.f1 for trial in study.trials],
            mode="markers",
            name="trial",
            marker={"symbol": "circle-open", "size": 9, "color": palette.QUIET, "line": {"width": 2}},
            text=[_hover_text(trial) for trial in study.trials],
            hovertemplate="%{text}<extra></extra>",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=numbers,
            y=best,
            mode="lines",
            name="best so far",
            line={"shape": "hv", "color": palette.F1, "width": 2.5},
            hovertemplate="best so far: F1 %{y:.3f}<extra></extra>",
        )
    )
    return figure.update_layout(
        **charts.plain_layout(key, height=340),
        margin={"l": 52, "r": 8, "t": 48, "b": 48},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        xaxis={"title": {"text": "trial"}, "gridcolor": palette.GRID, "zeroline": False},
        yaxis=_f1_axis(study),
    )


def by_field(study: Study, name: str, *, key: str) -> go.Figure:
    """Draw the F1 of each trial over one varied field; the best trial has a filled marker."""
    winner = study.winner
    figure = go.Figure(
        go.Scatter(
            x=[_axis_value(trial, name) for trial in study.trials],
            y=[trial.f1 for trial in study.trials],
            mode="markers",
            marker={
                "symbol": ["circle" if trial is winner else "circle-open" for trial in study.trials],
                "size": 11,
                "color": palette.F1,
                "line": {"width": 2},
            },
            text=[_hover_text(trial) for trial in study.trials],
            hovertemplate="%{text}<extra></extra>",
        )
    )
    kind = "log" if name in _LOGARITHMIC else "category"
    order = sorted({trial.chosen[name] for trial in study.trials if name in trial.chosen})
    labels = [titles.value(name, value) for value in order]
    x: dict[str, Any] = {
        "title": {"text": titles.heading(name) + (" (log axis)" if kind == "log" else "")},
        "type": kind,
    }
    if kind == "log":
        ticks = charts.log_ticks(order[0] / 2, order[-1] * 2) if order else []
        x |= {"tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}
    else:
        x |= {"categoryorder": "array", "categoryarray": labels}
    return figure.update_layout(
        **charts.plain_layout(key, height=320),
        margin={"l": 52, "r": 8, "t": 24, "b": 48},
        xaxis={**x, "gridcolor": palette.GRID, "zeroline": False},
        yaxis=_f1_axis(study),
    )


def _f1_axis(study: Study) -> dict[str, Any]:
    """Return the layout of the F1 axis."""
    title = f"F1, validation set of {charts.literal(titles.corpus(study.development))}"
    return {"title": {"text": title}, "gridcolor": palette.GRID, "zeroline": False}


def _hover_text(trial: Trial) -> str:
    chosen = (f"{titles.heading(name)}: {_chosen(trial, name)}" for name in trial.chosen)
    return f"<b>trial {trial.number}, F1 {trial.f1:.3f}</b><br>" + "<br>".join(
        [*chosen, f"σ: {trial.noise_multiplier:g}"]
    )


def _chosen(trial: Trial, name: str) -> str:
    return titles.value(name, trial.chosen[name]) if name in trial.chosen else ""


def _axis_value(trial: Trial, name: str) -> float | str | None:
    """Return the position of a trial on the axis of a field: a number on a log axis, otherwise a label."""
    if name in _LOGARITHMIC:
        return trial.chosen.get(name)
    return _chosen(trial, name) or None


def label(study: Study) -> str:
    """Return a title of a search."""
    corpus, development = titles.corpus(study.corpus), titles.corpus(study.development)
    return f"{corpus} at ε = {study.epsilon:g}, searched on {development}"
