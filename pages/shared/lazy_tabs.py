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
    """Show tabs, and yield the name of the open one inside it.

    Args:
        names: Names of the tabs.
        key: Key of the tabs in the session.
        default: Name of the tab that is open initially; None is the first.
        always: Names of tabs that are drawn in any case.
        kept: Keys of widgets in the tabs, whose values Streamlit would forget while their tab is closed.
    """
    for widget in kept:
        if widget in st.session_state:
            st.session_state[widget] = st.session_state[widget]
    for name, tab in zip(names, st.tabs(names, key=key, default=default, on_change="rerun"), strict=True):
        if tab.open or name in always:
            with tab:
                yield name
