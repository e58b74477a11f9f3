"""CoNLL column files → sentences in BIO2.

One token a line, the token in the first column and its tag in the last, a blank line between sentences. Read are
IOB1 (Ramshaw and Marcus 1995: ``B-`` only between neighbours of the same type), BIO2 and BIOES with its other names
BILOU and IOBES. Which one a file uses is seen from the tags; what is returned is always BIO2.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from engine.corpus.sentences import Sentence
from engine.corpus.text_decoding import decode_lines, quote
from engine.errors import CorpusError

MAX_TYPES = 200
"""More entity types than this are not entity types."""
STRAY = 0.01
"""Share of entities that may begin against the file's scheme: CoNLL-2003 itself has 2 in 23,499."""

_TAG = re.compile(r"O|[BIESLU]-\S{1,60}")
_BLANK = " \t"
_HEADINGS = {"tag", "tags", "ner", "ner_tag", "ner_tags", "ner-tag", "label", "labels", "iob", "bio", "entity"}
"""Last columns of a line that names the columns; none of them is a tag."""
_EMPTY_TOKEN = "\ufffd"
"""What stands for a token that a tool has emptied; the Broad Twitter Corpus has six."""
_CLOSING = str.maketrans({"L": "E", "U": "S"})


_Row = tuple[int, list[str]]
"""A line's number, from 1, and its columns, none where it is blank."""


