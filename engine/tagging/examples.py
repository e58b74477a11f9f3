"""Annotated example texts: ``examples.txt``. Light to import, for pages."""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine.tagging.entities import Entity

FILE = Path(__file__).with_name("examples.txt")
_NAME = re.compile(r"\[([A-Z]+) ([^\]]+)\]")


@dataclass(frozen=True)
class Example:
    """An annotated text.

    Attributes:
        title: Kind and subject, as in "Letter: To the landlord".
        text: The text.
        names: Its entities, in order.
    """

    title: str
    text: str
    names: tuple[Entity, ...]


@lru_cache(maxsize=1)
def examples() -> dict[str, Example]:
    """Return all examples by title, in the order of the file."""
    _, *parts = re.split(r"^= (.+)\n", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {title: _read(title, marked.strip()) for title, marked in zip(parts[::2], parts[1::2], strict=True)}


def _read(title: str, marked: str) -> Example:
    """Return the text without brackets, and the entities in them."""
    names: list[Entity] = []
    text, position = "", 0
    for match in _NAME.finditer(marked):
        text += marked[position : match.start()]
        names.append(Entity(len(text), len(text) + len(match[2]), match[1]))
        text += match[2]
        position = match.end()
    return Example(title, text + marked[position:], tuple(names))
