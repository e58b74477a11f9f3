"""Sentences with their tags, and a corpus made of them."""

from collections.abc import Mapping
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
        return ("O", *(f"{prefix}-{name}" for name in self.entity_types for prefix in "BI"))
