"""A text without the names that were found in it: each becomes its type, a pseudonym or a mask.

Only what was found is taken out: a name that a tagger misses stays in the text.
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
    """A name that was taken out: ``entity`` of the text, and where what stands in its place does in the new text."""

    entity: Entity
    start: int
    end: int
    replacement: str


@dataclass(frozen=True)
class Redacted:
    """A text without its names."""

    text: str
    replaced: tuple[Replaced, ...]

    @property
    def fields(self) -> dict[str, Any]:
        """For other programs: the new text, and each name's place in both texts. The name itself is not there."""
        return {
            "text": self.text,
            "entities": [
                {
                    "start": each.entity.start,
                    "end": each.entity.end,
                    "new_start": each.start,
                    "new_end": each.end,
                    "type": each.entity.type,
                    "score": round(each.entity.score, 4),
                    "replacement": each.replacement,
                }
                for each in self.replaced
            ],
        }


def redact(text: str, entities: Sequence[Entity], replace: str) -> Redacted:
    """Put something else in the place of each entity; they are in order and do not overlap.

    replace: "type" gives ``[PER]``; "mask" as many :data:`MASK` as the name has characters; "pseudonym" an invented
    name, the same one wherever the same name of the same type comes, in capitals where that is. Raises InvalidConfig.
    """
    if replace not in REPLACEMENTS:
        raise InvalidConfig(f"replace={replace!r}, expected one of {', '.join(REPLACEMENTS)}")
    put = _put_in_place(text, replace)
    parts: list[str] = []
    found: list[Replaced] = []
    size = at = 0
    for entity in entities:
        kept, new = text[at : entity.start], put(entity.type, text[entity.start : entity.end])
        start = size + len(kept)
        found.append(Replaced(entity, start, start + len(new), new))
        parts += [kept, new]
        size, at = start + len(new), entity.end
    return Redacted("".join([*parts, text[at:]]), tuple(found))


def _put_in_place(text: str, replace: str) -> Callable[[str, str], str]:
    """Type and name → what stands there then."""
    if replace == "type":
        return lambda kind, name: f"[{kind}]"
    return Pseudonyms(text) if replace == "pseudonym" else lambda kind, name: MASK * len(name)


class Pseudonyms:
    """Invented names for those of one text, by Faker. They are drawn from the text, so that the same text gives the
    same ones; none stands in the text, and no two names have the same. Who was called by first and last name keeps the
    last one of the pseudonym where only that of the name comes, and the first one likewise."""

    def __init__(self, text: str) -> None:
        from faker import Faker

        self._text = _key(text)
        self._fake = Faker("en_US")
        self._fake.seed_instance(int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8]))
        self._known: dict[tuple[str, str], str] = {}
        self._given: set[str] = set()

    def __call__(self, kind: str, name: str) -> str:
        """The pseudonym of a name."""
        key = (kind, _key(name))
        if key not in self._known:
            self._known[key] = self._drawn(kind, name)
            if kind == "PER" and len(words := name.split()) > 1:
                first, last = self._known[key].split()
                self._known.setdefault((kind, _key(words[0])), first)
                self._known.setdefault((kind, _key(words[-1])), last)
        return _in_case_of(name, self._known[key])

    def _drawn(self, kind: str, name: str) -> str:
        for _ in range(_TRIES):
            found = self._invented(kind, single=len(name.split()) == 1)
            if _key(found) not in self._text and found not in self._given:
                break
        else:
            found = f"{kind.title()} {len(self._given) + 1}"
        self._given.add(found)
        return found

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
    """A name however it is spaced and whatever its case is."""
    return re.sub(r"\s+", " ", name).casefold()


def _in_case_of(name: str, other: str) -> str:
    if len(name) > 1 and name.isupper():
        return other.upper()
    return other.lower() if name.islower() else other
