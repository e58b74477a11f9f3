"""Declaration of a configuration field, from which validation, options, widgets, links and titles are derived.

It is the metadata of the field in its dataclass: ``field(default=…, metadata=Parameter(…).metadata)``.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from engine.config.value_types import ValueType

_KEY = "parameter"
"""Key of the declaration in the metadata of a field."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """Valid values of a field, and its texts.

    Attributes:
        values: Type and range.
        label: Label of its widget.
        option_help: Help of its command-line option.
        widget_help: Help of its widget.
        heading: Heading of a column, and name before its value in a title; by default the field's name.
        option_names: Names of its command-line option, the first one preferred; by default the field's name.
        titles: Titles of single values.
        labels: Titles of single values in its widget, if they differ from ``titles``.
        unit: Text after a number in titles. With "%", the value is a fraction and appears in per cent.
        self_explanatory: Whether a title shows its value without ``heading``.
        proposed: Value that pages, commands and sweeps propose, if it is not the default of the field, which is the
            value in links and files of earlier versions that do not name the field.
    """

    values: ValueType
    label: str
    option_help: str
    widget_help: str | None = None
    heading: str = ""
    option_names: tuple[str, ...] = ()
    titles: Mapping[Any, str] = field(default_factory=dict)
    labels: Mapping[Any, str] = field(default_factory=dict)
    unit: str = ""
    self_explanatory: bool = False
    proposed: Any = None

    @property
    def metadata(self) -> dict[str, Any]:
        """This declaration as metadata of a dataclass field."""
        return {_KEY: self}

    def title(self, value: Any) -> str:
        """Return a value as text in titles and tables."""
        if value in self.titles:
            return self.titles[value]
        if self.unit.startswith("%"):
            value = 100 * value
        text = f"{value:g}" if isinstance(value, float) else str(value)
        return f"{text} {self.unit}" if self.unit else text

    def option_label(self, value: Any) -> str:
        """Return the text of a value among the options of its widget."""
        return self.labels[value] if value in self.labels else self.title(value)


@lru_cache
def parameters_of(part: type) -> Mapping[str, Parameter]:
    """Return the declared fields of a dataclass, in their order."""
    return {own.name: own.metadata[_KEY] for own in dataclasses.fields(part) if _KEY in own.metadata}


def check_fields(config: Any, **flat_names: str) -> None:
    """Check the declared fields of a frozen dataclass, and set numbers to their type.

    Args:
        config: The instance.
        **flat_names: Names of fields in messages, if they differ from their names in the instance.

    Raises:
        InvalidConfig: If a value is not valid.
    """
    kind: type = type(config)
    for name, parameter in parameters_of(kind).items():
        given = getattr(config, name)
        value = parameter.values.check(flat_names.get(name, name), given)
        if value is not given:
            object.__setattr__(config, name, value)
