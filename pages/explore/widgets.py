"""Widgets of a configuration's fields: each has the field's name as key, and its first value from ``start``."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st


def select(start: Mapping[str, Any], label: str, options: Sequence[Any], key: str, **more: Any) -> None:
    """A choice; ``names`` among ``more`` says what the options are called."""
    if names := more.pop("names", None):
        more["format_func"] = names.__getitem__
    st.selectbox(label, options, list(options).index(start[key]), key=key, **more)


def number(start: Mapping[str, Any], label: str, least: float, most: float, key: str, **more: Any) -> None:
    """A number from ``least`` to ``most``."""
    st.number_input(label, least, most, start[key], key=key, **more)
