"""``.rel`` files (ADE Corpus V2, Gurulingappa et al. 2012) converted to sentences in BIO2.

A line is a relation between two mentions in one sentence, in eight columns separated by ``|``. The columns are
document, sentence, and for each mention its text, start offset and end offset. Offsets are counted in the document,
which is not part of the file. The file name gives the entity types: in ``DRUG-AE.rel`` columns 3 to 5 are an adverse
effect, and columns 6 to 8 a drug.

Lines of all files about the same sentence of a document are one sentence. The sentence's start in its document is the
one offset that puts all of its mentions on their text. A mention that does not match there is left out and counted
(none in ADE Corpus V2). A mention in several lines counts once.
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
"""Most digits of an offset."""
_TYPES = {"AE": "ADE", "DOSE": "Dosage", "DRUG": "Drug"}
"""Entity types by the parts of the corpus's file names; other parts are types as written."""


class _Placed(NamedTuple):
    """A mention as written in the file; start and end are character offsets in the document."""

    start: int
    end: int
    kind: str
    text: str


def read(files: Mapping[str, bytes], *, by_line: bool = False) -> tuple[tuple[Sentence, ...], Counter[str]]:
    """Return all sentences of these files in the order of their first lines.

    Args:
        files: Content by file name.
        by_line: As in :func:`engine.corpus.text_decoding.decode_lines`.

    Returns:
        The sentences, and how many mentions were left out, by reason.

    Raises:
        CorpusError: If a file is malformed; names the file, the line and the value.
    """
    relations: dict[tuple[str, str], set[_Placed]] = {}
    for name, data in files.items():
        for document, sentence, *two in _lines(name, data, by_line):
            relations.setdefault((document, sentence), set()).update(two)
    numbers: dict[str, int] = {}
    left_out: Counter[str] = Counter()
    sentences = []
    for (document, text), placed in relations.items():
        number = numbers.setdefault(document, len(numbers))
        start = _start_offset(text, placed)
        mentions = [Mention(span.start - start, span.end - start, span.kind) for span in placed]
        texts = [text[max(0, mention.start) : mention.end] for mention in mentions]
        right = [mention for mention, span, actual in zip(mentions, placed, texts, strict=True) if actual == span.text]
        left_out[standoff.ASTRAY] += len(mentions) - len(right)
        if tagged := standoff.tagged(text, right, number, left_out):
            sentences.append(tagged)
    return tuple(sentences), +left_out


def _start_offset(text: str, placed: set[_Placed]) -> int:
    """Return the sentence's start in its document: the offset that fits most mentions, the smallest of several."""
    votes: Counter[int] = Counter()
    for mention in placed:
        position = text.find(mention.text)
        while position >= 0:
            votes[mention.start - position] += 1
            position = text.find(mention.text, position + 1)
    return max(sorted(votes), key=votes.__getitem__, default=0)


def _lines(name: str, data: bytes, by_line: bool) -> Iterator[tuple[str, str, _Placed, _Placed]]:
    second, first = _types(name)
    for number, line in enumerate(decode_lines(data, name, by_line=by_line), start=1):
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
    numbers = all(offset.isdecimal() and len(offset) <= _DIGITS for offset in (start, end))
    if not (numbers and int(end) - int(start) == len(text) and text.strip()):
        raise CorpusError(
            f"{name} has the mention {quote(text)} from {quote(start)} to {quote(end)} in line "
            f"{line:,}, expected offsets that differ by its length"
        )
    return _Placed(int(start), int(end), kind, text)


def _types(name: str) -> list[str]:
    parts = PurePath(name).stem.upper().split("-")
    if len(parts) != 2 or not all(part.isalnum() for part in parts) or parts[0] == parts[1]:
        raise CorpusError(f"{name} is not named after two entity types, expected a name such as DRUG-AE.rel")
    return [_TYPES.get(part, part) for part in parts]
