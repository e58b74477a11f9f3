"""Terminal output of the installation: name and progress of each part, and its duration in seconds at the end.

In a terminal one line is overwritten; in a pipe or a file, lines follow one another without control characters. This
module uses only the standard library, since it is imported before any package is installed.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.setup import Failed

BETWEEN_LINES, BETWEEN_LOOKS = 10.0, 0.2
"""Seconds between two progress messages: as new lines, and as an overwritten line."""
_ERASE = "\r\x1b[2K"


@contextmanager
def part(name: str, *, over: bool) -> Iterator[Callable[[str], None]]:
    """Report one part of the installation; yield a callback that takes its progress in words.

    Args:
        name: Name of the part.
        over: Whether a line may be overwritten, which requires that no other process writes to the terminal.
    """
    begun = reported = time.monotonic()
    over = over and sys.stderr.isatty()
    latest = ""

    def progress(step: str) -> None:
        nonlocal reported, latest
        latest = step
        if time.monotonic() - reported > (BETWEEN_LOOKS if over else BETWEEN_LINES):
            reported = time.monotonic()
            _write(f"{_ERASE}{name}: {step}" if over else f"{name}: {step}\n")

    _write(f"{name} …" if over else f"{name} …\n")
    try:
        yield progress
    except Failed as error:
        _write(f"{_ERASE if over else ''}{name}: failed after {time.monotonic() - begun:.1f} s. {error}\n")
        raise
    took = f"{time.monotonic() - begun:.1f} s"
    _write(f"{_ERASE if over else ''}{name}: {', '.join(filter(None, (latest, took)))}\n")


def say(text: str) -> None:
    """Write a line to the terminal (standard error)."""
    _write(text + "\n")


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
