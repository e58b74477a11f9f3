"""Entities that one tagger misses in a text: annotated ones, or those that others find.

Light to import, for pages.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.tagging.entities import Entity, Tagged


@dataclass(frozen=True)
class Name:
    """An entity and the taggers that find it; none where it is annotated."""

    entity: Entity
    by: tuple[str, ...] = ()


def of_others(which: str, tagged: Mapping[str, Tagged]) -> list[Name]:
    """Return the entities that the other taggers find, in order; equal ones are merged."""
    taggers: dict[tuple[int, int, str], list[str]] = {}
    for other, result in tagged.items():
        for entity in result.entities if other != which else ():
            taggers.setdefault((entity.start, entity.end, entity.type), []).append(other)
    return [Name(Entity(*span), tuple(by)) for span, by in sorted(taggers.items())]


def gaps(text: str, tagged: Tagged, names: Sequence[Name]) -> dict[int, Name]:
    """Return the tokens of an entity that the tagger leaves in the text, each with the first such entity.

    Punctuation alone does not count.

    Args:
        text: The text.
        tagged: Output of the tagger.
        names: Entities that the text contains.
    """
    starts = [start for start, _ in tagged.spans]
    missed: dict[int, Name] = {}
    for name in names:
        for number in range(bisect_left(starts, name.entity.start), len(starts)):
            start, end = tagged.spans[number]
            if start >= name.entity.end:
                break
            if tagged.tags[number] == "O" and any(map(str.isalnum, text[start:end])):
                missed.setdefault(number, name)
    return missed
