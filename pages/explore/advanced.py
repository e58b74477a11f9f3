"""Advanced controls of a configuration, in an expander of the sidebar."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from engine.config import CLIPPINGS, JOIN, LOSSES, MINILM, NOISE_SOURCES, OPTIMISERS, SAMPLINGS, SCHEMES
from engine.errors import EpsilonError
from engine.service import Application
from engine.taggers import KINDS
from pages.explore.widgets import number, select
from pages.shared import address, titles

SOURCE_NAMES = {"seeded": "Seed: simulation only", "system": "System: for release"}


def choose(app: Application, start: Mapping[str, Any]) -> None:
    """Show the widgets; ``start`` maps their keys to their initial values."""
    with st.expander("Advanced", icon=":material/tune:"):
        _privacy(start)
        _training(start)
        _tagger(start)
        vectors = sorted(
            {*app.corpora.vectors(), start["embeddings"], st.session_state.get("embeddings", start["embeddings"])}
        )
        select(start, "Word vectors", vectors, "embeddings")
        _language_model(app, start)
        number(start, "Seed", 0, 2**32 - 1, "seed", help="Seed of every random draw. The same seed gives the same run.")


def _language_model(app: Application, start: Mapping[str, Any]) -> None:
    """Show the choice of a language model if the features use one and there are several.

    Models are those of this server, and the one in the session's link.
    """
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
            help="Your own model is named by its number of layers, their size and the checksum of its files. Its "
            "pre-training data are unknown here: check that they do not contain the private sentences.",
        )


def _privacy(start: Mapping[str, Any]) -> None:
    state = st.session_state
    number(
        start,
        "Exact noise multiplier",
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
        help="Largest L2 norm of one sentence's gradient. Larger gradients are scaled down to it. Automatic: 1.5 with "
        "noise, no clipping without.",
    )
    select(
        start,
        "Clipping",
        CLIPPINGS,
        "clipping",
        names=titles.CLIPPINGS,
        help="Joint: the gradient over all weights is clipped to C. Per layer: each layer is clipped separately, and "
        "all layers together have norm C at most.",
    )
    number(
        start,
        "δ",
        1e-12,
        0.999,
        "delta",
        format="%.0e",
        help="Probability that the guarantee of ε fails. Choose it below 1/n for n training sentences.",
    )
    select(
        start,
        "Sampling",
        SAMPLINGS,
        "sampling",
        names=titles.SAMPLINGS,
        help="Poisson: each sentence is drawn independently at each step, as the accounting assumes. Shuffled: "
        "shuffled batches as in most papers, with no amplification by subsampling.",
    )
    select(
        start,
        "Noise source",
        NOISE_SOURCES,
        "noise_source",
        names=SOURCE_NAMES,
        help="Seed: the run is reproducible, but anyone who knows the seed can subtract the noise. Use it for "
        "simulation only. System: the operating system's random numbers, for a model that you release. Their keys are "
        "destroyed when the run ends, so it cannot be rerun.",
    )


def _training(start: Mapping[str, Any]) -> None:
    number(start, "Epochs", 0.01, 10_000.0, "epochs", step=1.0, format="%g")
    number(start, "Batch size (expected)", 1, 1_000_000, "batch_size")
    select(start, "Optimiser", OPTIMISERS, "optimiser", names=titles.OPTIMISERS)
    number(start, "Learning rate", 1e-6, 1000.0, "learning_rate", step=0.05, format="%g")
    select(
        start,
        "Sentence loss",
        LOSSES,
        "loss",
        names=titles.LOSSES,
        help="Mean or sum over the tokens. With the sum, long sentences have larger gradients and are clipped more.",
    )
    number(
        start,
        "Weight averaging decay",
        0.0,
        0.9999,
        "averaging",
        step=0.05,
        format="%g",
        help="The model uses the exponential moving average of the weights: less noise at no privacy cost. 0: off.",
    )


def _tagger(start: Mapping[str, Any]) -> None:
    select(
        start,
        "Tag scheme",
        _schemes(start["scheme"]),
        "scheme",
        format_func=titles.scheme,
        help="Tags that the model learns. BIO2 marks the first token (B-X) and further tokens (I-X) of an entity. "
        "BIOES also marks the last token (E-X) and single-token entities (S-X). Scores are computed on BIO2 for both.",
    )
    st.toggle(
        "Constrained decoding",
        start["well_formed"],
        key="well_formed",
        help="Allow valid tag sequences only: I-X follows B-X or I-X, and in BIOES an entity ends with E-X. "
        "It applies to decoding only, so it costs no privacy.",
    )
    number(start, "Hidden size (LSTM units per direction, filters, MLP units)", 1, 1024, "hidden_size")
    number(
        start,
        "Dropout",
        0.0,
        0.9,
        "dropout",
        step=0.1,
        format="%g",
        disabled="dropout" not in KINDS[st.session_state.tagger].fields,
        help="Share of the activations that training drops at random. Only the FedNER models use it.",
    )
    number(
        start,
        "Context window",
        0,
        5,
        "window",
        disabled="window" not in KINDS[st.session_state.tagger].fields,
        help="Tokens on each side that linear models and MLPs read. An LSTM reads the whole sentence.",
    )


def _schemes(first: str) -> list[str]:
    """Return the tag schemes: one for all clients, or also one for each if the session's link has that."""
    number_of_schemes = len(first.split(","))
    return [*SCHEMES, first] if 1 < number_of_schemes == len(st.session_state.corpus.split(JOIN)) else [*SCHEMES]
