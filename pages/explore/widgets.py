"""Widgets of a configuration's fields, with the label, range and help of the field's declaration.

A widget has its field's name as key, and its initial value from ``start``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from engine.config import PARAMETERS
from engine.config.value_types import Choice, Integer, Number, Switch


def show(start: Mapping[str, Any], name: str, **more: Any) -> None:
    """Show the widget of a field with a declared range: a select box, a toggle or a field for a number.

    Args:
        start: Initial values by key.
        name: Name of the field.
        **more: Further arguments of the Streamlit widget.
    """
    parameter = PARAMETERS[name]
    values = parameter.values
    more = {"key": name, "help": parameter.widget_help} | more
    match values:
        case Choice():
            select(start, name, [None, *values.names] if values.optional else list(values.names), **more)
        case Switch():
            st.toggle(parameter.label, start[name], **more)
        case Integer():
            _number(start, name, values.low, values.high, **more)
        case Number():
            least = values.low if values.least is None else values.least
            most = values.high if values.most is None else values.most
            _number(start, name, float(least), float(most), step=values.step, format=values.format, **more)
        case _:
            raise TypeError(f"{name} has no declared values: its page chooses the options")


def select(start: Mapping[str, Any], name: str, options: Sequence[Any], **more: Any) -> None:
    """Show a select box; choose its first option if another field has made the chosen value unavailable.

    Args:
        start: Initial values by key.
        name: Name of the field.
        options: The values to choose from.
        **more: Further arguments of ``st.selectbox``.
    """
    parameter = PARAMETERS[name]
    if st.session_state.get(name, start[name]) not in options:
        st.session_state[name] = options[0]
    index = list(options).index(start[name]) if start[name] in options else 0
    more = {"key": name, "help": parameter.widget_help, "format_func": parameter.option_label} | more
    st.selectbox(parameter.label, options, index, **more)


def slider(start: Mapping[str, Any], name: str, usual: Sequence[Any], **more: Any) -> None:
    """Show a slider with the usual values of a field, its initial one, and one that another widget has set.

    Args:
        start: Initial values by key.
        name: Name of the field.
        usual: The usual values.
        **more: Further arguments of ``st.select_slider``.
    """
    parameter = PARAMETERS[name]
    options = sorted({*usual, start[name], st.session_state.get(name, start[name])})
    st.select_slider(parameter.label, options, start[name], key=name, help=parameter.widget_help, **more)


def _number(start: Mapping[str, Any], name: str, least: float, most: float, **more: Any) -> None:
    label, key = more.pop("label", PARAMETERS[name].label), more["key"]
    if PARAMETERS[name].values.optional:
        more["placeholder"] = PARAMETERS[name].option_label(None)
    st.number_input(label, least, most, start[key], **more)
