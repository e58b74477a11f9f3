"""Steps to older runs: a list has so many rows at once, of so many runs that are looked through at once; all the others
are some steps away, and a search goes on through them until it finds a run."""

from collections.abc import Callable, Sequence

import streamlit as st

from engine.records import Run
from engine.service import Application, Overview
from pages.runs import actions

ROWS = 1_000
"""Of the list."""
LOOKED_AT = 5_000
"""Runs that are looked through at once."""
_FIRST, _PAST = "runs_first_row", "runs_past"
"""Place of the first row among all that were found; and the last runs of the lists that were gone through."""


def looked_at(app: Application) -> list[Overview]:
    """The runs that are looked through: the newest, or older ones where somebody went on to them. Raises StoreError."""
    found = _after(app, _past()[-1] if _past() else None)
    if not found and _past():  # they are deleted
        to_the_newest()
        st.rerun()
    return found


def among(found: Sequence[Overview], number: int) -> str:
    """Which of all runs are looked through, where that is not all of them."""
    looked_at = len(found)
    if _past():
        return f"Of {looked_at:,} older runs, of {number:,} in all: "
    return f"Of the newest {looked_at:,} of {number:,} runs: " if looked_at == LOOKED_AT < number else ""


def to_the_newest() -> None:
    """Begin again, as when something else is looked for."""
    _go(0, ())


def shown(order: Sequence[str]) -> Sequence[str]:
    """Of all that were found, those that are rows."""
    first = _first(order)
    return order[first : first + ROWS]


def steps(app: Application, order: Sequence[str], found: Sequence[Overview], like: Callable[..., bool]) -> None:
    """Where the rows stand among all that were found, and the ways on from them. like: whether one that is looked for
    is among these. Raises StoreError."""
    first, past = _first(order), _past()
    more, full = first + ROWS < len(order), len(found) == LOOKED_AT
    if not (first or past or more or full):
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("Newer", key="runs_newer", disabled=not (first or past), icon=":material/chevron_left:"):
            _go(first - ROWS, past) if first else _go(0, past[:-1])
            st.rerun()
        if st.button("Older", key="runs_older", disabled=not (more or full), icon=":material/chevron_right:"):
            last = None
            if not more:
                with st.spinner("Looking through older runs"):
                    last = _further(app, found[-1].run, like)
            if more or last:
                _go(first + ROWS, past) if more else _go(0, (*past, last))
                st.rerun()
            st.toast("No older run is like that.")
        if order:
            st.caption(f"Rows {first + 1:,} to {min(first + ROWS, len(order)):,} of {len(order):,}.")


def _further(app: Application, last: Run, like: Callable[..., bool]) -> Run | None:
    """The run behind which the next one is that is looked for; None where there is none."""
    while found := _after(app, last):
        if like(found):
            return last
        last = found[-1].run
    return None


def _after(app: Application, last: Run | None) -> list[Overview]:
    return app.queries.overview(LOOKED_AT, repeats=True, before=last)


def _past() -> tuple[Run, ...]:
    return tuple(st.session_state.get(_PAST, ()))


def _first(order: Sequence[str]) -> int:
    first: int = st.session_state.get(_FIRST, 0)
    return first if first < len(order) else 0


def _go(first: int, past: Sequence[Run | None]) -> None:
    st.session_state[_FIRST], st.session_state[_PAST] = first, tuple(past)
    actions.choose_nothing()
