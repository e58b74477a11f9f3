"""The ladder from the paper's setting to good practice → rows, sentences and a picture: no streamlit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from engine.experiments.recommended_settings import RecipeStep
from engine.experiments.seed_aggregates import OverSeeds
from engine.reports.numbers import epsilon_text
from pages.shared import address, charts, metrics, palette

_COLOURS = (palette.PRECISION, palette.RECALL, palette.F1)


@dataclass(frozen=True)
class Step:
    """A rung with what its runs gave, by ε asked for."""

    rung: RecipeStep
    measured: dict[float, OverSeeds]


def answer(steps: Sequence[Step]) -> str:
    """The lesson in a sentence, at the smallest ε that has both ends."""
    for epsilon in sorted(steps[0].measured):
        first, last = steps[0].measured[epsilon].entity, steps[-1].measured[epsilon].entity
        if first and last:
            return (
                f"At ε = {epsilon:g} the paper's setting finds names with F1 {first.f1.mean:.2f}, good practice with "
                f"F1 {last.f1.mean:.2f}: same data, same promise."
            )
    return "Same data, same promise: what each choice is worth. It has not been run here yet."


def rows(steps: Sequence[Step], epsilon: float) -> list[dict[str, Any]]:
    """The rungs at one ε."""
    shown: list[dict[str, Any]] = []
    before: float | None = None
    for step in steps:
        found = step.measured[epsilon]
        f1 = found.entity.f1.mean if found.entity else None
        shown.append(
            {
                "choice": step.rung.name,
                "F1": f1,
                "± sd": found.entity.f1.known_sd if found.entity else None,
                metrics.INTERVAL: metrics.interval_text(found.interval),
                "gain": f1 - before if f1 is not None and before is not None else None,
                "ε": epsilon_text(found.epsilon) if found.epsilon is not None else "",
                "σ": found.config.privacy.noise_multiplier,
                "seconds": _seconds(found),
                "seeds": found.seeds_text,
                "run": address.link(found.config),
                "ε rests on": address.ledger(*found.runs),
                "why": step.rung.why,
            }
        )
        before = f1
    return shown


def federated_rows(found: Sequence[OverSeeds]) -> list[dict[str, Any]]:
    """Good practice by who holds the data, at one ε."""
    return [
        {
            "clients": each.config.federation.clients,
            "rounds": each.config.federation.rounds,
            "F1": each.entity.f1.mean if each.entity else None,
            "± sd": each.entity.f1.known_sd if each.entity else None,
            metrics.INTERVAL: metrics.interval_text(each.interval),
            "ε": epsilon_text(each.epsilon) if each.epsilon is not None else "",
            "batch of a client": each.config.training.batch_size,
            "seeds": each.seeds_text,
            "run": address.link(each.config),
            "ε rests on": address.ledger(*each.runs),
        }
        for each in found
    ]


def _seconds(found: OverSeeds) -> float | None:
    known = [run.provenance.wall_seconds for run in found.runs if run.provenance]
    return min(known) if known else None


def picture(steps: Sequence[Step], *, key: str) -> go.Figure:
    """F1 of each rung, a line for each ε."""
    names = [step.rung.name for step in steps]
    figure = go.Figure()
    for number, epsilon in enumerate(sorted(steps[0].measured)):
        known = [(step.rung.name, scores.f1) for step in steps if (scores := step.measured[epsilon].entity)]
        figure.add_trace(
            go.Scatter(
                x=[name for name, _ in known],
                y=[f1.mean for _, f1 in known],
                error_y={"type": "data", "array": [f1.sd for _, f1 in known], "thickness": 1.2},
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
        yaxis={"title": {"text": "F1, whole names, test part"}, "range": [0, 1], "gridcolor": palette.GRID},
    )
