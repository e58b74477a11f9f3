"""Texts to try taggers on, whose names are known: ``examples.txt``. Light: pages import it."""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine.tagging.entities import Entity

FILE = Path(__file__).with_name("examples.txt")
_NAME = re.compile(r"\[([A-Z]+) ([^\]]+)\]")


@dataclass(frozen=True)
class Example:
    """A text. title: kind and subject, as in "Letter: To the landlord". names: those that are in it, in order."""

    title: str
    text: str
    names: tuple[Entity, ...]


@lru_cache(maxsize=1)
def examples() -> dict[str, Example]:
    """All of them by title, in the order of the file."""
    _, *parts = re.split(r"^= (.+)\n", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {title: _read(title, marked.strip()) for title, marked in zip(parts[::2], parts[1::2], strict=True)}


def _read(title: str, marked: str) -> Example:
    """The text without brackets, and what stood in them."""
    names: list[Entity] = []
    text, at = "", 0
    for found in _NAME.finditer(marked):
        text += marked[at : found.start()]
        names.append(Entity(len(text), len(text) + len(found[2]), found[1]))
        text += found[2]
        at = found.end()
    return Example(title, text + marked[at:], tuple(names))
