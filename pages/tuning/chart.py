"""A search for a recipe → rows, sentences and pictures: no streamlit."""

from typing import Any

import plotly.graph_objects as go

from engine.experiments.seed_aggregates import OverSeeds
from engine.records import Study, Trial
from pages.shared import charts, palette, titles

FIELDS = ("learning_rate", "clip_norm", "batch_size", "epochs", "window", "averaging", "tagger")
"""What a search varies."""
_LOGARITHMIC = ("learning_rate", "clip_norm")


def answer(study: Study, tested: OverSeeds | None) -> str:
    """The search in a sentence."""
    winner = study.winner
    if winner is None:
        return "Nothing has been tried yet."
    text = f"Of {len(study.trials):,} recipes for ε = {study.epsilon:g}, the best finds F1 {winner.f1:.2f}"
    if tested and tested.entity:
        return f"{text} where it was tried, and {tested.entity.f1.text} on the corpus it is for."
    return f"{text} where it was tried; on the corpus it is for it has not been run."


def rows(study: Study) -> list[dict[str, Any]]:
    """The trials, the best first."""
    ordered = sorted(study.trials, key=lambda trial: (-trial.f1, trial.number))
    return [
        {
            "trial": trial.number,
            "F1": trial.f1,
            **{titles.heading(name): _chosen(trial, name) for name in FIELDS},
            "σ": trial.noise_multiplier,
            "seconds": trial.seconds,
        }
        for trial in ordered
    ]


def history(study: Study, *, key: str) -> go.Figure:
    """F1 of each trial in order, and the best so far."""
    best = [max(trial.f1 for trial in study.trials[: place + 1]) for place in range(len(study.trials))]
    numbers = [trial.number for trial in study.trials]
    figure = go.Figure()
    figure.add_trace(
        go.Scatter(
            x=numbers,
            y=[trial.f1 for trial in study.trials],
            mode="markers",
            name="a recipe",
            marker={"symbol": "circle-open", "size": 9, "color": palette.QUIET, "line": {"width": 2}},
            text=[_told(trial) for trial in study.trials],
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
        yaxis={
            "title": {"text": f"F1, {titles.corpus(study.development)}"},
            "gridcolor": palette.GRID,
            "zeroline": False,
        },
    )


def by_field(study: Study, name: str, *, key: str) -> go.Figure:
    """F1 of each trial against one thing that was varied; the winner is filled."""
    winner = study.winner
    figure = go.Figure(
        go.Scatter(
            x=[_place(trial, name) for trial in study.trials],
            y=[trial.f1 for trial in study.trials],
            mode="markers",
            marker={
                "symbol": ["circle" if trial is winner else "circle-open" for trial in study.trials],
                "size": 11,
                "color": palette.F1,
                "line": {"width": 2},
            },
            text=[_told(trial) for trial in study.trials],
            hovertemplate="%{text}<extra></extra>",
        )
    )
    kind = "log" if name in _LOGARITHMIC else "category"
    order = sorted({trial.chosen[name] for trial in study.trials if name in trial.chosen})
    labels = [titles.value(name, found) for found in order]
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
        yaxis={
            "title": {"text": f"F1, {titles.corpus(study.development)}"},
            "gridcolor": palette.GRID,
            "zeroline": False,
        },
    )


def _f1_axis(study: Study) -> dict[str, Any]:
    title = f"F1, {titles.corpus(study.development)}"
    return {"title": {"text": title}, "gridcolor": palette.GRID, "zeroline": False}


def _told(trial: Trial) -> str:
    chosen = (f"{titles.heading(name)}: {_chosen(trial, name)}" for name in FIELDS if name in trial.chosen)
    return f"<b>trial {trial.number}, F1 {trial.f1:.3f}</b><br>" + "<br>".join(
        [*chosen, f"σ: {trial.noise_multiplier:g}"]
    )


def _chosen(trial: Trial, name: str) -> str:
    return titles.value(name, trial.chosen[name]) if name in trial.chosen else ""


def _place(trial: Trial, name: str) -> float | str | None:
    """Where a trial stands on a logarithmic axis, or among values that are named."""
    if name in _LOGARITHMIC:
        return trial.chosen.get(name)
    return _chosen(trial, name) or None


def label(study: Study) -> str:
    """A study in words."""
    corpus, development = titles.corpus(study.corpus), titles.corpus(study.development)
    return f"{corpus} at ε = {study.epsilon:g}, tried on {development}"
