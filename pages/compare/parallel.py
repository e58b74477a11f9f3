"""Parallel axes with the settings and results of all finished runs, and the filter by selected ranges.

Does not use Streamlit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from engine.records import RoundRecord
from engine.reports.csv_export import neutral
from engine.reports.numbers import epsilon_text
from engine.service import Overview
from pages.shared import address, charts, metrics, palette, titles
from pages.shared.epsilon_axis import EpsilonAxis

Marks = Mapping[str, Sequence[Sequence[float]]]
"""Selected ranges: by the name of an axis, ranges of positions, of which a run must be within one."""
_LABELS = 8
"""Maximum number of labelled ticks of an axis with discrete values."""
_FINE = 100
"""Number of ticks of a continuous axis, mostly unlabelled: Plotly ends a selected range only between two ticks."""
_NO_WIDTH = "\u200b"
"""Plotly merges ticks with equal labels, so each unlabelled tick has its own number of these zero-width spaces."""
_SCALE = ((0.0, "#b8a987"), (0.5, "#db7a14"), (1.0, "#b23a6e"))
"""Colour scale of F1 from low to high: increasingly dark, so that it is readable without colour."""


@dataclass(frozen=True)
class Axis:
    """An axis.

    Attributes:
        name: Its label.
        positions: Positions of the runs, in their order.
        ticks: Positions and labels of the ticks; a label can be empty.
        low: Lower end.
        high: Upper end.
    """

    name: str
    positions: tuple[float, ...]
    ticks: tuple[tuple[float, str], ...]
    low: float
    high: float


def finished(found: Sequence[Overview]) -> list[tuple[Overview, RoundRecord]]:
    """Return the runs with a test score, with their final records."""
    return [
        (overview, overview.last_record)
        for overview in found
        if overview.last_record and overview.last_record.final and overview.last_record.test
    ]


def axes(found: Sequence[Overview]) -> list[Axis]:
    """Return the axes on which finished runs differ, followed by ε and F1."""
    done = finished(found)
    configs = [overview.run.config for overview, _ in done]
    settings = [
        _levels("model", [titles.TAGGERS.get(c.tagger.name, c.tagger.name) for c in configs]),
        _levels("σ", [c.privacy.noise_multiplier for c in configs]),
        _levels("clients", [c.federation.clients for c in configs]),
        _levels("rounds", [c.federation.rounds for c in configs]),
        _levels("share of data, %", [100 * c.data_fraction for c in configs]),
    ]
    f1 = tuple(last.test.f1 for _, last in done if last.test)
    results = [
        _epsilon([last.privacy.epsilon for _, last in done]),
        _continuous("F1", f1, {tick / 5: f"{tick / 5:g}" for tick in range(6)}, 0.0, 1.0),
    ]
    return [axis for axis in settings if len(set(axis.positions)) > 1] + results


def _levels(name: str, values: Sequence[Any]) -> Axis:
    """Return an axis with evenly spaced values, so that 0.3 and 50 are both visible."""
    order = sorted(set(values))
    names = isinstance(order[0], str) if order else False
    spacing = 1 if names else max(1, math.ceil((len(order) - 1) / _LABELS))
    labels = [value if isinstance(value, str) else f"{value:.3g}" for value in order]
    ticks = tuple((float(index), label if index % spacing == 0 else "") for index, label in enumerate(labels))
    positions = tuple(float(order.index(value)) for value in values)
    return Axis(name, positions, ticks, 0.0, float(max(1, len(order) - 1)))


def _continuous(name: str, positions: Sequence[float], labels: Mapping[float, str], low: float, high: float) -> Axis:
    unlabelled = {low + (high - low) * index / _FINE: "" for index in range(_FINE + 1)}
    return Axis(name, tuple(positions), tuple(sorted((unlabelled | dict(labels)).items())), low, high)


def _epsilon(epsilons: Sequence[float]) -> Axis:
    scale = EpsilonAxis(epsilons)
    labels = dict(zip(*scale.ticks(), strict=True))
    return _continuous("ε", [*map(scale.position, epsilons)], labels, scale.low, scale.end)


def picture(found: Sequence[Axis], *, key: str) -> go.Figure:
    """Draw a line for each run; the user drags along an axis to select a range.

    Args:
        found: The axes.
        key: A chart with the same key keeps its selection.
    """
    f1 = next(axis for axis in found if axis.name == "F1")
    figure = go.Figure(
        go.Parcoords(
            dimensions=[
                {
                    "label": axis.name,
                    "values": axis.positions,
                    "range": [axis.low, axis.high],
                    "tickvals": [position for position, _ in axis.ticks],
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
    return figure.update_layout(**charts.plain_layout(key, height=440), margin={"l": left, "r": 28, "t": 72, "b": 24})


def between(found: Sequence[Axis], marks: Marks) -> list[int]:
    """Return the indices of the runs that are within a selected range of each axis with selected ranges."""
    filters = [(axis, ranges) for axis in found if (ranges := marks.get(axis.name))]
    number = len(found[0].positions) if found else 0
    return [
        index
        for index in range(number)
        if all(any(low <= axis.positions[index] <= high for low, high in ranges) for axis, ranges in filters)
    ]


def rows(done: Sequence[tuple[Overview, RoundRecord]], most: int | None = None) -> list[dict[str, Any]]:
    """Return runs as table rows, highest F1 first; ``most`` limits their number, None is all."""
    table = []
    for overview, last in sorted(done, key=lambda one: -one[1].test.f1 if one[1].test else 0.0)[:most]:
        config = overview.run.config
        table.append(
            {
                "corpus": neutral(titles.corpus(config.corpus)),
                "model": titles.TAGGERS.get(config.tagger.name, config.tagger.name),
                "σ": config.privacy.noise_multiplier,
                "clients": config.federation.clients,
                "rounds": config.federation.rounds,
                "share of data, %": 100 * config.data_fraction,
                "ε": epsilon_text(last.privacy.epsilon),
                "F1": last.test.f1 if last.test else None,
                metrics.INTERVAL: metrics.interval(last.test) if last.test else None,
                "seed": config.seed,
                "run": address.link(config),
                "report": f"./report?run={overview.run.run_id}",
                "ε rests on": address.ledger(overview.run),
            }
        )
    return table
