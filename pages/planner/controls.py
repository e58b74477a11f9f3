"""What is needed, as inputs that stand in the link."""

from collections.abc import Sequence

import streamlit as st

from engine.experiments.planner.evidence import Done, deltas, kinds
from engine.experiments.planner.targets import ALL, SCORES, USUAL_DELTA, Measure, Target, Threshold
from engine.reports.numbers import delta_text
from engine.reports.planner import measure_text

_ANY = "any number"
_SEEN = "planner_seen"
"""Whether the page was open in this session: at first it asks for something, so that there is an answer to look at."""


def target(corpus: str, found: Sequence[Done]) -> Target:
    """What the reader needs of a corpus with these finished runs. Raises InvalidConfig where nothing is asked for."""
    if not st.session_state.get(_SEEN) and set(st.query_params) <= {"corpus"}:
        st.session_state["f1"] = 0.8
    st.session_state[_SEEN] = True
    thresholds = _scores(ALL)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        epsilon = st.number_input(
            "ε at most", min_value=1e-6, max_value=1e6, value=None, key="epsilon", bind="query-params", width=150
        )
        seconds = st.number_input(
            "Seconds a run, at most", 1, 10_000_000, None, key="seconds", bind="query-params", width=190
        )
        clients = sorted({each.run.config.federation.clients for each in found})
        held = st.selectbox(
            "Data held by",
            [_ANY, *map(_holders, clients)],
            min(1, len(clients)) if clients[:1] == [1] else 0,
            key="held",
            bind="query-params",
            width=170,
        )
        known = deltas(found) or [USUAL_DELTA]
        delta = known[0]
        if len(known) > 1:
            delta = st.selectbox("δ", known, format_func=delta_text, key="delta", bind="query-params", width=110)
        types = st.multiselect("Also of names of type", kinds(found), key="types", bind="query-params", width=300)
    for kind in types:
        thresholds += _scores(kind)
    return Target(
        corpus=corpus,
        thresholds=tuple(thresholds),
        epsilon=epsilon,
        seconds=seconds,
        delta=delta,
        clients=next((number for number in clients if _holders(number) == held), None),
    )


def _scores(kind: str) -> list[Threshold]:
    """Of all names, or of a type."""
    with st.container(horizontal=True):
        asked = {
            score: st.number_input(
                f"{measure_text(Measure(score, kind))} at least",
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
    return [Threshold(Measure(score, kind), value) for score, value in asked.items() if value is not None]


def _holders(clients: int) -> str:
    return "one party" if clients == 1 else f"{clients:,} clients"
