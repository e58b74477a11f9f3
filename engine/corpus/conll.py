"""CoNLL column files converted to sentences in BIO2.

Each line has one token, in the first column, and its tag, in the last; blank lines separate sentences. Three tag
schemes are read: IOB1, BIO2 and BIOES with its other names BILOU and IOBES. IOB1 (Ramshaw and Marcus 1995) uses ``B-``
only between adjacent entities of the same type. The scheme is detected from the tags; the result is always BIO2.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from engine.corpus.declared_types import MAX_TYPES, is_line
from engine.corpus.sentences import Sentence
from engine.corpus.text_decoding import decode_lines, quote
from engine.errors import CorpusError

STRAY = 0.01
"""Share of entities that may violate the file's scheme: CoNLL-2003 itself has 2 in 23,499."""

_TAG = re.compile(r"O|[BIESLU]-\S{1,60}")
_BLANK = " \t"
_HEADINGS = {"tag", "tags", "ner", "ner_tag", "ner_tags", "ner-tag", "label", "labels", "iob", "bio", "entity"}
"""Last columns of a header line that names the columns; none of them is a tag."""
_EMPTY_TOKEN = "\ufffd"
"""Replacement of a token that a tool has emptied; the Broad Twitter Corpus has six."""
_CLOSING = str.maketrans({"L": "E", "U": "S"})


_Row = tuple[int, list[str]]
"""A line's number, from 1, and its columns, empty if the line is blank."""


@dataclass(frozen=True, slots=True)
class Block:
    """A sentence with its tags as written in the file.

    Attributes:
        tokens: The tokens.
        tags: Tags as written.
        line: Line number of the first token, from 1.
        document: Number of the document, from 0, or None if the file has no documents.
    """

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    line: int
    document: int | None


def read(data: bytes, name: str, *, entities: bool = True, by_line: bool = False) -> tuple[Sentence, ...]:
    """Return all sentences of a file.

    Args:
        data: Content of the file.
        name: Name of the file in error messages.
        entities: Whether to require entities; False accepts a file in which all tags are O.
        by_line: As in :func:`engine.corpus.text_decoding.decode_lines`.

    Raises:
        CorpusError: If this is not a tagged column file; names the file, the line and the value.
    """
    blocks = parse(data, name, by_line=by_line)
    tag_scheme = scheme(blocks, name)
    if entities and tag_scheme is None:
        raise CorpusError(f"{name} has only the tag O in {len(blocks):,} sentences, expected tagged entities")
    types = {tag[2:] for block in blocks for tag in block.tags if tag != "O"}
    if len(types) > MAX_TYPES:
        raise CorpusError(f"{name} has {len(types):,} entity types, expected at most {MAX_TYPES}")
    return tuple(Sentence(block.tokens, _in_bio2(block.tags), block.document) for block in blocks)


