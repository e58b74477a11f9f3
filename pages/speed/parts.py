"""Each part of the page Speed, from one measurement: its answer, its picture, its numbers and where they come from."""

import pandas as pd
import streamlit as st

from engine.experiments.papers import fedner_2020
from engine.records import Measurement
from pages.shared import address, messages, tables, titles
from pages.shared.plotly_component import show
from pages.speed import chart as speed


def step(found: Measurement) -> None:
    """One step against its peers."""
    answer = speed.step_answer(found.values, found.machine)
    st.markdown(f"### {address.plain(answer)}")
    st.caption(
        "One step: 32 sentences as long as CoNLL-2003's, 300-dimensional words, an LSTM of 100 units a direction. "
        "Medians, taken in turns in one run. Private: each sentence's gradient is clipped, noise is added."
    )
    picture = speed.bars(speed.step_bars(found.values), unit="milliseconds a step", key="step")
    show(picture, key="step", label=answer)
    number = st.column_config.NumberColumn
    with st.expander("Numbers"):
        columns = {
            "ms": number(format="%.1f"),
            "÷ Keras": number(format="%.2f"),
            "÷ ours, private": number(format="%.1f"),
        }
        st.dataframe(pd.DataFrame(speed.step_rows(found.values)), hide_index=True, column_config=columns)
    origin(found)


def whole_run(found: Measurement) -> None:
    """Ten epochs, and where their time goes."""
    values = found.values
    st.markdown("#### A whole run")
    corpus = address.plain(titles.corpus(values["corpus"]))
    st.caption(
        f"Ten epochs of {corpus} at the paper's settings, with 25 scorings on the way, on "
        f"{address.plain(found.machine)}."
    )
    for column, run in zip(st.columns(len(values["runs"])), values["runs"], strict=True):
        kind = f"σ = {run['noise_multiplier']:g}" if run["noise_multiplier"] else "not private"
        column.metric(f"{titles.TAGGERS.get(run['tagger'], run['tagger'])}, {kind}", f"{run['seconds']:.0f} s")
    show(
        speed.bars(speed.parts(values["parts_s"]), unit="seconds of the first run above", key="parts"),
        key="parts",
        label="Where the seconds of a private run go",
    )
    st.caption(
        f"Scoring {values['scored_sentences']:,} sentences once takes {values['scoring_s']:.2f} s; the process needs "
        f"{values['memory_mb']:,} MB at most."
    )
    origin(found)


def growth(found: Measurement) -> None:
    """How the cost grows, and the parts of a step."""
    values = found.values
    machine = address.plain(found.machine)
    st.markdown("#### How the cost grows")
    st.caption(f"Measured on {machine}.")
    left, right = st.columns(2)
    with left:
        picture = speed.growth(values["by_batch"], "batch", title="sentences in a batch", key="batch")
        show(picture, key="by_batch", label="Microseconds a token by batch size")
    with right:
        picture = speed.growth(values["by_length"], "length", title="tokens in a sentence", key="length")
        show(picture, key="by_length", label="Microseconds a token by sentence length")
    level = (
        "A level line would mean that the cost grows with the tokens alone. Sentences advance side by side, so that "
        "a few long ones leave the processor less to do at once."
    )
    st.caption(f"{level} {speed.floor_sentence(values['by_batch'], values['gflops'], machine)}")
    st.markdown("#### Where a step's time goes")
    picture = speed.bars(speed.parts(values["parts_ms"]), unit="milliseconds, batch of 32", key="shares")
    show(picture, key="shares", label="Milliseconds of each part of a training step")
    origin(found)


def workers(found: Measurement) -> None:
    """Runs beside each other, and what a worker needs."""
    values = found.values
    st.markdown("#### Several runs at once")
    st.caption(f"Measured on {address.plain(found.machine)}.")
    show(
        speed.bars(speed.side_by_side(values), unit="seconds until all are done", key="workers"),
        key="workers",
        label="Seconds until all runs are done",
    )
    st.caption(
        f"{values['cores']} runs of {values['epochs']:g} epochs. Workers share the cores by the number of runs under "
        f"way. A warm worker starts the next run {values['start_s']:.2f} s after it was asked for "
        f"(slowest {values['slowest_start_s']:.2f} s) and needs {values['worker_memory_mb']:,} MB at most."
    )
    origin(found)


def origin(found: Measurement) -> None:
    """When, where and how it was measured."""
    st.caption(
        address.plain(f"Measured {found.created[:10]} on {found.machine}, engine {found.engine_version}:")
        + f" `{found.command.replace('`', '')}`"
    )


def fedner_step(found: Measurement) -> None:
    """A step of FedNER's tagger against Keras."""
    values = found.values
    st.markdown("#### A step of FedNER's tagger")
    st.caption(
        f"64 sentences of ADE, on {address.plain(found.machine)}: characters, convolution, an LSTM of 200 units a "
        f"direction, a chain. A private step costs {values['ours_private_ms'] / values['ours_ordinary_ms']:.2f} of our "
        f"ordinary one, and that {values['ours_ordinary_ms'] / values['keras_ms']:.2f} of Keras's. TensorFlow Privacy "
        "needs more than 24 GB for it; Opacus has no chain."
    )
    picture = speed.bars(speed.step_bars(values), unit="milliseconds a step", key="fedner-step")
    show(picture, key="fedner-step", label="A step of FedNER's tagger")
    origin(found)


def fedner_table(found: Measurement) -> None:
    """How long a table of FedNER's takes, from nothing."""
    values = found.values
    seeds = fedner_2020.SEEDS["table2"]
    whole = values["wall_s"] / values["seeds"] * seeds
    printed = fedner_2020.share_printed(values["run_s"]) * whole
    st.markdown("#### FedNER's Table 2")
    st.caption(
        f"On {address.plain(found.machine)}: all {values['runs']:,} runs of {values['seeds']} of the {seeds} seeds, "
        f"side by side, from the corpora alone to the last score in {messages.duration(values['wall_s'])}. All "
        f"seeds at this pace take {messages.duration(whole)}, of it {messages.duration(printed)} are for the rows that "
        f"the paper prints. {values['equal']:,} of the runs are equal to the published ones to the last digit."
    )
    each = [speed.Bar(method, took / values["seeds"]) for method, took in values["run_s"].items()]
    picture = speed.bars(each, unit="seconds a seed", key="fedner-table")
    show(picture, key="fedner-table", label="Seconds that the runs of each method take")
    origin(found)


def secure_sum(found: Measurement) -> None:
    """What a round of a secure sum costs."""
    st.markdown("#### A secure sum")
    st.caption(
        f"One round, on one thread of {address.plain(found.machine)}: what a platform sends and gets, and how long it "
        "and the server work on it, training apart."
    )
    number = tables.number
    columns = {
        "weights": number(format="localized"),
        **{name: number(format="%.0f") for name in ("kB of upload", "kB more", "kB down")},
        **{name: number(format="%.0f") for name in ("ms, platform", "ms, server", "ms, server, a third gone")},
    }
    tables.show(speed.secure_rows(found.values), columns, key="secure-sum")
    origin(found)
