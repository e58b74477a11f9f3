"""Redaction of entities in a text: each is replaced by its type, a pseudonym or a mask.

Only found entities are removed: an entity that a tagger misses stays in the text.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import InvalidConfig
from engine.tagging.entities import Entity

REPLACEMENTS = ("type", "pseudonym", "mask")
MASK = "█"
_TRIES = 100


@dataclass(frozen=True)
class Replaced:
    """A replaced entity.

    Attributes:
        entity: The entity in the original text.
        start: First character of its replacement in the new text.
        end: Character after its replacement in the new text.
        replacement: The new words.
    """

    entity: Entity
    start: int
    end: int
    replacement: str


@dataclass(frozen=True)
class Redacted:
    """A text without its entities."""

    text: str
    replaced: tuple[Replaced, ...]

    @property
    def fields(self) -> dict[str, Any]:
        """Plain values for other programs: the new text, and each entity's position in both texts without its words."""
        return {
            "text": self.text,
            "entities": [
                {
                    "start": item.entity.start,
                    "end": item.entity.end,
                    "new_start": item.start,
                    "new_end": item.end,
                    "type": item.entity.type,
                    "score": round(item.entity.score, 4),
                    "replacement": item.replacement,
                }
                for item in self.replaced
            ],
        }


def redact(text: str, entities: Sequence[Entity], replace: str) -> Redacted:
    """Replace each entity.

    Args:
        text: The text.
        entities: Entities in order, without overlap.
        replace: "type" gives ``[PER]``; "mask" as many :data:`MASK` as the entity has characters; "pseudonym" an
            invented name. Equal entities of one type get equal pseudonyms, in capitals where they are.

    Raises:
        InvalidConfig: If ``replace`` is another value.
    """
    if replace not in REPLACEMENTS:
        raise InvalidConfig(f"replace={replace!r}, expected one of {', '.join(REPLACEMENTS)}")
    put = _replacer(text, replace)
    parts: list[str] = []
    replaced: list[Replaced] = []
    size = position = 0
    for entity in entities:
        kept, new = text[position : entity.start], put(entity.type, text[entity.start : entity.end])
        start = size + len(kept)
        replaced.append(Replaced(entity, start, start + len(new), new))
        parts += [kept, new]
        size, position = start + len(new), entity.end
    return Redacted("".join([*parts, text[position:]]), tuple(replaced))


def _replacer(text: str, replace: str) -> Callable[[str, str], str]:
    """Return a function from entity type and words to their replacement."""
    if replace == "type":
        return lambda kind, name: f"[{kind}]"
    return Pseudonyms(text) if replace == "pseudonym" else lambda kind, name: MASK * len(name)


class Pseudonyms:
    """Invented names for the entities of one text, by Faker.

    They are drawn from the text, so that the same text gives the same ones. None occurs in the text, and no two
    entities have the same one. A person's last name alone gets the last name of the person's pseudonym, and the first
    name likewise.
    """

    def __init__(self, text: str) -> None:
        from faker import Faker

        self._text = _key(text)
        self._fake = Faker("en_US")
        self._fake.seed_instance(int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8]))
        self._pseudonyms: dict[tuple[str, str], str] = {}
        self._used: set[str] = set()

    def __call__(self, kind: str, name: str) -> str:
        """Return the pseudonym of an entity."""
        key = (kind, _key(name))
        if key not in self._pseudonyms:
            self._pseudonyms[key] = self._drawn(kind, name)
            if kind == "PER" and len(words := name.split()) > 1:
                first, last = self._pseudonyms[key].split()
                self._pseudonyms.setdefault((kind, _key(words[0])), first)
                self._pseudonyms.setdefault((kind, _key(words[-1])), last)
        return _in_case_of(name, self._pseudonyms[key])

    def _drawn(self, kind: str, name: str) -> str:
        for _ in range(_TRIES):
            candidate = self._invented(kind, single=len(name.split()) == 1)
            if _key(candidate) not in self._text and candidate not in self._used:
                break
        else:
            candidate = f"{kind.title()} {len(self._used) + 1}"
        self._used.add(candidate)
        return candidate

    def _invented(self, kind: str, *, single: bool) -> str:
        fake = self._fake
        if kind == "PER":
            return str(fake.last_name() if single else f"{fake.first_name()} {fake.last_name()}")
        if kind == "LOC":
            return str(fake.city())
        if kind == "ORG":
            return str(fake.company())
        return str(fake.word().title() if single else fake.catch_phrase().title())


def _key(name: str) -> str:
    """Return a name in lower case with single spaces, for comparison."""
    return re.sub(r"\s+", " ", name).casefold()


def _in_case_of(name: str, other: str) -> str:
    if len(name) > 1 and name.isupper():
        return other.upper()
    return other.lower() if name.islower() else other
