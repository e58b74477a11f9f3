"""Controls of a federation in the sidebar: clients, their data, local training and aggregation."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from engine.config import JOIN, NOTHING, PARTITIONS, SCHEDULES, WEIGHTINGS, FederationConfig
from engine.privacy.mechanism_registry import MECHANISMS
from engine.taggers import splits_of
from pages.explore.widgets import number, select
from pages.shared import titles

CLIENTS = (1, 2, 5, 10, 15, 20, 50, 100, 200)
FIELDS = (
    "clients",
    "participants",
    "rounds",
    "schedule",
    "partition",
    "skew",
    "weighting",
    "shared",
    "masked",
    "together",
)
"""Fields of a FederationConfig; their widgets have the same keys."""
SCHEDULE_NAMES = {
    "averaging": "All local data",
    "incremental": "Next part of the local data",
    "gradients": "One gradient step",
}
PARTITION_NAMES = {
    "random": "Random, equal sizes",
    "unequal": "Random, unequal sizes",
    "label-skew": "Label skew (entity types)",
    "document": "By document",
    "natural": "By section of the corpus",
}
WEIGHTING_NAMES = {None: "Default of the mechanism", "examples": "Number of sentences", "equal": "Equal"}


def choose(start: Mapping[str, Any], usual_clients: list[int]) -> None:
    """Show the number of clients.

    Args:
        start: Initial values of the widgets, by key.
        usual_clients: Steps of the slider.
    """
    state = st.session_state
    if joins := len(state.corpus.split(JOIN)) - 1:
        state.clients = joins + 1
        st.caption(
            f"{state.clients} clients (silos), each with its own corpus and entity types. A server averages their "
            "shared layers; the private head of each silo never leaves it."
        )
        return
    st.select_slider(
        "Clients",
        usual_clients,
        start["clients"],
        key="clients",
        format_func=lambda clients: f"{clients:,}",
        help="Number of clients that hold the training sentences. Each trains locally, and a server averages the "
        "results. 1: central training.",
    )
    if state.clients == 1:
        st.caption("Central training: one client has all sentences.")
        return
    mechanism = state.get("mechanism", start["mechanism"])
    st.caption(f"{state.clients:,} clients train; a server averages their weights. {MECHANISMS[mechanism].note}")


def advanced(start: Mapping[str, Any]) -> None:
    """Show the other fields in an expander; fields without effect on a single client are disabled."""
    is_central = st.session_state.clients == 1
    with st.expander("Federation", icon=":material/hub:"):
        mechanisms = {name: kind.title for name, kind in MECHANISMS.items()}
        select(start, "Noise mechanism", list(MECHANISMS), "mechanism", names=mechanisms, disabled=is_central)
        number(start, "Communication rounds", 1, 100_000, "rounds")
        select(
            start,
            "Local training per round",
            SCHEDULES,
            "schedule",
            names=SCHEDULE_NAMES,
            help="What each client trains on in a round.",
        )
        number(
            start,
            "Participants per round",
            1,
            100_000,
            "participants",
            placeholder="all",
            disabled=is_central,
            help="Number of clients that are sampled for each round.",
        )
        has_silos = JOIN in st.session_state.corpus
        select(
            start,
            "Data partition",
            PARTITIONS,
            "partition",
            names=PARTITION_NAMES,
            disabled=is_central or has_silos,
            help="How the training sentences are split among the clients.",
        )
        number(
            start,
            "Skew α",
            0.001,
            1000.0,
            "skew",
            format="%g",
            disabled=is_central or st.session_state.partition != "label-skew",
            help="For label skew: smaller values give clients more different mixes of entity types.",
        )
        select(
            start,
            "Aggregation weights",
            (None, *WEIGHTINGS),
            "weighting",
            names=WEIGHTING_NAMES,
            disabled=is_central,
            help="Weight of each client's update in the average.",
        )
        if has_silos:
            select(
                start,
                "Shared layers",
                _splits(start["shared"]),
                "shared",
                format_func=titles.shared,
                help="Layers of the model, from the bottom up. The server aggregates the shared layers; all others "
                "stay private.",
            )
            number(
                start,
                "Entity masking",
                0.0,
                1.0,
                "masked",
                step=0.25,
                help="Fraction, 0 to 1, of the entities in several silos' training data whose tokens are masked in "
                "training. It shows how much of the gain from sharing is due to these entities. Only without noise.",
            )
            number(
                start,
                "Joint training",
                0.01,
                1.0,
                "together",
                step=0.1,
                disabled=st.session_state.schedule != "gradients",
                help="Fraction, 0 to 1, of the steps that all silos train together; after that each silo continues "
                "separately. Only with one gradient step per round.",
            )


def _splits(first: str | None) -> list[str | None]:
    """Return the possible sets of shared layers of the chosen model, and the one in the session's link."""
    parts = splits_of(st.session_state.tagger)
    options: list[str | None] = [None, NOTHING, *(",".join(parts[:end]) for end in range(1, len(parts) + 1))]
    is_option = first is None or first in options or not set(first.split(",")).issubset(parts)
    return options if is_option else [*options, first]


def chosen() -> tuple[FederationConfig, str]:
    """Return the federation and the mechanism of the widgets.

    Raises:
        InvalidConfig: A value is not valid.
    """
    state = st.session_state
    if state.clients == 1:
        schedule = "averaging" if state.schedule == "gradients" else state.schedule
        return FederationConfig(rounds=state.rounds, schedule=schedule), "dp-sgd"
    fixed: dict[str, Any] = {"partition": "random"} if JOIN in state.corpus else {"shared": None, "masked": 0.0}
    if JOIN not in state.corpus or state.schedule != "gradients":
        fixed["together"] = 1.0
    return FederationConfig(**{name: state[name] for name in FIELDS if name not in fixed} | fixed), state.mechanism
