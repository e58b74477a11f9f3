"""Advanced controls of a configuration, in an expander of the sidebar."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from engine.config import FEATURE_SETS, FLAT, JOIN, MINILM, OF_KIND, SCHEMES, fields_of
from engine.config.head_registry import head_of
from engine.errors import EpsilonError
from engine.service import Application
from engine.taggers import KINDS
from pages.explore import widgets
from pages.shared import address, titles


def choose(app: Application, start: Mapping[str, Any]) -> None:
    """Show the widgets; ``start`` maps their keys to their initial values."""
    with st.expander("Advanced", icon=":material/tune:"):
        _privacy(start)
        for name in fields_of("training"):
            widgets.show(start, name)
        _tagger(start)
        vectors = {*app.corpora.vectors(), start["embeddings"], st.session_state.get("embeddings", start["embeddings"])}
        widgets.select(start, "embeddings", sorted(vectors))
        _language_model(app, start)
        chosen = {name: st.session_state.get(name, start[name]) for name in FLAT}
        widgets.show(start, "pretrained", disabled=not has_public_weights(chosen))
        widgets.show(start, "seed")


def has_public_weights(values: Mapping[str, Any]) -> bool:
    """Return whether a run with these values of a flat configuration can start from public weights."""
    return (
        "pretrained" in KINDS[values["tagger"]].fields
        and values["scheme"] == "bio2"
        and head_of(values["features"], values["language_model"], values["window"]) is not None
    )


def _language_model(app: Application, start: Mapping[str, Any]) -> None:
    """Show the choice of a language model if the features use one and there are several.

    Models are those of this server, and the one in the session's link.
    """
    models = [MINILM]
    try:
        models = app.corpora.language_models()
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
    features = FEATURE_SETS[st.session_state.features]
    models = [name for name in dict.fromkeys([*models, start["language_model"]]) if features.reads(name)]
    if len(models) > 1:
        widgets.select(start, "language_model", models)


def _privacy(start: Mapping[str, Any]) -> None:
    """Show all fields but the mechanism, which belongs to the federation."""
    state = st.session_state
    for name in fields_of("privacy"):
        if name == "noise_multiplier":
            widgets.show(
                start,
                name,
                key="exact_noise",
                label="Exact noise multiplier",
                help=None,
                on_change=lambda: state.update(noise_multiplier=state.exact_noise),
            )
        elif name != "mechanism":
            widgets.show(start, name)


def _tagger(start: Mapping[str, Any]) -> None:
    """Show all fields but the kind of the tagger, a main choice, and the initial weights, shown with the features."""
    of_kind = KINDS[st.session_state.tagger].fields
    for name in fields_of("tagger"):
        if name == "scheme":
            widgets.select(start, name, _schemes(start[name]), format_func=titles.scheme)
        elif name not in ("tagger", "pretrained"):
            widgets.show(start, name, disabled=name in OF_KIND and name not in of_kind)


def _schemes(first: str) -> list[str]:
    """Return the tag schemes: one for all clients, or also one for each if the session's link has that."""
    number_of_schemes = len(first.split(","))
    return [*SCHEMES, first] if 1 < number_of_schemes == len(st.session_state.corpus.split(JOIN)) else [*SCHEMES]
