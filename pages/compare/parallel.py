"""All finished runs as lines through their settings and results, and what of them lies between marks on the axes: no
streamlit."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from engine.records import RoundRecord
from engine.reports.numbers import epsilon_text
from engine.service import Overview
from pages.shared import address, charts, metrics, palette, titles
from pages.shared.epsilon_axis import EpsilonAxis

Marks = Mapping[str, Sequence[Sequence[float]]]
"""What somebody marked: by the name of an axis, ranges of positions on it, any of which will do."""
_LABELS = 8
"""How many levels of an axis have a label each; of more of them, some have none."""
_FINE = 100
"""Plotly lets marks end between two ticks only, so that a smooth axis has so many, most of them without a label."""
_NO_WIDTH = "\u200b"
"""Plotly takes ticks with equal labels for one: those without a label have so many of these as no other has."""
_SCALE = ((0.0, "#b8a987"), (0.5, "#db7a14"), (1.0, "#b23a6e"))
"""F1 from low to high: darker all the way, so that it reads without colours too."""


@dataclass(frozen=True)
class Axis:
    """One axis. positions: of the runs, in their order. ticks: positions and what they are called, if anything."""

    name: str
    positions: tuple[float, ...]
    ticks: tuple[tuple[float, str], ...]
    low: float
    high: float


def finished(found: Sequence[Overview]) -> list[tuple[Overview, RoundRecord]]:
    """Runs that have a test score, with their last record."""
    return [
        (each, each.last_record)
        for each in found
        if each.last_record and each.last_record.final and each.last_record.test
    ]


def axes(found: Sequence[Overview]) -> list[Axis]:
    """The axes on which finished runs differ, and always those of ε and F1."""
    done = finished(found)
    configs = [each.run.config for each, _ in done]
    settings = [
        _levels("model", [titles.TAGGERS.get(c.tagger.name, c.tagger.name) for c in configs]),
        _levels("σ", [c.privacy.noise_multiplier for c in configs]),
        _levels("clients", [c.federation.clients for c in configs]),
        _levels("rounds", [c.federation.rounds for c in configs]),
        _levels("data, %", [100 * c.data_fraction for c in configs]),
    ]
    f1 = tuple(last.test.f1 for _, last in done if last.test)
    results = [
        _epsilon([last.privacy.epsilon for _, last in done]),
        _smooth("F1", f1, {tick / 5: f"{tick / 5:g}" for tick in range(6)}, 0.0, 1.0),
    ]
    return [axis for axis in settings if len(set(axis.positions)) > 1] + results


def _levels(name: str, values: Sequence[Any]) -> Axis:
    """The values that occur, evenly apart: 0.3 and 50 are both to be seen."""
    order = sorted(set(values))
    every = max(1, math.ceil((len(order) - 1) / _LABELS))
    labels = [value if isinstance(value, str) else f"{value:.3g}" for value in order]
    ticks = tuple((float(place), label if place % every == 0 else "") for place, label in enumerate(labels))
    places = tuple(float(order.index(value)) for value in values)
    return Axis(name, places, ticks, 0.0, float(max(1, len(order) - 1)))


def _smooth(name: str, positions: Sequence[float], labels: Mapping[float, str], low: float, high: float) -> Axis:
    between = {low + (high - low) * place / _FINE: "" for place in range(_FINE + 1)}
    return Axis(name, tuple(positions), tuple(sorted((between | dict(labels)).items())), low, high)


def _epsilon(epsilons: Sequence[float]) -> Axis:
    scale = EpsilonAxis(epsilons)
    labels = dict(zip(*scale.ticks(), strict=True))
    return _smooth("ε", [*map(scale.position, epsilons)], labels, scale.low, scale.end)


def picture(found: Sequence[Axis], *, key: str) -> go.Figure:
    """A line for each run; dragging along an axis marks a range of it."""
    f1 = next(axis for axis in found if axis.name == "F1")
    figure = go.Figure(
        go.Parcoords(
            dimensions=[
                {
                    "label": axis.name,
                    "values": axis.positions,
                    "range": [axis.low, axis.high],
                    "tickvals": [place for place, _ in axis.ticks],
                    "ticktext": [text or _NO_WIDTH * (number + 1) for number, (_, text) in enumerate(axis.ticks)],
                }
                for axis in found
            ],
            line={"color": f1.positions, "colorscale": _SCALE, "cmin": 0.0, "cmax": 1.0},
            unselected={"line": {"color": palette.QUIET, "opacity": 0.06}},
            labelfont={"size": 14},
            tickfont={"size": 12},
        )
    )
    left = 8 * max((len(text) for _, text in found[0].ticks), default=3)
    return figure.update_layout(**charts.plain_layout(key, height=400), margin={"l": left, "r": 28, "t": 72, "b": 24})


def between(found: Sequence[Axis], marks: Marks) -> list[int]:
    """Which runs lie within the marks of every axis that has some, by their place."""
    wanted = [(axis, ranges) for axis in found if (ranges := marks.get(axis.name))]
    number = len(found[0].positions) if found else 0
    return [
        place
        for place in range(number)
        if all(any(low <= axis.positions[place] <= high for low, high in ranges) for axis, ranges in wanted)
    ]


def rows(done: Sequence[tuple[Overview, RoundRecord]], most: int | None = None) -> list[dict[str, Any]]:
    """Runs as a table, the best first. most: rows, None for all."""
    shown = []
    for each, last in sorted(done, key=lambda one: -one[1].test.f1 if one[1].test else 0.0)[:most]:
        config = each.run.config
        shown.append(
            {
                "corpus": titles.corpus(config.corpus),
                "model": titles.TAGGERS.get(config.tagger.name, config.tagger.name),
                "σ": config.privacy.noise_multiplier,
                "clients": config.federation.clients,
                "rounds": config.federation.rounds,
                "data, %": 100 * config.data_fraction,
                "ε": epsilon_text(last.privacy.epsilon),
                "F1": last.test.f1 if last.test else None,
                metrics.INTERVAL: metrics.interval(last.test) if last.test else None,
                "seed": config.seed,
                "run": address.link(config),
                "report": f"./report?run={each.run.run_id}",
                "ε rests on": address.ledger(each.run),
            }
        )
    return shown
