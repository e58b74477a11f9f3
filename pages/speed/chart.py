"""Measurements of speed → sentences, rows and pictures: no streamlit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from pages.shared import charts, palette

PEERS = {
    "ours_private_ms": ("Epsilon Explorer, private", True),
    "ours_ordinary_ms": ("Epsilon Explorer, not private", False),
    "crf_private_ms": ("Epsilon Explorer, CRF, private", True),
    "keras_ms": ("Keras, not private", False),
    "pytorch_ms": ("PyTorch, packed, not private", False),
    "reference_private_ms": ("our TensorFlow reference, private", True),
    "opacus_ms": ("Opacus (PyTorch), packed, private", True),
    "opacus_padded_ms": ("Opacus (PyTorch), padded, private", True),
    "tensorflow_privacy_ms": ("TensorFlow Privacy, private", True),
}
"""Names of the step benchmark → what they are, and whether they are private."""


@dataclass(frozen=True)
class Bar:
    """A length with its name. private: how it is coloured, None where that does not matter."""

    name: str
    value: float
    private: bool | None = None


def step_answer(values: Mapping[str, Any], machine: str) -> str:
    """The page's first sentence. machine: where it was measured."""
    ours = values["ours_private_ms"]
    peer = values["tensorflow_privacy_ms"] / ours
    return (
        f"On {machine}, a private training step costs {ours / values['keras_ms']:.2f} of an ordinary one in Keras, and "
        f"TensorFlow Privacy's costs {peer:.0f} times as much as ours."
    )


def step_bars(values: Mapping[str, Any]) -> list[Bar]:
    """The peers that were measured, the quickest first."""
    bars = [Bar(name, float(values[key]), private) for key, (name, private) in PEERS.items() if key in values]
    return sorted(bars, key=lambda bar: bar.value)


def step_rows(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same as a table with ratios."""
    return [
        {
            "a training step": bar.name,
            "ms": bar.value,
            "÷ Keras": bar.value / values["keras_ms"],
            "÷ ours, private": bar.value / values["ours_private_ms"],
        }
        for bar in step_bars(values)
    ]


def secure_rows(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a round of a secure sum costs, by number of platforms and weights."""
    return [
        {
            "platforms": row["platforms"],
            "weights": row["weights"],
            "kB of upload": row["upload_bytes"] / 1000,
            "kB more": row["more_bytes_up"] / 1000,
            "kB down": row["bytes_down"] / 1000,
            "ms, platform": row["agreeing_ms"] + row["rounding_ms"] + row["masking_ms"],
            "ms, server": row["server_ms"],
            "ms, server, a third gone": row["server_without_a_third_ms"],
        }
        for row in values["rows"]
    ]


def parts(values: Mapping[str, float]) -> list[Bar]:
    """Parts of a whole, the largest first."""
    return sorted((Bar(name, float(value)) for name, value in values.items()), key=lambda bar: -bar.value)


def side_by_side(values: Mapping[str, Any]) -> list[Bar]:
    """As many runs as there are cores, in processes of their own and in the dashboard's workers."""
    names = {
        "in_turn_s": "one after another, all cores each",
        "one_thread_each_s": "side by side, a core each",
        "all_threads_each_s": "side by side, all cores each",
        "cluster_in_turn_s": "two in the dashboard, in turn",
        "cluster_together_s": "two in the dashboard, at once",
    }
    return [Bar(name, float(values[key])) for key, name in names.items()]


def bars(lengths: Sequence[Bar], *, unit: str, key: str) -> go.Figure:
    """Horizontal bars with their values."""
    colours = {True: palette.PRIVATE, False: palette.NOT_PRIVATE, None: palette.PRECISION}
    figure = go.Figure(
        go.Bar(
            y=[bar.name for bar in lengths],
            x=[bar.value for bar in lengths],
            orientation="h",
            marker={
                "color": [colours[bar.private] for bar in lengths],
                "pattern": {
                    "shape": ["/" if bar.private is False else "" for bar in lengths],
                    "fillmode": "overlay",
                    "fgopacity": 0.35,
                },
            },
            text=[f"{bar.value:.3g}" for bar in lengths],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{y}<br>%{x:.3g} " + unit + "<extra></extra>",
        )
    )
    figure.update_layout(
        **charts.plain_layout(key, height=90 + 34 * len(lengths)),
        margin={"l": 8, "r": 48, "t": 36, "b": 44},
        xaxis={
            "title": {"text": unit},
            "gridcolor": palette.GRID,
            "zeroline": False,
            "nticks": 4,
            "tickangle": 0,
        },
        yaxis={"autorange": "reversed", "automargin": True, "ticksuffix": " "},
        bargap=0.3,
    )
    return figure


def growth(rows: Sequence[Mapping[str, float]], along: str, *, title: str, key: str) -> go.Figure:
    """Microseconds a token along a size, on a log axis: level means that the cost grows with the tokens alone."""
    figure = go.Figure(
        go.Scatter(
            x=[row[along] for row in rows],
            y=[row["us_per_token"] for row in rows],
            mode="lines+markers",
            line={"color": palette.PRIVATE, "width": 3},
            marker={"size": 9},
            hovertemplate=title + " %{x:,}: %{y:.1f} µs a token<extra></extra>",
        )
    )
    figure.update_layout(
        **charts.plain_layout(key, height=300),
        margin={"l": 52, "r": 12, "t": 36, "b": 48},
        xaxis={
            "title": {"text": f"{title} (log axis)"},
            "type": "log",
            "tickvals": [row[along] for row in rows[::2]],
            "ticktext": [f"{row[along]:,}" for row in rows[::2]],
            "gridcolor": palette.GRID,
        },
        yaxis={"title": {"text": "µs a token"}, "rangemode": "tozero", "gridcolor": palette.GRID, "zeroline": False},
        showlegend=False,
    )
    return figure


def floor_sentence(rows: Sequence[Mapping[str, float]], gflops: float, machine: str) -> str:
    """How near the arithmetic floor the step comes. machine: where it was measured."""
    shares = [row["floor_ms"] / row["ms"] for row in rows]
    return (
        f"The matrix products alone would take {100 * min(shares):.0f} to {100 * max(shares):.0f} % of this time at "
        f"the {gflops:.0f} GFLOP/s that large ones reach there ({machine}): the arithmetic floor."
    )
