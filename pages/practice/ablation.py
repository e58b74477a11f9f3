"""Rows, sentences and a chart of the ablation, from the paper settings to the recommended ones. Without streamlit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from engine.experiments.recommended_settings import WITH_MINILM, RecipeStep
from engine.experiments.seed_aggregates import OverSeeds
from engine.reports.numbers import epsilon_text
from pages.shared import address, charts, metrics, palette

_COLOURS = (palette.PRECISION, palette.RECALL, palette.F1)


@dataclass(frozen=True)
class Step:
    """A step of the ablation with the results of its runs by target ε."""

    setting: RecipeStep
    measured: dict[float, OverSeeds]


def answer(steps: Sequence[Step]) -> str:
    """Return the result in a sentence, at the smallest ε where the paper and the recommended settings have runs.

    Args:
        steps: All steps in order, as in :data:`engine.experiments.recommended_settings.STEPS`.
    """
    for epsilon in sorted(steps[0].measured):
        first, minilm, recommended = (steps[n].measured[epsilon].entity for n in (0, WITH_MINILM, -1))
        if first and recommended:
            smaller = f", and {minilm.f1.mean:.2f} with a small language model" if minilm else ""
            return (
                f"At ε ≤ {epsilon:g} the paper settings reach F1 {first.f1.mean:.2f}, the recommended settings "
                f"{recommended.f1.mean:.2f}{smaller}. The training sentences are the same; public data are added."
            )
    return "Effect of each recommended setting on F1 at the same ε. No run of it is finished yet."


def rows(steps: Sequence[Step], epsilon: float) -> list[dict[str, Any]]:
    """Return the steps at one target ε as table rows, each with its gain over the step before."""
    table: list[dict[str, Any]] = []
    before: float | None = None
    for step in steps:
        results = step.measured[epsilon]
        f1 = results.entity.f1.mean if results.entity else None
        table.append(
            {
                "added setting": step.setting.name,
                "F1": f1,
                "± sd": results.entity.f1.known_sd if results.entity else None,
                metrics.INTERVAL: metrics.interval_text(results.interval),
                "gain": f1 - before if f1 is not None and before is not None else None,
                "ε": epsilon_text(results.epsilon) if results.epsilon is not None else "",
                "σ": results.config.privacy.noise_multiplier,
                "seconds": _seconds(results),
                "seeds": results.seeds_text,
                "run": address.link(results.config),
                "ε rests on": address.ledger(*results.runs),
                "why": step.setting.why,
            }
        )
        before = f1
    return table


def federated_rows(federated: Sequence[OverSeeds]) -> list[dict[str, Any]]:
    """Return settings by number of clients and rounds, at one ε, as table rows."""
    return [
        {
            "clients": results.config.federation.clients,
            "rounds": results.config.federation.rounds,
            "F1": results.entity.f1.mean if results.entity else None,
            "± sd": results.entity.f1.known_sd if results.entity else None,
            metrics.INTERVAL: metrics.interval_text(results.interval),
            "ε": epsilon_text(results.epsilon) if results.epsilon is not None else "",
            "batch size per client": results.config.training.batch_size,
            "seeds": results.seeds_text,
            "run": address.link(results.config),
            "ε rests on": address.ledger(*results.runs),
        }
        for results in federated
    ]


def _seconds(results: OverSeeds) -> float | None:
    durations = [run.provenance.wall_seconds for run in results.runs if run.provenance]
    return min(durations) if durations else None


def picture(steps: Sequence[Step], *, key: str) -> go.Figure:
    """Draw the F1 of each step, a line for each ε."""
    names = [step.setting.name for step in steps]
    figure = go.Figure()
    for number, epsilon in enumerate(sorted(steps[0].measured)):
        points = [(step.setting.name, scores.f1) for step in steps if (scores := step.measured[epsilon].entity)]
        figure.add_trace(
            go.Scatter(
                x=[name for name, _ in points],
                y=[f1.mean for _, f1 in points],
                error_y={"type": "data", "array": [f1.sd for _, f1 in points], "thickness": 1.2},
                mode="lines+markers",
                name=f"ε = {epsilon:g}",
                line={"color": _COLOURS[number % 3], "width": 2.2, "dash": palette.DASHES[number]},
                marker={"symbol": palette.SYMBOLS[number], "size": 10, "color": _COLOURS[number % 3]},
                hovertemplate="%{x}: F1 %{y:.3f} ± %{error_y.array:.3f}<extra>ε = " + f"{epsilon:g}</extra>",
            )
        )
    return figure.update_layout(
        **charts.plain_layout(key, height=420),
        margin={"l": 52, "r": 8, "t": 64, "b": 40},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "entrywidth": 60},
        xaxis={"categoryorder": "array", "categoryarray": names, "gridcolor": palette.GRID, "automargin": True},
        yaxis={"title": {"text": "entity-level F1, test set"}, "range": [0, 1], "gridcolor": palette.GRID},
    )
