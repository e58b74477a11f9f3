"""Inputs for the requirements; their values are part of the page's link."""

from collections.abc import Sequence

import streamlit as st

from engine.experiments.planner.evidence import Done, deltas, kinds
from engine.experiments.planner.targets import ALL, SCORES, USUAL_DELTA, Measure, Target, Threshold
from engine.reports.numbers import delta_text
from engine.reports.planner import measure_text
from pages.shared import address

_ANY = "any number"
_SEEN = "planner_seen"
"""Session-state key: whether the page was open before. At the first visit F1 is preset, so that a result is shown."""


def target(corpus: str, done: Sequence[Done]) -> Target:
    """Show the inputs and return the target that the user enters.

    Args:
        corpus: Name of the corpus.
        done: The finished runs on the corpus; they determine the choices of δ, clients and entity types.

    Raises:
        InvalidConfig: If the user has entered no requirement.
    """
    if not st.session_state.get(_SEEN) and set(st.query_params) <= {"corpus"}:
        st.session_state["f1"] = 0.8
    st.session_state[_SEEN] = True
    thresholds = _scores(ALL)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        epsilon = st.number_input(
            "Maximum ε", min_value=1e-6, max_value=1e6, value=None, key="epsilon", bind="query-params", width=150
        )
        seconds = st.number_input(
            "Maximum seconds per run", 1, 10_000_000, None, key="seconds", bind="query-params", width=190
        )
        clients = sorted({result.run.config.federation.clients for result in done})
        holders = st.selectbox(
            "Clients",
            [_ANY, *map(_holders, clients)],
            min(1, len(clients)) if clients[:1] == [1] else 0,
            key="held",
            bind="query-params",
            width=170,
        )
        choices = deltas(done) or [USUAL_DELTA]
        delta = choices[0]
        if len(choices) > 1:
            delta = st.selectbox("δ", choices, format_func=delta_text, key="delta", bind="query-params", width=110)
        types = st.multiselect(
            "Entity types with a minimum score", kinds(done), key="types", bind="query-params", width=300
        )
    for kind in types:
        thresholds += _scores(kind)
    return Target(
        corpus=corpus,
        thresholds=tuple(thresholds),
        epsilon=epsilon,
        seconds=seconds,
        delta=delta,
        clients=next((number for number in clients if _holders(number) == holders), None),
    )


def _scores(kind: str) -> list[Threshold]:
    """Show the inputs for the minimum scores of all entities, or of those of a type, and return the ones entered."""
    with st.container(horizontal=True):
        entered = {
            score: st.number_input(
                f"Minimum {address.plain(measure_text(Measure(score, kind)))}",
                min_value=0.01,
                max_value=1.0,
                value=None,
                step=0.01,
                key="-".join(filter(None, (score, kind))),
                bind="query-params",
                width=220,
            )
            for score in SCORES
        }
    return [Threshold(Measure(score, kind), value) for score, value in entered.items() if value is not None]


def _holders(clients: int) -> str:
    return "1 (central training)" if clients == 1 else f"{clients:,} clients"
