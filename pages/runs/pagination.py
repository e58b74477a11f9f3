"""Pages of the list of runs: a limited number of rows, from a limited number of runs that are searched at a time.

The buttons lead to older and newer runs; a search continues through older runs until it finds a match.
"""

from collections.abc import Callable, Sequence

import streamlit as st

from engine.records import Run
from engine.service import Application, Overview
from pages.runs import actions

ROWS = 1_000
"""Maximum number of rows of the list."""
LOOKED_AT = 5_000
"""Maximum number of runs that are searched at a time."""
_FIRST, _PAST = "runs_first_row", "runs_past"
"""Session keys: index of the first row among the matches, and the last run of each batch of newer runs."""


def searched_runs(app: Application) -> list[Overview]:
    """Return the batch of runs to search: the newest runs, or older ones if the user has moved on.

    Raises:
        StoreError: The database failed.
    """
    found = _after(app, _past()[-1] if _past() else None)
    if not found and _past():  # these runs were deleted
        go_to_newest()
        st.rerun()
    return found


def scope(found: Sequence[Overview], number: int) -> str:
    """Return which of all runs are searched, as the start of a sentence; empty if all are."""
    searched = len(found)
    if _past():
        return f"{searched:,} older runs of {number:,} in total: "
    return f"Newest {searched:,} of {number:,} runs: " if searched == LOOKED_AT < number else ""


def go_to_newest() -> None:
    """Return to the newest runs, for example after a change of the search."""
    _go(0, ())


def page_of(order: Sequence[str]) -> Sequence[str]:
    """Return the matches that are rows of the current page."""
    first = _first(order)
    return order[first : first + ROWS]


def steps(app: Application, order: Sequence[str], found: Sequence[Overview], like: Callable[..., bool]) -> None:
    """Show the range of the rows and the buttons to newer and older runs, if there are more.

    Args:
        app: The application service.
        order: Run identities of all matches.
        found: The runs that were searched.
        like: Returns whether there is a match among runs.

    Raises:
        StoreError: The database failed.
    """
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
                with st.spinner("Searching older runs …"):
                    last = _find_older(app, found[-1].run, like)
            if more or last:
                _go(first + ROWS, past) if more else _go(0, (*past, last))
                st.rerun()
            st.toast("No older run matches.")
        if order:
            st.caption(f"Rows {first + 1:,} to {min(first + ROWS, len(order)):,} of {len(order):,}.")


def _find_older(app: Application, last: Run, like: Callable[..., bool]) -> Run | None:
    """Return the run before the next batch with a match, or None if no older run matches."""
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
    actions.clear_selection()
