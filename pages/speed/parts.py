"""Sections of the page Performance: from one measurement, its result, chart, numbers and origin."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from engine import PRIVATE_VERSION
from engine.experiments.papers import fedner_2020
from engine.records import Measurement
from pages.shared import address, messages, tables, titles
from pages.shared.plotly_component import memoized_figure, show
from pages.speed import chart as speed

_SECURE_COLUMNS = {
    "update, kB": "upload: update, kB",
    "protocol, kB": "upload: protocol, kB",
    "download, kB": "download, kB",
    "client, ms": "client time, ms",
    "server, ms": "server time, ms",
    "server, a third dropped out, ms": "server time after dropouts, ms",
}
"""Headings of the columns of secure aggregation."""


def _show_bars(bars: Sequence[speed.Bar], *, unit: str, key: str, label: str) -> None:
    show(memoized_figure(speed.bars, tuple(bars), unit=unit, key=key, label=label), key=key, label=label)


def _show_growth(values: Mapping[str, Any], size: str, *, title: str, label: str) -> None:
    key = f"by_{size}"
    points = tuple((row[size], row["us_per_token"]) for row in values[key])
    show(memoized_figure(speed.growth, points, title=title, key=size, label=label), key=key, label=label)


def step(result: Measurement) -> None:
    """Show the time of one training step, compared with other libraries."""
    answer = speed.step_answer(result.values, result.machine)
    st.markdown(f"### {address.plain(answer)}")
    st.caption(
        "One step trains on 32 sentences with the lengths of CoNLL-2003. The model has 300-dimensional word vectors "
        "and an LSTM with 100 units per direction. Each value is a median; all implementations were measured in turn "
        "in one run. Private: clipped per-sentence gradients with noise."
    )
    _show_bars(speed.step_bars(result.values), unit="milliseconds per step", key="step", label=answer)
    number = st.column_config.NumberColumn
    with st.expander("Numbers"):
        columns = {
            "ms": number(format="%.1f"),
            "÷ Keras": number(format="%.2f"),
            "÷ ours, private": number("÷ Epsilon Explorer, private", format="%.1f"),
        }
        st.dataframe(pd.DataFrame(speed.step_rows(result.values)), hide_index=True, column_config=columns)
    origin(result)


def whole_run(result: Measurement) -> None:
    """Show the time of a run of ten epochs, and its breakdown."""
    values = result.values
    st.markdown("#### Complete run")
    corpus = address.plain(titles.corpus(values["corpus"]))
    st.caption(
        f"Ten epochs of {corpus} with the settings of Jana and Biemann (2021) and 25 evaluations, on "
        f"{address.plain(result.machine)}."
    )
    for column, run in zip(st.columns(len(values["runs"])), values["runs"], strict=True):
        column.metric(_run_title(run), f"{run['seconds']:.0f} s")
    first = _run_title(values["runs"][0])
    activities = speed.parts(values["parts_s"])
    _show_bars(activities, unit=f"seconds, {first}", key="parts", label="Seconds of a private run by activity")
    st.caption(
        f"One evaluation of {values['scored_sentences']:,} sentences takes {values['scoring_s']:.2f} s. Peak memory of "
        f"the process: {values['memory_mb']:,} MB. The benchmark computes one run at a time. A run in parallel "
        "with others takes longer."
    )
    origin(result)


def _run_title(run: Mapping[str, Any]) -> str:
    kind = f"σ = {run['noise_multiplier']:g}" if run["noise_multiplier"] else "not private"
    return f"{titles.TAGGERS.get(run['tagger'], run['tagger'])}, {kind}"


def growth(result: Measurement) -> None:
    """Show the time per token by batch size and sentence length, and the breakdown of a step."""
    values = result.values
    machine = address.plain(result.machine)
    st.markdown("#### Scaling of a step")
    st.caption(f"Measured on {machine}.")
    left, right = st.columns(2)
    with left:
        _show_growth(values, "batch", title="sentences per batch", label="Microseconds per token by batch size")
    with right:
        _show_growth(values, "length", title="tokens per sentence", label="Microseconds per token by sentence length")
    level = (
        "If the line were level, the time of a step would be proportional to its number of tokens. An LSTM processes "
        "the sentences of a batch in parallel, so a few long sentences use the processor less well."
    )
    st.caption(f"{level} {speed.floor_sentence(values['by_batch'], values['gflops'], machine)}")
    st.markdown("#### Breakdown of a step")
    label = "Milliseconds of each part of a training step"
    _show_bars(speed.parts(values["parts_ms"]), unit="milliseconds, batch of 32", key="shares", label=label)
    origin(result)


def workers(result: Measurement) -> None:
    """Show the time of parallel runs, and the memory of a worker."""
    values = result.values
    st.markdown("#### Parallel runs")
    st.caption(f"Measured on {address.plain(result.machine)}.")
    label = "Seconds until all runs are finished"
    _show_bars(speed.side_by_side(values), unit="seconds until all runs are finished", key="workers", label=label)
    st.caption(
        f"Each bar is for {values['cores']} runs of {values['epochs']:g} epochs. In the dashboard, "
        "running runs share the cores equally. An idle worker process begins a queued run after "
        f"{values['start_s']:.2f} s (median; at most {values['slowest_start_s']:.2f} s). Peak memory of a worker: "
        f"{values['worker_memory_mb']:,} MB."
    )
    origin(result)


def origin(result: Measurement) -> None:
    """Show the date, machine, engine and command of a measurement."""
    older = " (not repeated with a newer engine)" if result.engine_version != PRIVATE_VERSION else ""
    st.caption(
        address.plain(f"Measured {result.created[:10]} on {result.machine}, engine {result.engine_version}{older}:")
        + f" `{result.command.replace('`', '')}`"
    )


def fedner_step(result: Measurement) -> None:
    """Show the time of one training step of FedNER's model, compared with Keras."""
    values = result.values
    st.markdown("#### Training step of FedNER's model")
    st.caption(
        f"One step trains on 64 sentences of ADE, on {address.plain(result.machine)}. The model has characters, a "
        "convolution, an LSTM with 200 units per direction and a CRF. Our private step takes "
        f"{values['ours_private_ms'] / values['ours_ordinary_ms']:.2f} times as long as our non-private step. Our "
        f"non-private step takes {values['ours_ordinary_ms'] / values['keras_ms']:.2f} times as long as a step in "
        "Keras. TensorFlow Privacy needs more than 24 GB of memory for a step; Opacus has no CRF."
    )
    label = "Milliseconds of a training step of FedNER's model"
    _show_bars(speed.step_bars(values), unit="milliseconds per step", key="fedner-step", label=label)
    origin(result)


