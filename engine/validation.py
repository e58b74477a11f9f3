"""Checks of single fields, each with a sentence that names the field and the value: InvalidConfig."""

import sys
from typing import Any

from engine.errors import InvalidConfig


def number(
    name: str, value: Any, low: float, high: float, expected: str, *, low_open: bool = False, high_open: bool = False
) -> None:
    """A finite number within these bounds; expected: what the sentence says of them."""
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if ok:
        ok = (value > low if low_open else value >= low) and (value < high if high_open else value <= high)
    if not ok:
        raise InvalidConfig(f"{name}={value!r}, expected {expected}")


def integer(name: str, value: Any, low: int, high: int) -> None:
    """A whole number from low to high."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidConfig(f"{name}={value!r}, expected a whole number from {low:,} to {high:,}")


def truth(name: str, value: Any) -> None:
    """True or false."""
    if not isinstance(value, bool):
        raise InvalidConfig(f"{name}={value!r}, expected true or false")


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """One of the allowed values."""
    if value not in allowed:
        raise InvalidConfig(f"{name}={value!r}, expected one of {', '.join(allowed)}")


def text(name: str, value: Any) -> None:
    """A name or a path that can stand in a configuration."""
    if not isinstance(value, str) or not value.strip() or len(value) > 1000 or "\0" in value:
        raise InvalidConfig(f"{name}={value!r}, expected a name or a path")
