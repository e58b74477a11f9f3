"""Sentences with their tags, and a corpus made of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens and their tags in BIO2, of equal length. document: its document's number in the file, None where the file
    has no ``-DOCSTART-`` lines."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    document: int | None = None


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A corpus, whole and split.

    entity_types: sorted. checksum: SHA-256 in hexadecimal over the content. sections: the natural client of each
    training sentence, None where the corpus has none. left_out: how many mentions have no tags, by reason: of a file
    with offsets, whose mentions may lie within each other.
    """

    name: str
    title: str
    licence: str
    synthetic: bool
    train: tuple[Sentence, ...]
    validation: tuple[Sentence, ...]
    test: tuple[Sentence, ...]
    entity_types: tuple[str, ...]
    checksum: str
    sections: tuple[str, ...] | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def tags(self) -> tuple[str, ...]:
        """O first, then B- and I- of each type in alphabetical order."""
        return tags_of(self.entity_types)


def tags_of(entity_types: Iterable[str], prefixes: str = "BI") -> tuple[str, ...]:
    """O first, then B- and I-, or what else the letters of ``prefixes`` say, of each type in alphabetical order."""
    return ("O", *(f"{prefix}-{name}" for name in sorted(set(entity_types)) for prefix in prefixes))


def entities(tags: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield (type, first token, token after the last) of each entity, from left to right.

    tags: one sentence in IOB2. Raises ValueError with the tag if it is neither O nor B-X nor I-X.
    """
    kind, start = "", 0
    for position, tag in enumerate(tags):
        if tag == "O":
            if kind:
                yield kind, start, position
            kind = ""
            continue
        prefix, name = tag[:2], tag[2:]
        if prefix not in ("B-", "I-") or not name:
            raise ValueError(tag)
        if prefix == "I-" and name == kind:
            continue
        if kind:
            yield kind, start, position
        kind, start = (name, position) if prefix == "B-" else ("", 0)
    if kind:
        yield kind, start, len(tags)
