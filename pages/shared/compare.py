"""Runs laid over each other → groups, rows and pictures: no streamlit."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import plotly.graph_objects as go

from engine.config import FLAT, PrivacyConfig, SimulationConfig
from engine.experiments.paper import seeds_text
from engine.records import RoundRecord, Run
from engine.reports.numbers import epsilon_text
from engine.runs import Overview
from pages.shared import charts, palette

ALONG = {
    "epsilon": "ε spent (log axis)",
    "step": "optimiser steps",
    "round": "communication rounds",
    "bytes": "MB sent, both ways",
    "seconds": "seconds",
}
"""What F1 can be drawn against."""
MOST = 8
"""Groups that can be told apart in one picture."""
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross", "hexagon")


@dataclass(frozen=True)
class Group:
    """Finished runs that differ in their seed alone. config: theirs, with seed 0. runs: with records, by seed."""

    config: SimulationConfig
    runs: tuple[Run, ...]

    @property
    def finals(self) -> list[RoundRecord]:
        """The last record of each."""
        return [run.final for run in self.runs if run.final]

    @property
    def f1(self) -> tuple[float, float]:
        """Mean and standard deviation of the test F1."""
        found = [final.test.f1 for final in self.finals if final.test]
        return statistics.fmean(found), statistics.stdev(found) if len(found) > 1 else 0.0

    @property
    def epsilon(self) -> float:
        """The largest that was spent."""
        return max(final.privacy.epsilon for final in self.finals)


@dataclass(frozen=True)
class Curve:
    """F1 on the validation part along something, mean and standard deviation over seeds."""

    x: list[float]
    f1: list[float]
    sd: list[float]


def configurations(found: Sequence[Overview]) -> dict[SimulationConfig, dict[int, str]]:
    """The configurations of finished runs without their seeds, and of each the runs by seed, the newest where several
    are alike but for the corpus's content or the engine; failed checks are left out."""
    kinds: dict[SimulationConfig, dict[int, str]] = {}
    for each in found:
        bad = each.last is None or (each.last.noise_check is not None and each.last.noise_check.failed)
        if each.last is not None and each.last.final and not bad:
            kinds.setdefault(seedless(each.run.config), {}).setdefault(each.run.config.seed, each.run.run_id)
    return {config: dict(sorted(runs.items())) for config, runs in kinds.items()}


def seedless(config: SimulationConfig) -> SimulationConfig:
    """What runs that differ in their seed alone have in common."""
    return replace(config, seed=0)


def label(config: SimulationConfig) -> str:
    """A configuration in a few words: model, noise, corpus, and what else is not the default."""
    usual = SimulationConfig(privacy=PrivacyConfig(noise_multiplier=config.privacy.noise_multiplier)).flat()
    model = config.tagger.name.removeprefix("bilstm-").upper()
    parts = [f"{model} σ {config.privacy.noise_multiplier:g}", config.corpus.rsplit("/", 1)[-1]]
    named = ("corpus", "tagger", "noise_multiplier", "seed")
    changed = {name: value for name, value in config.flat().items() if name not in named and value != usual[name]}
    return " · ".join([*parts, *(f"{name.replace('_', ' ')} {_plain(value)}" for name, value in changed.items())])


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)


