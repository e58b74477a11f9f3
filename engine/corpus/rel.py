"""``.rel`` files (ADE Corpus V2, Gurulingappa et al. 2012) → sentences in BIO2.

A line is a relation of two mentions in one sentence, eight columns with ``|`` between them: document, sentence, and of
each mention its text, where it begins and where it ends, counted in the document, which is not in the file. A file's
name tells the types: in ``DRUG-AE.rel`` an adverse effect stands in the columns 3 to 5, a drug in 6 to 8.

Lines of all files about the same sentence of a document are one sentence. Where it begins in its document is the one
offset that puts all of its mentions where their text is; a mention that it does not put there is left out and counted
(none in ADE Corpus V2). A mention may stand in several lines: it is one.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

from engine.corpus import standoff
from engine.corpus.sentences import Sentence
from engine.corpus.standoff import Mention
from engine.corpus.text_decoding import decode_lines, quote
from engine.errors import CorpusError

SUFFIX = ".rel"
_COLUMNS = 8
_DIGITS = 9
"""Most that an offset has."""
_TYPES = {"AE": "ADE", "DOSE": "Dosage", "DRUG": "Drug"}
"""What the parts of the corpus's file names are called as types; others are called as they stand."""


class _Placed(NamedTuple):
    """A mention as it stands in the file; start and end are counted in the document."""

    start: int
    end: int
    kind: str
    text: str


def read(files: Mapping[str, bytes]) -> tuple[tuple[Sentence, ...], Counter[str]]:
    """All sentences of these files (name → content), in the order of their first lines, and how many mentions were left
    out, by reason. Raises CorpusError with the file, the line and the value."""
    relations: dict[tuple[str, str], set[_Placed]] = {}
    for name, data in files.items():
        for document, sentence, *two in _lines(name, data):
            relations.setdefault((document, sentence), set()).update(two)
    numbers: dict[str, int] = {}
    left_out: Counter[str] = Counter()
    sentences = []
    for (document, text), placed in relations.items():
        number = numbers.setdefault(document, len(numbers))
        begins = _begins(text, placed)
        mentions = [Mention(each.start - begins, each.end - begins, each.kind) for each in placed]
        there = [text[max(0, mention.start) : mention.end] for mention in mentions]
        right = [mention for mention, each, found in zip(mentions, placed, there, strict=True) if found == each.text]
        left_out[standoff.ASTRAY] += len(mentions) - len(right)
        if tagged := standoff.tagged(text, right, number, left_out):
            sentences.append(tagged)
    return tuple(sentences), +left_out


def _begins(text: str, placed: set[_Placed]) -> int:
    """Where a sentence begins in its document: the offset that suits most of its mentions, the smallest of several."""
    votes: Counter[int] = Counter()
    for each in placed:
        position = text.find(each.text)
        while position >= 0:
            votes[each.start - position] += 1
            position = text.find(each.text, position + 1)
    return max(sorted(votes), key=votes.__getitem__, default=0)


def _lines(name: str, data: bytes) -> Iterator[tuple[str, str, _Placed, _Placed]]:
    second, first = _types(name)
    for number, line in enumerate(decode_lines(data, name), start=1):
        if not line.strip():
            continue
        columns = line.split("|")
        if len(columns) != _COLUMNS:
            raise CorpusError(
                f"{name} has {len(columns)} columns in line {number:,}, expected {_COLUMNS} with | between them"
            )
        document, sentence, *rest = columns
        yield (
            document,
            sentence,
            _mention(name, number, rest[:3], first),
            _mention(name, number, rest[3:], second),
        )


def _mention(name: str, line: int, columns: Sequence[str], kind: str) -> _Placed:
    text, start, end = columns
    numbers = all(each.isdecimal() and len(each) <= _DIGITS for each in (start, end))
    if not (numbers and int(end) - int(start) == len(text) and text.strip()):
        raise CorpusError(
            f"{name} has the mention {quote(text)} from {quote(start)} to {quote(end)} in line "
            f"{line:,}, expected numbers as far apart as it is long"
        )
    return _Placed(int(start), int(end), kind, text)


def _types(name: str) -> list[str]:
    parts = PurePath(name).stem.upper().split("-")
    if len(parts) != 2 or not all(part.isalnum() for part in parts) or parts[0] == parts[1]:
        raise CorpusError(f"{name} is not called by two entity types, expected a name such as DRUG-AE.rel")
    return [_TYPES.get(part, part) for part in parts]
