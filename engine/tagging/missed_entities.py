"""What one tagger misses in a text: of the names that are known to be there, or of those that others find. Light: pages
import it."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.tagging.entities import Entity, Tagged


@dataclass(frozen=True)
class Name:
    """A name that somebody finds. by: which taggers; none where it is known to be there."""

    entity: Entity
    by: tuple[str, ...] = ()


def of_others(which: str, tagged: Mapping[str, Tagged]) -> list[Name]:
    """The names that the other taggers find, by place; those that several find alike are one."""
    found: dict[tuple[int, int, str], list[str]] = {}
    for other, each in tagged.items():
        for entity in each.entities if other != which else ():
            found.setdefault((entity.start, entity.end, entity.type), []).append(other)
    return [Name(Entity(*place), tuple(by)) for place, by in sorted(found.items())]


def gaps(text: str, tagged: Tagged, names: Sequence[Name]) -> dict[int, Name]:
    """The tokens that belong to a name and that the tagger leaves in the text, each with the first such name. Signs
    alone are no loss."""
    starts = [start for start, _ in tagged.spans]
    found: dict[int, Name] = {}
    for name in names:
        for number in range(bisect_left(starts, name.entity.start), len(starts)):
            start, end = tagged.spans[number]
            if start >= name.entity.end:
                break
            if tagged.tags[number] == "O" and any(each.isalnum() for each in text[start:end]):
                found.setdefault(number, name)
    return found
