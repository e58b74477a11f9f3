"""Controls of a federation in the sidebar: clients, their data, local training and aggregation."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from engine.config import JOIN, NOTHING, fields_of
from engine.config.mechanism_registry import MECHANISMS
from engine.taggers import splits_of
from pages.explore import widgets
from pages.shared import titles

CLIENTS = (1, 2, 5, 10, 15, 20, 50, 100, 200)
_OF_SILOS = ("shared", "masked", "together")
"""Fields that only clients with corpora of their own have."""


def choose(start: Mapping[str, Any]) -> None:
    """Show the number of clients; ``start`` maps the widgets' keys to their initial values."""
    state = st.session_state
    if joins := len(state.corpus.split(JOIN)) - 1:
        state.clients = joins + 1
        st.caption(
            f"{state.clients} clients (silos), each with its own corpus and entity types. A server averages their "
            "shared layers; the private head of each silo never leaves it."
        )
        return
    widgets.slider(start, "clients", CLIENTS, format_func=lambda clients: f"{clients:,}")
    if state.clients == 1:
        st.caption("Central training: one client has all sentences.")
        return
    mechanism = state.get("mechanism", start["mechanism"])
    st.caption(f"{state.clients:,} clients train; a server averages their weights. {MECHANISMS[mechanism].note}")


def advanced(start: Mapping[str, Any]) -> None:
    """Show the other fields in an expander; fields without effect on a single client are disabled."""
    with st.expander("Federation", icon=":material/hub:"):
        widgets.show(start, "mechanism", disabled=st.session_state.clients == 1)
        for name in fields_of("federation"):
            if name == "shared" and JOIN in st.session_state.corpus:
                widgets.select(start, name, _splits(start[name]), format_func=titles.shared)
            elif name != "clients" and (name not in _OF_SILOS or JOIN in st.session_state.corpus):
                widgets.show(start, name, disabled=_disabled(name))


def _disabled(name: str) -> bool:
    """Return whether a field has no effect, given the fields above it."""
    state = st.session_state
    if name == "together":
        return bool(state.schedule != "gradients")
    if state.clients == 1:
        return name in ("participants", "skew", "weighting")
    if name == "skew":
        return bool(state.partition != "dirichlet")
    return name == "partition" and JOIN in state.corpus


def _splits(first: str | None) -> list[str | None]:
    """Return the possible sets of shared layers of the chosen model, and the one in the session's link."""
    parts = splits_of(st.session_state.tagger)
    options: list[str | None] = [None, NOTHING, *(",".join(parts[:end]) for end in range(1, len(parts) + 1))]
    is_option = first is None or first in options or not set(first.split(",")).issubset(parts)
    return options if is_option else [*options, first]


def effective(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a flat configuration, without federation settings that have no effect."""
    if values["clients"] == 1:
        schedule = "averaging" if values["schedule"] == "gradients" else values["schedule"]
        others = {name: value for name, value in values.items() if name not in fields_of("federation")}
        partition = values["partition"] if values["partition"] == "independent" else "random"
        kept = {"rounds": values["rounds"], "schedule": schedule, "partition": partition}
        return others | kept | {"mechanism": "dp-sgd"}
    fixed: dict[str, Any] = {"partition": "random"} if JOIN in values["corpus"] else {"shared": None, "masked": 0.0}
    if JOIN not in values["corpus"] or values["schedule"] != "gradients":
        fixed["together"] = 1.0
    return {**values, **fixed}
