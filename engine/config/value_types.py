"""Types and ranges of configuration fields: each validates a value, and reads one from the text of a link."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from engine import validation


@dataclass(frozen=True, kw_only=True)
class ValueType(ABC):
    """The valid values of a field.

    Attributes:
        optional: Whether None is valid too.
    """

    python: ClassVar[type]
    """The Python type, for command-line options."""
    optional: bool = False

    def check(self, name: str, value: Any) -> Any:
        """Return the value that a configuration stores. Raises InvalidConfig if the value of ``name`` is not valid."""
        if self.optional and value is None:
            return None
        self._check(name, value)
        return self.python(value)

    def parse(self, text: str) -> Any:
        """Return the value of a text in a link; "none" is None. Raises ValueError; the range is not checked."""
        return None if self.optional and text == "none" else self._parse(text)

    @abstractmethod
    def _check(self, name: str, value: Any) -> None:
        """Raise InvalidConfig if the value is not valid."""

    def _parse(self, text: str) -> Any:
        return self.python(text)


@dataclass(frozen=True, kw_only=True)
class Integer(ValueType):
    """A whole number from ``low`` to ``high``."""

    python = int
    low: int
    high: int

    def _check(self, name: str, value: Any) -> None:
        validation.integer(name, value, self.low, self.high)


@dataclass(frozen=True, kw_only=True)
class Number(ValueType):
    """A finite number from ``low`` to ``high``.

    Attributes:
        low: Smallest valid value.
        high: Largest valid value.
        low_open: Whether ``low`` itself is invalid.
        high_open: Whether ``high`` itself is invalid.
        least: Smallest value of the widget, if ``low`` is invalid.
        most: Largest value of the widget, if ``high`` is invalid.
        step: Step of the widget.
        format: Format of the value in the widget.
    """

    python = float
    low: float
    high: float
    low_open: bool = False
    high_open: bool = False
    least: float | None = None
    most: float | None = None
    step: float | None = None
    format: str = "%g"

    @cached_property
    def expected(self) -> str:
        """Description of the valid values in error messages."""
        low, high = f"{self.low:.10g}", f"{self.high:.10g}"
        if self.low_open and self.high_open:
            return f"a number between {low} and {high}"
        if self.low_open or self.high_open:
            return f"a number in {'(' if self.low_open else '['}{low}, {high}{')' if self.high_open else ']'}"
        return f"a number from {low} to {high}"

    def _check(self, name: str, value: Any) -> None:
        validation.number(
            name, value, self.low, self.high, self.expected, low_open=self.low_open, high_open=self.high_open
        )


@dataclass(frozen=True, kw_only=True)
class Choice(ValueType):
    """One of some names.

    Attributes:
        names: Valid names. Those of a registry, such as that of the taggers, are read at each use.
    """

    python = str
    names: Collection[str]

    def _check(self, name: str, value: Any) -> None:
        validation.one_of(name, value, tuple(self.names))


@dataclass(frozen=True, kw_only=True)
class Switch(ValueType):
    """True or false; "yes" or "no" in a link."""

    python = bool

    def _check(self, name: str, value: Any) -> None:
        validation.truth(name, value)

    def _parse(self, text: str) -> bool:
        if text not in ("yes", "no"):
            raise ValueError(text)
        return text == "yes"


@dataclass(frozen=True, kw_only=True)
class Text(ValueType):
    """A name or a path."""

    python = str

    def _check(self, name: str, value: Any) -> None:
        validation.text(name, value)