def fedner_table(result: Measurement) -> None:
    """Show the time of replicating FedNER's Table 2 from the corpora alone."""
    values = result.values
    seeds = fedner_2020.SEEDS["table2"]
    total = values["wall_s"] / values["seeds"] * seeds
    reported = fedner_2020.share_printed(values["run_s"]) * total
    same, runs = values["equal"], values["runs"]
    equal = f"All {runs:,} runs are" if same == runs else f"{same:,} of {runs:,} runs are"
    st.markdown("#### FedNER's Table 2")
    st.caption(
        f"On {address.plain(result.machine)}, all {values['runs']:,} runs of {values['seeds']} of the {seeds} seeds "
        f"take {messages.duration(values['wall_s'])} in parallel, starting with only the corpora. At this "
        f"pace, all seeds take {messages.duration(total)}. Some rows are not in the paper; the others need "
        f"{messages.duration(reported)} of this time. {equal} bit-identical to the published ones."
    )
    bars = [
        speed.Bar(fedner_2020.title(method), seconds / values["seeds"]) for method, seconds in values["run_s"].items()
    ]
    _show_bars(bars, unit="seconds per seed", key="fedner-table", label="Seconds per seed by method")
    origin(result)


def secure_sum(result: Measurement) -> None:
    """Show the cost of a secure aggregation round."""
    st.markdown("#### Secure aggregation")
    st.caption(
        f"One round on one thread of {address.plain(result.machine)}. The table shows the data that a client sends and "
        "receives, and the computing time of client and server without training. *After dropouts*: a third of the "
        "clients dropped out."
    )
    number = tables.number
    columns = {
        "weights": number(format="localized"),
        **{name: number(label, format="localized") for name, label in _SECURE_COLUMNS.items()},
    }
    tables.show(speed.secure_rows(result.values), columns, key="secure-sum")
    origin(result)
