"""What the ledger is of, and which assumptions are chosen; both stand in the link."""

from collections.abc import Collection
from dataclasses import dataclass

import streamlit as st

from engine.experiments.papers import jana_biemann_2021
from engine.privacy.assumptions import (
    ACCOUNTANTS,
    AS_PRINTED,
    NEIGHBOURS,
    SAMPLINGS,
    Choices,
    Training,
    neighbours,
    printed_row,
    samplings,
)
from engine.service import Application
from pages.shared import titles

SETTINGS, PRINTED = "Settings", "A printed row, set right"
_NUMBERS = ("Sentences, n", "Batch size, B", "Epochs, E", "Noise multiplier σ", "Clients")


@dataclass(frozen=True)
class Subject:
    """What the ledger is of. name: in words. start: what a paper printed, or would print, of it. seeded: whether it is
    a run whose seed is printed."""

    name: str
    training: Training
    start: Choices
    seeded: bool = False


def subject(app: Application, asked: str | None) -> Subject:
    """A run, settings, or the printed row. asked: identity of a run. Raises InvalidConfig, RunNotFound, CorpusError."""
    if asked:
        config, training = app.queries.get(asked).config, app.previews.scenario(asked)
        return Subject(titles.setting(config), training, training.printed, config.privacy.noise_source == "seeded")
    kind = st.segmented_control(
        "Of what", (SETTINGS, PRINTED), default=SETTINGS, key="of", bind="query-params", required=True
    )
    if kind == PRINTED:
        printed = {row["noise_multiplier"]: row["epsilon"] for row in jana_biemann_2021.published()["tables"]["table2"]}
        sigma = st.segmented_control(
            "Noise multiplier σ",
            list(printed),
            default=1.0,
            format_func=lambda each: f"{each:g}: ε = {printed[each]:g}",
            key="row",
            bind="query-params",
            required=True,
        )
        return Subject(f"σ = {sigma:g}, ε = {printed[sigma]:g} as dp-fl-ner prints it", printed_row(sigma), AS_PRINTED)
    first, second, third, fourth, fifth = st.columns(5)
    made = Training(
        examples=first.number_input(_NUMBERS[0], 1, 10_000_000, 14_041, key="n", bind="query-params"),
        batch_size=second.number_input(_NUMBERS[1], 1, 10_000_000, 256, key="batch", bind="query-params"),
        epochs=third.number_input(_NUMBERS[2], 0.01, 10_000.0, 10.0, key="epochs", bind="query-params"),
        noise_multiplier=fourth.number_input(_NUMBERS[3], 0.0, 1000.0, 1.0, key="sigma", bind="query-params"),
        clients=fifth.number_input(_NUMBERS[4], 1, 10_000, 1, key="clients", bind="query-params"),
        shuffled=st.toggle("Batches were shuffled, not drawn by chance", key="shuffled", bind="query-params"),
    )
    return Subject("these settings", made, made.printed)


def choices(training: Training) -> Choices:
    """What is assumed of it; at first what is promised."""
    base, unit = training.promised, training.unit
    left, middle, right = st.columns(3)
    with left:
        accountant = _one("Accountant", ACCOUNTANTS, ACCOUNTANTS, base.accountant, "accountant", unit)
        sentences = st.number_input(
            "Sentences of one person" if unit == "sentence" else "Clients of one group",
            1,
            1000,
            1,
            key="k",
            bind="query-params",
            help="1 is the promise as it stands.",
        )
        seed_known = st.toggle("The seed is known", key="seed", bind="query-params")
        whole_client = st.toggle(
            "A whole client is to be protected", key="whole", bind="query-params", disabled=training.clients == 1
        )
    with middle:
        sampling = _one("How batches are drawn", SAMPLINGS, samplings(training), base.sampling, "sampling", unit)
        trainings = st.number_input("Trainings on the same data", 1, 10_000, 1, key="t", bind="query-params")
        micro = st.toggle(
            "The batch is taken for 1", key="micro", bind="query-params", disabled=base.sampling == "none"
        )
    with right:
        pairs = _one("Neighbouring data sets", NEIGHBOURS, neighbours(training), base.neighbours, "neighbours", unit)
        delta = st.select_slider(
            "δ",
            sorted({base.delta, *(10.0**-power for power in range(3, 13))}, reverse=True),
            base.delta,
            "{:g}".format,
            key=f"delta-{base.delta:g}",
            bind="query-params",
        )
        pooled = st.toggle(
            "All clients' data together", key="pooled", bind="query-params", disabled=not training.several
        )
    return Choices(
        accountant=accountant,
        sampling=sampling,
        neighbours=pairs,
        micro_batch=micro and sampling != "none",
        pooled=pooled and training.several,
        sentences=sentences,
        whole_client=whole_client and training.clients > 1,
        trainings=trainings,
        delta=delta,
        seed_known=seed_known,
    )


def _one(label: str, words: dict[str, str], known: Collection[str], usual: str, key: str, unit: str) -> str:
    names = list(known)
    return st.selectbox(
        label,
        names,
        index=names.index(usual),
        format_func=lambda name: words[name].format(unit=unit),
        key=f"{key}-{usual}",
        bind="query-params",
    )
