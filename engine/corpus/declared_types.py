"""Entity types that a corpus declares, whatever its sentences hold.

Entity types determine the tags, hence the number of weights, and their names are in the saved tagger. If they were read
from the sentences, a type of one sentence alone would reveal that sentence without noise. A corpus therefore declares
them: the catalogue does for named corpora, and an own corpus does with these lines, the second of which is optional::

    # entity types: LOC ORG PER
    # undeclared types: O

They are at the beginning of a column file, or in the file ``entity-types.conf`` of a folder or zip. An own corpus
without them is read as before, and ε does not claim to cover its entity types.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.corpus.sentences import Sentence
from engine.corpus.text_decoding import quote
from engine.errors import CorpusError
from engine.validation import one_of

FILE = "entity-types.conf"
"""Name of the file with the lines in a folder or zip."""
MAX_TYPES = 200
"""Largest number of entity types; a file with more has no entity types in that column."""
REFUSE, OUTSIDE = "refuse", "O"
UNDECLARED = (REFUSE, OUTSIDE)
"""Treatment of mentions of other types: the corpus is refused, or their tags become O."""
LEFT_OUT = "of entity types that are not declared"
"""Reason for leaving such a mention out."""

_TYPES, _OTHERS = "# entity types:", "# undeclared types:"
_NAME = re.compile(r"[^\s,]{1,60}")
_SEPARATORS = re.compile(r"[\s,]+")


@dataclass(frozen=True)
class DeclaredTypes:
    """The declaration of a corpus.

    Attributes:
        types: Names of its entity types, sorted.
        undeclared: One of ``UNDECLARED``.
    """

    types: tuple[str, ...]
    undeclared: str = REFUSE

    def __post_init__(self) -> None:
        one_of("undeclared", self.undeclared, UNDECLARED)
        if not self.types or len(self.types) > MAX_TYPES:
            raise CorpusError(f"{len(self.types):,} entity types are declared, expected 1 to {MAX_TYPES}")
        if invalid := [name for name in self.types if not _NAME.fullmatch(name)]:
            raise CorpusError(
                f"the declared entity type {quote(invalid[0])} has more than 60 characters, a space or a comma"
            )
        object.__setattr__(self, "types", tuple(sorted(set(self.types))))

    @classmethod
    def parse(cls, text: str, undeclared: str = REFUSE) -> "DeclaredTypes":
        """Read names that spaces or commas separate. Raises CorpusError."""
        return cls(tuple(filter(None, _SEPARATORS.split(text))), undeclared)

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines that :func:`from_lines` reads."""
        others = (f"{_OTHERS} {OUTSIDE}",) if self.undeclared == OUTSIDE else ()
        return (f"{_TYPES} {' '.join(self.types)}", *others)

    def restricted(self, sentences: Sequence[Sentence], name: str) -> tuple[list[Sentence], int]:
        """Return the sentences with declared types only, and the number of mentions whose tags became O.

        Args:
            sentences: The sentences.
            name: Name of the corpus in error messages.

        Raises:
            CorpusError: If the corpus refuses undeclared types and has some; names them.
        """
        counts = mentions(sentences)
        others = counts.keys() - set(self.types)
        if not others:
            return list(sentences), 0
        if self.undeclared == REFUSE:
            raise CorpusError(f"{name} has {described({kind: counts[kind] for kind in others})}, {_EXPECTED}")
        kept = [
            replace(sentence, tags=tuple("O" if tag[2:] in others else tag for tag in sentence.tags))
            for sentence in sentences
        ]
        return kept, sum(counts[kind] for kind in others)


_EXPECTED = "which it does not declare; declare them too, or read mentions of undeclared types as O"
_MOST_NAMED = 10


def described(counts: Mapping[str, int]) -> str:
    """Return entity types with their numbers of mentions, the first ones in alphabetical order."""
    named = [f"{kind} ({number:,})" for kind, number in sorted(counts.items())[:_MOST_NAMED]]
    rest = len(counts) - len(named)
    return f"the entity types {', '.join(named)}" + (f" and {rest:,} more" if rest > 0 else "")


def mentions(sentences: Iterable[Sentence]) -> Counter[str]:
    """Return the number of mentions of each entity type."""
    return Counter(tag[2:] for sentence in sentences for tag in sentence.tags if tag.startswith("B-"))


def is_line(line: str) -> bool:
    """Return whether this line belongs to a declaration."""
    return line.lower().startswith((_TYPES, _OTHERS))


def from_lines(lines: Iterable[str], name: str) -> DeclaredTypes | None:
    """Read the declaration in these lines; None without one.

    Args:
        lines: Lines of a file; others are ignored.
        name: Name of the file in error messages.

    Raises:
        CorpusError: If the declaration is not valid.
    """
    values: dict[str, str] = {}
    for line in filter(is_line, lines):
        key, _, value = line.partition(":")
        if key.lower() in values:
            raise CorpusError(f"{name} has the line {quote(key + ':')} twice, expected it once")
        values[key.lower()] = value.strip()
    names, others = (values.get(key.removesuffix(":")) for key in (_TYPES, _OTHERS))
    if names is None and others is None:
        return None
    if others not in (None, *UNDECLARED):
        raise CorpusError(f"{name} has {quote(f'{_OTHERS} {others}')}, expected {' or '.join(UNDECLARED)}")
    try:
        return DeclaredTypes.parse(names or "", others or REFUSE)
    except CorpusError as error:
        raise CorpusError(f"{name}: {error}") from error


def head(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines before the first token of a column file."""
    for line in lines:
        if line.strip() and not line.startswith(("#", "-DOCSTART-")):
            return
        yield line
