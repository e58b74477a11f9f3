"""The controls of a configuration that a newcomer needs none of, behind an expander in the sidebar."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from engine.config import CLIPPINGS, JOIN, LOSSES, MINILM, NOISE_SOURCES, OPTIMISERS, SAMPLINGS, SCHEMES
from engine.errors import EpsilonError
from engine.service import Application
from engine.taggers import KINDS
from pages.explore.widgets import number, select
from pages.shared import address, titles

SOURCE_NAMES = {"seeded": "the seed: simulation", "system": "the system: release"}


def choose(app: Application, start: Mapping[str, Any]) -> None:
    """The widgets; ``start`` has their first values by key."""
    with st.expander("Advanced", icon=":material/tune:"):
        _privacy(start)
        _training(start)
        _tagger(start)
        vectors = sorted(
            {*app.corpora.vectors(), start["embeddings"], st.session_state.get("embeddings", start["embeddings"])}
        )
        select(start, "Word vectors", vectors, "embeddings")
        _language_model(app, start)
        number(start, "Seed", 0, 2**32 - 1, "seed", help="Of every random draw; the same seed, the same run.")


def _language_model(app: Application, start: Mapping[str, Any]) -> None:
    """Where there is another than MiniLM, or a link asks for one, and features that it may stand behind."""
    models = [MINILM]
    try:
        models = app.corpora.language_models()
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
    models = list(dict.fromkeys([*models, start["language_model"]]))
    if st.session_state.features == "contextual" and len(models) > 1:
        select(
            start,
            "Language model",
            models,
            "language_model",
            help="Another is called by its layers, their size and the checksum of its files. Its texts are not known "
            "here: whoever brings it must judge whether the private sentences were among them.",
        )


def _privacy(start: Mapping[str, Any]) -> None:
    state = st.session_state
    number(
        start,
        "Noise multiplier, exactly",
        0.0,
        10_000.0,
        "exact_noise",
        step=0.1,
        format="%g",
        on_change=lambda: state.update(noise_multiplier=state.exact_noise),
    )
    number(
        start,
        "Clip norm C",
        1e-6,
        1e6,
        "clip_norm",
        placeholder="automatic",
        format="%g",
        help="The longest gradient that one sentence may have (L2). Longer ones are scaled down. Automatic: 1.5 with "
        "noise, none without.",
    )
    select(
        start,
        "Clipping",
        CLIPPINGS,
        "clipping",
        names=titles.CLIPPINGS,
        help="As a whole: a sentence's gradient over all weights. Layer by layer: each layer by itself, all together "
        "to C.",
    )
    number(start, "δ", 1e-12, 0.999, "delta", format="%.0e", help="Chance that ε does not hold: below 1/n.")
    select(
        start,
        "Sampling",
        SAMPLINGS,
        "sampling",
        names=titles.SAMPLINGS,
        help="Poisson: each sentence joins each step by chance, as the accounting assumes. Shuffled: fixed batches as "
        "in papers, whose ε has no amplification by sampling.",
    )
    select(
        start,
        "Noise comes from",
        NOISE_SOURCES,
        "noise_source",
        names=SOURCE_NAMES,
        help="A seed: the run can be computed again, and whoever knows the seed can subtract the noise, so it is for "
        "simulation. The operating system: for a tagger that is given away. Its keys are destroyed when the run is "
        "done, and it cannot be run again.",
    )


def _training(start: Mapping[str, Any]) -> None:
    number(start, "Epochs", 0.01, 10_000.0, "epochs", step=1.0, format="%g")
    number(start, "Batch size (expected)", 1, 1_000_000, "batch_size")
    select(start, "Optimiser", OPTIMISERS, "optimiser", names=titles.OPTIMISERS)
    number(start, "Learning rate", 1e-6, 1000.0, "learning_rate", step=0.05, format="%g")
    select(
        start,
        "Loss of a sentence",
        LOSSES,
        "loss",
        names=titles.LOSSES,
        help="Mean or sum over its tokens. With clipping, the sum makes long sentences clip more.",
    )
    number(
        start,
        "Average of the weights, decay",
        0.0,
        0.9999,
        "averaging",
        step=0.05,
        format="%g",
        help="The tagger has the moving average of the weights: less noise, for no privacy. 0 is none.",
    )


def _tagger(start: Mapping[str, Any]) -> None:
    select(
        start,
        "Tag scheme",
        _schemes(start["scheme"]),
        "scheme",
        format_func=titles.scheme,
        help="What the tagger learns. BIO2: where names begin (B-X) and go on (I-X). BIOES: where they end (E-X) and "
        "which are single tokens (S-X) too. Scores are of BIO2 either way.",
    )
    st.toggle(
        "Only well-formed tags",
        start["well_formed"],
        key="well_formed",
        help="I-X may only follow B-X or I-X; in BIOES what was begun must end with E-X too. Forbidding the rest when "
        "tags are read off costs no privacy.",
    )
    number(start, "LSTM units per direction, filters, or units of an MLP", 1, 1024, "hidden_size")
    number(
        start,
        "Dropout",
        0.0,
        0.9,
        "dropout",
        step=0.1,
        format="%g",
        disabled="dropout" not in KINDS[st.session_state.tagger].fields,
        help="Share of the values that are left out at random in training; for the taggers of FedNER.",
    )
    number(
        start,
        "Neighbours that a token sees",
        0,
        5,
        "window",
        disabled="window" not in KINDS[st.session_state.tagger].fields,
        help="To each side; for linear taggers and MLPs. An LSTM reads the whole sentence.",
    )


def _schemes(first: str) -> list[str]:
    """The same for all platforms, or one for each as the session's link asks for."""
    each = len(first.split(","))
    return [*SCHEMES, first] if 1 < each == len(st.session_state.corpus.split(JOIN)) else [*SCHEMES]
