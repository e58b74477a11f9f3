"""Validation of single fields: InvalidConfig with a message that names the field and the value."""

import sys
from typing import Any

from engine.errors import InvalidConfig


def number(
    name: str, value: Any, low: float, high: float, expected: str, *, low_open: bool = False, high_open: bool = False
) -> None:
    """Check that a value is a finite number within these bounds.

    Args:
        name: Name of the field.
        value: Value of the field.
        low: Smallest valid value.
        high: Largest valid value.
        expected: Description of the valid values in the message.
        low_open: Whether ``low`` itself is invalid.
        high_open: Whether ``high`` itself is invalid.

    Raises:
        InvalidConfig: If the value is not valid.
    """
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if ok:
        ok = (value > low if low_open else value >= low) and (value < high if high_open else value <= high)
    if not ok:
        raise InvalidConfig(f"{name}={value!r}, expected {expected}")


def integer(name: str, value: Any, low: int, high: int) -> None:
    """Check that a value is a whole number from ``low`` to ``high``.

    Args:
        name: Name of the field.
        value: Value of the field.
        low: Smallest valid value.
        high: Largest valid value.

    Raises:
        InvalidConfig: If the value is not valid.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidConfig(f"{name}={value!r}, expected a whole number from {low:,} to {high:,}")


def truth(name: str, value: Any) -> None:
    """Check that a value is true or false.

    Raises:
        InvalidConfig: If the value is not valid.
    """
    if not isinstance(value, bool):
        raise InvalidConfig(f"{name}={value!r}, expected true or false")


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Check that a value is one of those allowed.

    Args:
        name: Name of the field.
        value: Value of the field.
        allowed: The valid values.

    Raises:
        InvalidConfig: If the value is not valid.
    """
    if value not in allowed:
        raise InvalidConfig(f"{name}={value!r}, expected one of {', '.join(allowed)}")


def text(name: str, value: Any) -> None:
    """Check that a value is a name or path of valid length.

    Raises:
        InvalidConfig: If the value is not valid.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > 1000 or "\0" in value:
        raise InvalidConfig(f"{name}={value!r}, expected a name or a path")