@dataclass(frozen=True, slots=True)
class Block:
    """A sentence as it stands in the file. line: number of its first token's line, from 1. document: its number,
    from 0, None where the file does not tell."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    line: int
    document: int | None


def read(data: bytes, name: str, *, entities: bool = True) -> tuple[Sentence, ...]:
    """All sentences of a file. ``name`` is used in messages; ``entities=False`` allows a file that tags only O.

    Raises CorpusError with the file, the line and the value if this is not a tagged column file.
    """
    blocks = parse(data, name)
    way = scheme(blocks, name)
    if entities and way is None:
        raise CorpusError(f"{name} has only the tag O in {len(blocks):,} sentences, expected tagged entities")
    types = {tag[2:] for block in blocks for tag in block.tags if tag != "O"}
    if len(types) > MAX_TYPES:
        raise CorpusError(f"{name} has {len(types):,} entity types, expected at most {MAX_TYPES}")
    return tuple(Sentence(block.tokens, _in_bio2(block.tags), block.document) for block in blocks)


def _in_bio2(tags: tuple[str, ...]) -> tuple[str, ...]:
    """The very same where that is what they are: a large corpus is in memory once."""
    found = tuple(to_bio2(tags))
    return tags if found == tags else found


def parse(data: bytes, name: str) -> list[Block]:
    """Tokens and tags as they stand, ``-DOCSTART-`` and comment lines left out. Raises CorpusError."""
    width, first = _width(_rows(data, name), name)
    blocks: list[Block] = []
    tokens: list[str] = []
    tags: list[str] = []
    known: dict[str, str] = {}  # each word is in memory once, however often it stands in the file
    checked: set[str] = set()
    document: int | None = None
    begun: tuple[int, int | None] = 0, None  # the open sentence's first line, and its document

    def close() -> None:
        if tokens:
            blocks.append(Block(tuple(tokens), tuple(tags), *begun))
            tokens.clear()
            tags.clear()

    for number, columns in _rows(data, name):
        if not columns:
            close()
            continue
        if columns[0] == "-DOCSTART-":
            document = 0 if document is None else document + 1
            continue
        if _is_comment(columns, width):
            continue
        if len(columns) != width:
            raise CorpusError(
                f"{name} has {len(columns)} columns in line {number:,}, expected {width} as in line {first:,}"
            )
        token, tag = columns[0] or _EMPTY_TOKEN, columns[-1]
        if tag not in checked:
            if not _TAG.fullmatch(tag):
                raise CorpusError(
                    f"{name} has {quote(tag)} in the last column of line {number:,}, expected a tag: "
                    "O, or B- or I- and an entity type"
                )
            checked.add(tag)
        if not tokens:
            begun = number, document
        tokens.append(known.setdefault(token, token))
        tags.append(known.setdefault(tag, tag))
    close()
    if not blocks:
        raise CorpusError(f"{name} has no sentences, expected lines with a token and its tag")
    return blocks


def _rows(data: bytes, name: str) -> Iterator[_Row]:
    """Line by line, but for a first one that names the columns."""
    begun = False
    for number, line in enumerate(decode_lines(data, name), start=1):
        columns = _columns(line)
        if columns and not begun:
            begun = True
            if len(columns) > 1 and columns[-1].lower() in _HEADINGS:
                continue
        yield number, columns


def scheme(blocks: list[Block], name: str) -> str | None:
    """ "IOB1", "BIO2" or "BIOES", None if nothing but O is tagged. Raises CorpusError if two are mixed."""
    if any(tag[0] in "ESLU" for block in blocks for tag in block.tags):
        return _checked("BIOES", _bioes_faults(blocks), name)
    begun_by_i: list[tuple[int, str]] = []
    begun_by_b: list[tuple[int, str]] = []
    needed = 0
    for block in blocks:
        before = "O"
        for offset, tag in enumerate(block.tags):
            if tag != "O":
                new = before[1:] != tag[1:]
                if tag[0] == "B" and not new:
                    needed += 1  # in either scheme a B- between neighbours of one type
                elif new:
                    (begun_by_i if tag[0] == "I" else begun_by_b).append((block.line + offset, tag))
            before = tag
    if not begun_by_i:
        return "BIO2" if begun_by_b else None
    way, minority, all_of = (
        ("IOB1", begun_by_b, len(begun_by_i))
        if len(begun_by_i) > len(begun_by_b)
        else ("BIO2", begun_by_i, len(begun_by_b))
    )
    return _checked(way, (minority, all_of + needed + len(minority)), name)


def _bioes_faults(blocks: list[Block]) -> tuple[list[tuple[int, str]], int]:
    """Places where an entity is not closed, or goes on without having begun; and the number of entities."""
    faults, number = [], 0
    for block in blocks:
        inside = None
        for offset, tag in enumerate([*block.tags, "O"]):
            kind, name = tag[0].translate(_CLOSING), tag[2:]
            going_on = kind in "IE" and inside == name
            if (inside is not None and not going_on) or (kind in "IE" and not going_on):
                at = min(offset, len(block.tags) - 1)
                faults.append((block.line + at, block.tags[at]))
            number += kind in "BS"
            inside = name if kind in "BI" else None
    return faults, number


def _checked(way: str, found: tuple[list[tuple[int, str]], int], name: str) -> str:
    faults, entities = found
    if len(faults) > STRAY * entities:
        line, tag = faults[0]
        raise CorpusError(
            f"{name} mixes two tag schemes: it reads as {way}, but {len(faults):,} of {entities:,} entities do not "
            f"fit, the first with {quote(tag)} in or near line {line:,}"
        )
    return way


def to_bio2(tags: Sequence[str]) -> list[str]:
    """One sentence's tags in BIO2, from any of the schemes: in all of them an entity begins where B or S stands, and
    where the type changes."""
    result, before = [], "O"
    for tag in tags:
        if tag == "O":
            result.append(tag)
            before = tag
            continue
        kind, name = tag[0].translate(_CLOSING), tag[2:]
        result.append(_tag("B-" if kind in "BS" or before != name else "I-", name))
        before = "O" if kind in "ES" else name
    return result


@lru_cache(maxsize=1024)
def _tag(prefix: str, name: str) -> str:
    """One text for all tags that are alike."""
    return prefix + name


def _columns(line: str) -> list[str]:
    """Columns of a line, [] if it is blank. Only tabs and ASCII spaces separate: a no-break space may be a token's."""
    if not line.strip(_BLANK):
        return []
    if "\t" in line:
        return [column.strip(" ") for column in line.rstrip(_BLANK).split("\t")]
    return [column for column in line.split(" ") if column]


def _width(rows: Iterable[_Row], name: str) -> tuple[int, int]:
    """Number of columns and the line that shows it: the first token line, or a line with # if there is no other."""
    found: _Row | None = None
    for row in rows:
        if not row[1] or row[1][0] == "-DOCSTART-":
            continue
        plain = not row[1][0].startswith("#")
        if plain or found is None:
            found = row
        if plain:
            break
    if found is None:
        raise CorpusError(f"{name} has no sentences, expected lines with a token and its tag")
    number, columns = found
    if len(columns) < 2:
        raise CorpusError(
            f"{name} has one column in line {number:,} ({quote(columns[0])}), expected a token and its tag"
        )
    return len(columns), number


def _is_comment(columns: list[str], width: int) -> bool:
    """A line that begins with # and is not a token with its tag, as in ``# id = 3``."""
    return columns[0].startswith("#") and not (len(columns) == width and _TAG.fullmatch(columns[-1]))
