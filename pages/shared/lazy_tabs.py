"""Tabs of which only the open one is drawn: a page with several charts and tables then costs the server one of them."""

from collections.abc import Iterator, Sequence

import streamlit as st


def opened(names: Sequence[str], *, key: str, default: str | None = None) -> Iterator[str]:
    """Show tabs, and yield the name of the open one inside it.

    Args:
        names: Names of the tabs.
        key: Key of the tabs in the session.
        default: The tab that is open first; by default the first one.
    """
    for name, tab in zip(names, st.tabs(names, key=key, default=default, on_change="rerun"), strict=True):
        if tab.open:
            with tab:
                yield name
