"""Entities found in a text, and the entities that a tagger missed. Light to import, for pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Entity:
    """An entity in a text.

    Attributes:
        start: First character.
        end: Character after the last one.
        type: Entity type.
        score: Probability of exactly this entity; 1 for annotated ones.
    """

    start: int
    end: int
    type: str
    score: float = 1.0


@dataclass(frozen=True)
class Tagged:
    """Output of one tagger for one text.

    Attributes:
        spans: Start and end of each token, in characters.
        tags: BIO2 tag of each token.
        confidence: Probability of each tag.
        entities: The entities in order.
    """

    spans: tuple[tuple[int, int], ...]
    tags: tuple[str, ...]
    confidence: tuple[float, ...]
    entities: tuple[Entity, ...]

    @cached_property
    def inside(self) -> dict[int, Entity]:
        """The entity of each token within one, by token index."""
        result, number = {}, 0
        for entity in self.entities:
            while self.spans[number][0] < entity.start:
                number += 1
            while number < len(self.spans) and self.spans[number][1] <= entity.end:
                result[number] = entity
                number += 1
        return result


def left(text: str, names: Sequence[Entity], found: Sequence[Entity]) -> list[Entity]:
    """Return the entities of which a letter or digit remains once the found entities are removed, of any type.

    Args:
        text: The text.
        names: Entities that the text contains.
        found: Entities that were found.
    """
    covered = {index for entity in found for index in range(entity.start, entity.end)}
    return [
        name
        for name in names
        if any(index not in covered and text[index].isalnum() for index in range(name.start, name.end))
    ]
