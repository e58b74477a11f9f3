"""The controls of a federation, in the sidebar: who holds the data, who travels where, who must be trusted."""

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
"""Of a FederationConfig; their widgets have the same keys."""
SCHEDULE_NAMES = {
    "averaging": "on all it has",
    "incremental": "on its next piece",
    "gradients": "one step: gradients",
}
PARTITION_NAMES = {
    "random": "at random, equal",
    "unequal": "at random, unequal",
    "label-skew": "by entity type, skewed",
    "document": "whole documents",
    "natural": "the corpus's own sections",
}
WEIGHTING_NAMES = {None: "as the mechanism wants", "examples": "by sentences", "equal": "equal"}


def choose(start: Mapping[str, Any], usual_clients: list[int]) -> None:
    """The widgets; ``start`` has their first values by key."""
    state = st.session_state
    if platforms := len(state.corpus.split(JOIN)) - 1:
        state.clients = platforms + 1
        st.caption(
            f"{state.clients} platforms, each with a corpus and entity types of its own. They share the layers below "
            "their tags, which a server averages, and keep the rest to themselves."
        )
        return
    st.select_slider(
        "Clients",
        usual_clients,
        start["clients"],
        key="clients",
        format_func=lambda clients: f"{clients:,}",
        help="Parties that the training sentences are split over. Each trains on its own, and a server averages.",
    )
    if state.clients == 1:
        st.caption("One party has all the sentences: central training.")
        return
    mechanism = state.get("mechanism", start["mechanism"])
    st.caption(f"{state.clients:,} parties train, a server averages their weights. {MECHANISMS[mechanism].note}")


def advanced(start: Mapping[str, Any]) -> None:
    """The rest, behind an expander; what means nothing for a single client cannot be moved."""
    alone = st.session_state.clients == 1
    with st.expander("Federation", icon=":material/hub:"):
        mechanisms = {name: kind.title for name, kind in MECHANISMS.items()}
        select(start, "Noise is added", list(MECHANISMS), "mechanism", names=mechanisms, disabled=alone)
        number(start, "Communication rounds", 1, 100_000, "rounds")
        select(start, "A client trains in a round", SCHEDULES, "schedule", names=SCHEDULE_NAMES)
        number(
            start,
            "Clients in a round",
            1,
            100_000,
            "participants",
            placeholder="all",
            disabled=alone,
            help="Drawn anew for each round.",
        )
        platforms = JOIN in st.session_state.corpus
        select(
            start, "Sentences are split", PARTITIONS, "partition", names=PARTITION_NAMES, disabled=alone or platforms
        )
        number(
            start,
            "Skew α",
            0.001,
            1000.0,
            "skew",
            format="%g",
            disabled=alone or st.session_state.partition != "label-skew",
            help="Of the split by entity type: the smaller, the more each client has a mix of its own.",
        )
        select(start, "Updates are averaged", (None, *WEIGHTINGS), "weighting", names=WEIGHTING_NAMES, disabled=alone)
        if platforms:
            select(
                start,
                "Platforms share",
                _splits(start["shared"]),
                "shared",
                format_func=titles.shared,
                help="Parts of the tagger, from below to above. What is shared, a server joins; the rest never leaves.",
            )
            number(
                start,
                "Common names masked",
                0.0,
                1.0,
                "masked",
                step=0.25,
                help="Share of the names that several platforms train on whose words are masked in training: how much "
                "of what sharing gives is these names?",
            )
            number(
                start,
                "Together for",
                0.01,
                1.0,
                "together",
                step=0.1,
                disabled=st.session_state.schedule != "gradients",
                help="Share of the steps after which each platform goes on alone, from what all have learned. Where "
                "gradients travel.",
            )


def _splits(first: str | None) -> list[str | None]:
    """What may be shared of the tagger that is chosen, and what the session's link asks for."""
    parts = splits_of(st.session_state.tagger)
    found: list[str | None] = [None, NOTHING, *(",".join(parts[:end]) for end in range(1, len(parts) + 1))]
    known = first is None or first in found or not set(first.split(",")).issubset(parts)
    return found if known else [*found, first]


def chosen() -> tuple[FederationConfig, str]:
    """What the widgets say, and the mechanism. Raises InvalidConfig."""
    state = st.session_state
    if state.clients == 1:
        schedule = "averaging" if state.schedule == "gradients" else state.schedule
        return FederationConfig(rounds=state.rounds, schedule=schedule), "dp-sgd"
    fixed: dict[str, Any] = {"partition": "random"} if JOIN in state.corpus else {"shared": None, "masked": 0.0}
    if JOIN not in state.corpus or state.schedule != "gradients":
        fixed["together"] = 1.0
    return FederationConfig(**{name: state[name] for name in FIELDS if name not in fixed} | fixed), state.mechanism
