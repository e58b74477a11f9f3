"""Widgets of a configuration's fields: each has the field's name as key, and its first value from ``start``."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st


def select(start: Mapping[str, Any], label: str, options: Sequence[Any], key: str, **more: Any) -> None:
    """A choice; ``names`` among ``more`` says what the options are called. Where what is chosen is no longer among the
    options, since they depend on another choice, it is the first of them."""
    if names := more.pop("names", None):
        more["format_func"] = names.__getitem__
    if st.session_state.get(key, start[key]) not in options:
        st.session_state[key] = options[0]
    st.selectbox(label, options, list(options).index(start[key]) if start[key] in options else 0, key=key, **more)


def number(start: Mapping[str, Any], label: str, least: float, most: float, key: str, **more: Any) -> None:
    """A number from ``least`` to ``most``."""
    st.number_input(label, least, most, start[key], key=key, **more)
