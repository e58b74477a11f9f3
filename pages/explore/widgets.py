"""Widgets of a configuration's fields: a widget has its field's name as key, and its initial value from ``start``."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st


def select(start: Mapping[str, Any], label: str, options: Sequence[Any], key: str, **more: Any) -> None:
    """Show a select box; choose its first option if another field has made the chosen value unavailable.

    Args:
        start: Initial values by key.
        label: Label of the widget.
        options: The values to choose from.
        key: Name of the field.
        **more: Further arguments of ``st.selectbox``; ``names`` maps the options to their titles.
    """
    if names := more.pop("names", None):
        more["format_func"] = names.__getitem__
    if st.session_state.get(key, start[key]) not in options:
        st.session_state[key] = options[0]
    st.selectbox(label, options, list(options).index(start[key]) if start[key] in options else 0, key=key, **more)


def number(start: Mapping[str, Any], label: str, least: float, most: float, key: str, **more: Any) -> None:
    """Show a field for a number.

    Args:
        start: Initial values by key.
        label: Label of the widget.
        least: Minimum.
        most: Maximum.
        key: Name of the field.
        **more: Further arguments of ``st.number_input``.
    """
    st.number_input(label, least, most, start[key], key=key, **more)
