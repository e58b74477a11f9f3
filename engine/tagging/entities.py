"""Names that were found in a text, and which of those that are there were not. Light: pages import it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Entity:
    """A name in a text. start, end: in characters. score: the probability of exactly this name, 1 of one that is known
    to be there."""

    start: int
    end: int
    type: str
    score: float = 1.0


@dataclass(frozen=True)
class Tagged:
    """What one tagger says of one text. spans: start and end of each token, in characters. tags: BIO2, of each token;
    confidence: the probability of each."""

    spans: tuple[tuple[int, int], ...]
    tags: tuple[str, ...]
    confidence: tuple[float, ...]
    entities: tuple[Entity, ...]

    @cached_property
    def inside(self) -> dict[int, Entity]:
        """The entity of each token that is in one."""
        found, number = {}, 0
        for entity in self.entities:
            while self.spans[number][0] < entity.start:
                number += 1
            while number < len(self.spans) and self.spans[number][1] <= entity.end:
                found[number] = entity
                number += 1
        return found


def left(text: str, names: Sequence[Entity], found: Sequence[Entity]) -> list[Entity]:
    """Those of the names of a text of which a letter or digit stays in it once what was found is taken out, of whatever
    type that was taken to be."""
    covered = {place for each in found for place in range(each.start, each.end)}
    return [
        name
        for name in names
        if any(place not in covered and text[place].isalnum() for place in range(name.start, name.end))
    ]
