"""Tabs of which only the open one is drawn: a page with several charts and tables then costs the server one of them."""

from collections.abc import Collection, Iterator, Sequence

import streamlit as st


def opened(
    names: Sequence[str],
    *,
    key: str,
    default: str | None = None,
    always: Collection[str] = (),
    kept: Collection[str] = (),
) -> Iterator[str]:
    """Show tabs, and yield the name of the open one inside it. It stays open if other tabs come or go.

    Args:
        names: Names of the tabs.
        key: Key of the tabs in the session.
        default: Name of the tab that is open initially; None is the first.
        always: Names of tabs that are drawn in any case.
        kept: Keys of widgets in the tabs, whose values Streamlit would forget while their tab is closed.
    """
    before, last, again = st.session_state.get(f"{key}_last", ((), None, None))
    if before != tuple(names):  # other tabs are new to Streamlit, which would open the first
        again = last if last in names else None
    for widget in kept:
        if widget in st.session_state:
            st.session_state[widget] = st.session_state[widget]
    tabs = st.tabs(names, key=key, default=again or default, on_change="rerun")
    opened_now = next((name for name, tab in zip(names, tabs, strict=True) if tab.open), None)
    st.session_state[f"{key}_last"] = tuple(names), opened_now, again
    for name, tab in zip(names, tabs, strict=True):
        if tab.open or name in always:
            with tab:
                yield name