def _in_bio2(tags: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tags in BIO2: the same tuple if nothing changes, so that a large corpus is in memory only once."""
    converted = tuple(to_bio2(tags))
    return tags if converted == tags else converted


def parse(data: bytes, name: str, *, by_line: bool = False) -> list[Block]:
    """Return tokens and tags as written, without ``-DOCSTART-`` and comment lines.

    Args:
        data: Content of the file.
        name: Name of the file in error messages.
        by_line: As in :func:`engine.corpus.text_decoding.decode_lines`.

    Raises:
        CorpusError: If this is not a column file.
    """
    width, first = _width(_rows(data, name, by_line), name)
    blocks: list[Block] = []
    tokens: list[str] = []
    tags: list[str] = []
    interned: dict[str, str] = {}  # each word is in memory only once
    checked: set[str] = set()
    document: int | None = None
    start: tuple[int, int | None] = 0, None  # first line of the open sentence, and its document

    def close() -> None:
        if tokens:
            blocks.append(Block(tuple(tokens), tuple(tags), *start))
            tokens.clear()
            tags.clear()

    for number, columns in _rows(data, name, by_line):
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
            start = number, document
        tokens.append(interned.setdefault(token, token))
        tags.append(interned.setdefault(tag, tag))
    close()
    if not blocks:
        raise CorpusError(f"{name} has no sentences, expected lines with a token and its tag")
    return blocks


def _rows(data: bytes, name: str, by_line: bool) -> Iterator[_Row]:
    """Yield the lines as columns, without a header line and without declared entity types."""
    started = False
    for number, line in enumerate(decode_lines(data, name, by_line=by_line), start=1):
        if not started and is_line(line):
            continue
        columns = _columns(line)
        if columns and not started:
            started = True
            if len(columns) > 1 and columns[-1].lower() in _HEADINGS:
                continue
        yield number, columns


def scheme(blocks: list[Block], name: str) -> str | None:
    """Return "IOB1", "BIO2" or "BIOES", or None if all tags are O.

    Raises:
        CorpusError: If the file mixes two schemes.
    """
    if any(tag[0] in "ESLU" for block in blocks for tag in block.tags):
        return _checked("BIOES", _bioes_faults(blocks), name)
    started_by_i: list[tuple[int, str]] = []
    started_by_b: list[tuple[int, str]] = []
    needed = 0
    for block in blocks:
        before = "O"
        for offset, tag in enumerate(block.tags):
            if tag != "O":
                new = before[1:] != tag[1:]
                if tag[0] == "B" and not new:
                    needed += 1  # in either scheme a B- between adjacent entities of one type
                elif new:
                    (started_by_i if tag[0] == "I" else started_by_b).append((block.line + offset, tag))
            before = tag
    if not started_by_i:
        return "BIO2" if started_by_b else None
    tag_scheme, minority, all_of = (
        ("IOB1", started_by_b, len(started_by_i))
        if len(started_by_i) > len(started_by_b)
        else ("BIO2", started_by_i, len(started_by_b))
    )
    return _checked(tag_scheme, (minority, all_of + needed + len(minority)), name)


def _bioes_faults(blocks: list[Block]) -> tuple[list[tuple[int, str]], int]:
    """Return where an entity is not closed or continues without a beginning, and the number of entities."""
    faults, number = [], 0
    for block in blocks:
        inside = None
        for offset, tag in enumerate([*block.tags, "O"]):
            kind, name = tag[0].translate(_CLOSING), tag[2:]
            continues = kind in "IE" and inside == name
            if (inside is not None and not continues) or (kind in "IE" and not continues):
                at = min(offset, len(block.tags) - 1)
                faults.append((block.line + at, block.tags[at]))
            number += kind in "BS"
            inside = name if kind in "BI" else None
    return faults, number


def _checked(tag_scheme: str, result: tuple[list[tuple[int, str]], int], name: str) -> str:
    faults, entities = result
    if len(faults) > STRAY * entities:
        line, tag = faults[0]
        raise CorpusError(
            f"{name} mixes two tag schemes: most of it is {tag_scheme}, but {len(faults):,} of {entities:,} entities "
            f"do not fit, the first with {quote(tag)} in or near line {line:,}"
        )
    return tag_scheme


def to_bio2(tags: Sequence[str]) -> list[str]:
    """Convert one sentence's tags from any of the schemes to BIO2.

    In all schemes an entity begins at B or S, and where the type changes.
    """
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
    """Return one string object for all equal tags, to save memory."""
    return prefix + name


def _columns(line: str) -> list[str]:
    """Return the columns of a line, [] if it is blank.

    Only tabs and ASCII spaces separate columns: a no-break space may be part of a token.
    """
    if not line.strip(_BLANK):
        return []
    if "\t" in line:
        return [column.strip(" ") for column in line.rstrip(_BLANK).split("\t")]
    return [column for column in line.split(" ") if column]


def _width(rows: Iterable[_Row], name: str) -> tuple[int, int]:
    """Return the number of columns and the line that determines it.

    This is the first token line, or a line with # if there is no other.
    """
    first: _Row | None = None
    for row in rows:
        if not row[1] or row[1][0] == "-DOCSTART-":
            continue
        is_token = not row[1][0].startswith("#")
        if is_token or first is None:
            first = row
        if is_token:
            break
    if first is None:
        raise CorpusError(f"{name} has no sentences, expected lines with a token and its tag")
    number, columns = first
    if len(columns) < 2:
        raise CorpusError(
            f"{name} has one column in line {number:,} ({quote(columns[0])}), expected a token and its tag"
        )
    return len(columns), number


def _is_comment(columns: list[str], width: int) -> bool:
    """Return whether a line begins with # and is not a token with its tag, as in ``# id = 3``."""
    return columns[0].startswith("#") and not (len(columns) == width and _TAG.fullmatch(columns[-1]))
