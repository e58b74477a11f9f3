"""What set-up says in the terminal: each part's name, how far it is, and at its end the seconds that it took.

Where a person looks on, one line is written over; in a pipe, or a file, lines follow one another and have no control
characters. Only the standard library: it speaks before any package is there.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.setup import Failed

BETWEEN_LINES, BETWEEN_LOOKS = 10.0, 0.2
"""Seconds between two signs of progress: lines that stay, and a line that is written over."""
_ERASE = "\r\x1b[2K"


@contextmanager
def part(name: str, *, over: bool) -> Iterator[Callable[[str], None]]:
    """Tell of one part of set-up; gives what is called with its progress, in words. over: whether a line may be written
    over, which is for who has the terminal alone. Raises what the block raises."""
    begun = shown = time.monotonic()
    over = over and sys.stderr.isatty()
    last = ""

    def progress(step: str) -> None:
        nonlocal shown, last
        last = step
        if time.monotonic() - shown > (BETWEEN_LOOKS if over else BETWEEN_LINES):
            shown = time.monotonic()
            _write(f"{_ERASE}{name}: {step}" if over else f"{name}: {step}\n")

    _write(f"{name} …" if over else f"{name} …\n")
    try:
        yield progress
    except Failed as error:
        _write(f"{_ERASE if over else ''}{name}: failed after {time.monotonic() - begun:.1f} s. {error}\n")
        raise
    took = f"{time.monotonic() - begun:.1f} s"
    _write(f"{_ERASE if over else ''}{name}: {', '.join(filter(None, (last, took)))}\n")


def say(text: str) -> None:
    """Tell the person in front of the terminal."""
    _write(text + "\n")


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
