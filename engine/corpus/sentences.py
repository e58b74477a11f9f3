"""Tagged sentences, and a corpus made of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from engine.corpus.tag_schemes import tags_of


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens and their BIO2 tags, of equal length.

    Attributes:
        tokens: The tokens.
        tags: One BIO2 tag for each token.
        document: Number of the sentence's document in the file, or None if the file has no ``-DOCSTART-`` lines.
    """

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    document: int | None = None


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A corpus with its training, validation and test set.

    Attributes:
        name: Name in configurations.
        title: Name on pages.
        licence: Terms of use.
        synthetic: Whether the sentences are generated.
        train: The training set.
        validation: The validation set.
        test: The test set.
        entity_types: Entity types, sorted.
        checksum: SHA-256 of the content, in hexadecimal.
        declared: Whether the entity types were declared, not read from the sentences.
        sections: Natural client of each training sentence, or None if the corpus has none.
        left_out: How many mentions have no tags, by reason. Only standoff files have such mentions, since mentions may
            overlap there.
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
    declared: bool = True
    sections: tuple[str, ...] | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def tags(self) -> tuple[str, ...]:
        """All tags: O first, then B- and I- of each type in alphabetical order."""
        return tags_of(self.entity_types)


def entities(tags: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield (type, first token, token after the last) of each entity, from left to right.

    Args:
        tags: Tags of one sentence in IOB2.

    Raises:
        ValueError: If a tag is neither O nor B-X nor I-X; the message is the tag.
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