def rows(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """What the groups gave, and the fields in which they differ."""
    flats = [group.config.flat() for group in groups]
    differing = [name for name in FLAT if len({repr(flat[name]) for flat in flats}) > 1]
    shown = []
    for group, flat in zip(groups, flats, strict=True):
        mean, sd = group.f1
        last = group.finals[0]
        sent = (last.federation.bytes_down + last.federation.bytes_up) / 1e6 if last.federation else 0.0
        line: dict[str, Any] = {name.replace("_", " "): _plain(flat[name]) for name in differing}
        line |= {
            "F1": mean,
            "± sd": sd if len(group.runs) > 1 else None,
            "ε": epsilon_text(group.epsilon),
            "MB sent": sent,
            "seconds": statistics.fmean(final.seconds for final in group.finals),
            "seeds": seeds_text(group.runs),
        }
        shown.append(line)
    return shown


def curve(group: Group, along: str) -> Curve:
    """Means over the records that all runs of the group have in common."""
    x, f1, sd = [], [], []
    for number in range(min(len(run.records) for run in group.runs)):
        records = [run.records[number] for run in group.runs]
        values = [record.scores.f1 for record in records]
        x.append(statistics.fmean(place(record, along) for record in records))
        f1.append(statistics.fmean(values))
        sd.append(statistics.stdev(values) if len(values) > 1 else 0.0)
    return Curve(x, f1, sd)


def place(record: RoundRecord, along: str) -> float:
    """Where a record stands."""
    federation = record.federation
    return {
        "epsilon": record.privacy.epsilon,
        "step": float(record.step),
        "round": float(federation.round) if federation else record.progress,
        "bytes": (federation.bytes_down + federation.bytes_up) / 1e6 if federation else 0.0,
        "seconds": record.seconds,
    }[along]


def overlay(groups: Sequence[Group], along: str, *, key: str) -> go.Figure:
    """F1 along something, a line a group, its seeds' spread as bars. Where ε is ∞ or 0 it has no place on an ε axis."""
    figure = go.Figure()
    for number, group in enumerate(groups):
        found = curve(group, along)
        kept = [(x, f1, sd) for x, f1, sd in zip(found.x, found.f1, found.sd, strict=True) if math.isfinite(x)]
        if along == "epsilon":
            kept = [one for one in kept if one[0] > 0]
        colour = palette.TYPES[number % len(palette.TYPES)]
        figure.add_trace(
            go.Scatter(
                x=[x for x, _, _ in kept],
                y=[f1 for _, f1, _ in kept],
                error_y={"type": "data", "array": [sd for _, _, sd in kept], "thickness": 1, "width": 2},
                mode="lines+markers",
                name=label(group.config),
                line={"color": colour, "width": 2.2},
                marker={"symbol": _SYMBOLS[number % len(_SYMBOLS)], "size": 7, "color": colour},
                hovertemplate=f"%{{x:.4g}}: F1 %{{y:.3f}}<extra>{label(group.config)}</extra>",
            )
        )
    figure.update_layout(
        **charts.plain_layout(key, height=400 + 22 * len(groups)),
        margin={"l": 52, "r": 8, "t": 36, "b": 48},
        legend={"orientation": "v", "y": -0.18, "yanchor": "top", "x": 0},
        xaxis={"title": {"text": ALONG[along]}, "gridcolor": palette.GRID} | _axis(along),
        yaxis={
            "title": {"text": "F1, validation part"},
            "rangemode": "tozero",
            "gridcolor": palette.GRID,
            "zeroline": False,
        },
    )
    return figure


def _axis(along: str) -> dict[str, Any]:
    if along != "epsilon":
        return {"type": "linear"}
    ticks = [step * 10.0**decade for decade in range(-4, 4) for step in (1, 2, 5)]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}


def frontier(groups: Sequence[Group]) -> list[Group]:
    """Those that no other beats: none has a higher mean F1 at the same or a smaller ε. By ε, the smallest first."""
    best, kept = -math.inf, []
    for group in sorted(groups, key=lambda group: (group.epsilon, -group.f1[0])):
        if group.f1[0] > best:
            best = group.f1[0]
            kept.append(group)
    return kept


def parallel(found: Sequence[Overview], *, key: str) -> go.Figure:
    """All finished runs as lines through their settings and results; dragging along an axis keeps those in between."""
    done = [each for each in found if each.last and each.last.final and each.last.test]
    columns: dict[str, list[float]] = {
        "σ": [each.run.config.privacy.noise_multiplier for each in done],
        "clients": [each.run.config.federation.clients for each in done],
        "rounds": [each.run.config.federation.rounds for each in done],
        "share": [each.run.config.data_fraction for each in done],
        "CRF": [float(each.run.config.tagger.name.endswith("-crf")) for each in done],
        "log₁₀ ε": [_log(each.last.privacy.epsilon) for each in done if each.last],
        "F1": [each.last.test.f1 for each in done if each.last and each.last.test],
    }
    figure = go.Figure(
        go.Parcoords(
            dimensions=[
                {"label": name, "values": values, "tickformat": ".3~g"}
                for name, values in columns.items()
                if len(set(values)) > 1
            ],
            line={"color": columns["F1"], "colorscale": "Viridis"},
        )
    )
    figure.update_layout(**charts.plain_layout(key, height=380), margin={"l": 32, "r": 56, "t": 84, "b": 24})
    return figure


def _log(epsilon: float) -> float:
    """log₁₀ ε, at most 3, which stands for no privacy."""
    return min(3.0, math.log10(epsilon)) if epsilon > 0 else -3.0
