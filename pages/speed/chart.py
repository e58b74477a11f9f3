"""Sentences, table rows and charts of performance measurements. Without Streamlit."""

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
"""By key of the step benchmark: title of the implementation, and whether its training is private."""


@dataclass(frozen=True)
class Bar:
    """A bar of a chart.

    Attributes:
        name: Label.
        value: Length.
        private: Selects the colour; None for bars without that distinction.
    """

    name: str
    value: float
    private: bool | None = None


def step_answer(values: Mapping[str, Any], machine: str) -> str:
    """Return the first sentence of the page, on a machine with this title."""
    ours = values["ours_private_ms"]
    peer = values["tensorflow_privacy_ms"] / ours
    return (
        f"On {machine}, a private training step of Epsilon Explorer takes {ours / values['keras_ms']:.2f} times as "
        f"long as a non-private step in Keras. A private step in TensorFlow Privacy takes {peer:.0f} times as long as "
        "that of Epsilon Explorer."
    )


def step_bars(values: Mapping[str, Any]) -> list[Bar]:
    """Return the measured implementations, fastest first."""
    bars = [Bar(name, float(values[key]), private) for key, (name, private) in PEERS.items() if key in values]
    return sorted(bars, key=lambda bar: bar.value)


def step_rows(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the measured implementations as table rows with ratios."""
    return [
        {
            "implementation": bar.name,
            "ms": bar.value,
            "÷ Keras": bar.value / values["keras_ms"],
            "÷ ours, private": bar.value / values["ours_private_ms"],
        }
        for bar in step_bars(values)
    ]


def secure_rows(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the cost of a secure aggregation round by number of clients and weights, in kB and ms."""
    return [
        {
            "clients": row["platforms"],
            "weights": row["weights"],
            "update, kB": row["upload_bytes"] / 1000,
            "protocol, kB": row["more_bytes_up"] / 1000,
            "download, kB": row["bytes_down"] / 1000,
            "client, ms": row["agreeing_ms"] + row["rounding_ms"] + row["masking_ms"],
            "server, ms": row["server_ms"],
            "server, a third dropped out, ms": row["server_without_a_third_ms"],
        }
        for row in values["rows"]
    ]


_PARTS = {
    "gather the words": "word-vector lookup",
    "LSTM forward": "forward pass, LSTM",
    "dense forward": "forward pass, dense layer",
    "dense back": "backward pass, dense layer",
    "LSTM back": "backward pass, LSTM",
    "norms, dense": "per-sentence gradient norms, dense layer",
    "norms, LSTM": "per-sentence gradient norms, LSTM",
    "weight gradient, dense": "weight gradient, dense layer",
}
"""Labels of the parts of a step, where they differ from the stored names."""


def parts(values: Mapping[str, float]) -> list[Bar]:
    """Return the parts of a total as bars, largest first."""
    bars = (Bar(_PARTS.get(name, name), float(value)) for name, value in values.items())
    return sorted(bars, key=lambda bar: -bar.value)


def side_by_side(values: Mapping[str, Any]) -> list[Bar]:
    """Return the durations of as many runs as there are cores, in separate processes and in the dashboard's workers."""
    names = {
        "in_turn_s": "sequential, all cores per run",
        "one_thread_each_s": "parallel, one core per run",
        "all_threads_each_s": "parallel, all cores per run",
        "cluster_in_turn_s": "dashboard, two runs, sequential",
        "cluster_together_s": "dashboard, two runs, parallel",
    }
    return [Bar(name, float(values[key])) for key, name in names.items()]


def bars(lengths: Sequence[Bar], *, unit: str, key: str) -> go.Figure:
    """Draw horizontal bars with their values in a unit."""
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


def growth(points: Sequence[tuple[float, float]], *, title: str, key: str) -> go.Figure:
    """Draw the time per token over a size, on a log axis; a level line means time proportional to tokens.

    Args:
        points: Sizes and times per token, in microseconds.
        title: Title of the size.
        key: Charts with the same key keep zoom and selection.
    """
    figure = go.Figure(
        go.Scatter(
            x=[size for size, _ in points],
            y=[time for _, time in points],
            mode="lines+markers",
            line={"color": palette.PRIVATE, "width": 3},
            marker={"size": 9},
            hovertemplate=title + " %{x:,}: %{y:.1f} µs per token<extra></extra>",
        )
    )
    figure.update_layout(
        **charts.plain_layout(key, height=300),
        margin={"l": 52, "r": 12, "t": 36, "b": 48},
        xaxis={
            "title": {"text": f"{title} (log axis)"},
            "type": "log",
            "tickvals": [size for size, _ in points[::2]],
            "ticktext": [f"{size:,}" for size, _ in points[::2]],
            "gridcolor": palette.GRID,
        },
        yaxis={"title": {"text": "µs per token"}, "rangemode": "tozero", "gridcolor": palette.GRID, "zeroline": False},
        showlegend=False,
    )
    return figure


def floor_sentence(rows: Sequence[Mapping[str, float]], gflops: float, machine: str) -> str:
    """Return a sentence on the share of a step that its matrix products need at least.

    Args:
        rows: Measurements with ``ms``, the time of a step, and ``floor_ms``, that of its matrix products.
        gflops: Throughput of large matrix products on the machine, in GFLOP/s.
        machine: Title of the machine.
    """
    shares = [row["floor_ms"] / row["ms"] for row in rows]
    return (
        f"Large matrix products reach {gflops:.0f} GFLOP/s on {machine}. At this rate, the matrix products of a step "
        f"need {100 * min(shares):.0f} to {100 * max(shares):.0f} % of the step's time."
    )
