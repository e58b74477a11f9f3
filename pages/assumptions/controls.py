"""Controls for the configuration and its assumptions; both are part of the link."""

from collections.abc import Collection
from dataclasses import dataclass

import streamlit as st

from engine.experiments.papers import jana_biemann_2021
from engine.privacy.assumptions import (
    ACCOUNTANTS,
    AS_PRINTED,
    SAMPLINGS,
    Choices,
    Training,
    adjacency_text,
    neighbours,
    printed_row,
    samplings,
)
from engine.service import Application
from pages.shared import session, titles

REPORTED, BY_RDP, GUARANTEED = "reported", "Rényi accounting", "guaranteed"
FIRST_BAR = {
    REPORTED: "The first bar is the reported ε.",
    BY_RDP: "The first bar is ε by Rényi accounting, as most papers compute it.",
    GUARANTEED: "The first bar is the guaranteed ε.",
}
"""The first bar of the chart, by its label."""
SETTINGS, PRINTED = "Settings", "Correct a reported ε"
USUAL = Training(examples=14_041, batch_size=256, epochs=10.0, noise_multiplier=1.0)
"""The settings of a new page: CoNLL-2003 with the batch size and epochs of Jana and Biemann (2021)."""
_NUMBERS = ("Sentences, n", "Batch size, B", "Epochs, E", "Noise multiplier σ", "Clients")


@dataclass(frozen=True)
class Subject:
    """The configuration whose ε is shown.

    Attributes:
        name: Its name in words.
        training: The training that the accountant sees.
        start: The assumptions of the ε that a paper reported, or would report.
        first: Label of this ε.
        seeded: Whether it is a run whose noise seed is public.
    """

    name: str
    training: Training
    start: Choices
    first: str
    seeded: bool = False


def subject(app: Application, asked: str | None) -> Subject:
    """Return the run with the identity ``asked``, or the chosen settings or reported row.

    Raises:
        InvalidConfig: The settings are not valid.
        RunNotFound: No run has this identity.
        CorpusError: The corpus of the run is not available.
    """
    if asked:
        session.read_published()
        config, training = app.queries.get(asked).config, app.previews.scenario(asked)
        seeded = config.privacy.noise_source == "seeded"
        return Subject(titles.setting(config), training, training.printed, _first(training), seeded)
    kind = st.segmented_control(
        "Starting point", (SETTINGS, PRINTED), default=SETTINGS, key="of", bind="query-params", required=True
    )
    if kind == PRINTED:
        printed = {row["noise_multiplier"]: row["epsilon"] for row in jana_biemann_2021.published()["tables"]["table2"]}
        sigma = st.segmented_control(
            "Noise multiplier σ",
            list(printed),
            default=1.0,
            format_func=lambda row: f"{row:g}: ε = {printed[row]:g}",
            key="row",
            bind="query-params",
            required=True,
        )
        return Subject(
            f"σ = {sigma:g}, with ε = {printed[sigma]:g} reported by Jana & Biemann 2021",
            printed_row(sigma),
            AS_PRINTED,
            REPORTED,
        )
    first, second, third, fourth, fifth = st.columns(5)
    made = Training(
        examples=first.number_input(_NUMBERS[0], 1, 10_000_000, USUAL.examples, key="n", bind="query-params"),
        batch_size=second.number_input(_NUMBERS[1], 1, 10_000_000, USUAL.batch_size, key="batch", bind="query-params"),
        epochs=third.number_input(_NUMBERS[2], 0.01, 10_000.0, USUAL.epochs, key="epochs", bind="query-params"),
        noise_multiplier=fourth.number_input(
            _NUMBERS[3], 0.0, 1000.0, USUAL.noise_multiplier, key="sigma", bind="query-params"
        ),
        clients=fifth.number_input(_NUMBERS[4], 1, 10_000, USUAL.clients, key="clients", bind="query-params"),
        shuffled=st.toggle("Shuffled batches (no amplification)", key="shuffled", bind="query-params"),
    )
    return Subject("these settings", made, made.printed, _first(made))


def _first(training: Training) -> str:
    return GUARANTEED if training.printed == training.promised else BY_RDP


def choices(training: Training) -> Choices:
    """Return the chosen assumptions; the defaults are those of the guaranteed ε."""
    base, unit = training.promised, training.unit
    left, middle, right = st.columns(3)
    with left:
        accountant = _one("Accountant", ACCOUNTANTS, ACCOUNTANTS, base.accountant, "accountant", unit)
        sentences = st.number_input(
            "Sentences per person" if unit == "sentence" else "Clients per group",
            1,
            1000,
            1,
            key="k",
            bind="query-params",
            help=f"The guarantee covers 1 {unit}. For a larger number, ε is computed by group privacy.",
        )
        seed_known = st.toggle("Public noise seed", key="seed", bind="query-params")
        whole_client = st.toggle(
            "Client-level privacy", key="whole", bind="query-params", disabled=training.clients == 1
        )
    with middle:
        sampling = _one("Batch sampling", SAMPLINGS, samplings(training), base.sampling, "sampling", unit)
        trainings = st.number_input("Trainings on this data", 1, 10_000, 1, key="t", bind="query-params")
        micro = st.toggle(
            "Micro-batch: ε for batch size 1", key="micro", bind="query-params", disabled=base.sampling == "none"
        )
    with right:
        labels = {name: adjacency_text(training, name) for name in neighbours(training)}
        pairs = _one("Adjacency", labels, labels, base.neighbours, "neighbours", unit)
        delta = st.select_slider(
            "δ",
            sorted({base.delta, *(10.0**-power for power in range(3, 13))}, reverse=True),
            base.delta,
            "{:g}".format,
            key=f"delta-{base.delta:g}",
            bind="query-params",
        )
        pooled = st.toggle("Pool all clients' data", key="pooled", bind="query-params", disabled=not training.several)
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


def _one(label: str, words: dict[str, str], options: Collection[str], usual: str, key: str, unit: str) -> str:
    names = list(options)
    return st.selectbox(
        label,
        names,
        index=names.index(usual),
        format_func=lambda name: words[name].format(unit=unit),
        key=f"{key}-{usual}",
        bind="query-params",
    )
