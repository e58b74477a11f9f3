"""brat's files → sentences in BIO2: a ``.txt`` with a text, an ``.ann`` beside it with mentions by character offsets.

Read are the lines of text-bound annotations (``T1<tab>Drug 0 9<tab>ibuprofen``; https://brat.nlplab.org/standoff.html);
relations, events, attributes, normalisations and notes are passed over. A mention in several pieces
(``ADR 0 5;10 15``) is left out and counted: tags in BIO2 have no gaps. A text is cut into sentences where a line ends,
and after ``.``, ``!`` or ``?`` before what looks like a beginning, but never within a mention.

The folders of a corpus do not matter, so CADEC is read as it is handed out, with ``text/`` and ``original/`` side by
side; where a text has several ``.ann`` of its name (CADEC's ``sct/`` and ``meddra/`` normalise the first), the one in
``original/`` counts.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import PurePosixPath

from engine.corpus import standoff
from engine.corpus.sentences import Sentence
from engine.corpus.standoff import Mention
from engine.corpus.text_decoding import decode_lines, decode_text, quote
from engine.errors import CorpusError

TEXT, MENTIONS = ".txt", ".ann"
_PIECES = re.compile(r"(\S{1,60}) (\d{1,9} \d{1,9}(?:;\d{1,9} \d{1,9})*)")
_END = re.compile(r"\n+|(?<=[.!?])[ \t]+(?=[\"'(\[]?[A-Z0-9])")


def read(files: Mapping[str, bytes]) -> tuple[tuple[Sentence, ...], Counter[str]]:
    """All sentences of these files (path within the corpus → content), by the names of their texts, and how many
    mentions were left out, by reason. Raises CorpusError with the file, the line and the value."""
    left_out: Counter[str] = Counter()
    sentences: list[Sentence] = []
    for document, (text_name, mentions_name) in enumerate(pairs(list(files))):
        text = decode_text(files[text_name], text_name)
        mentions = sorted(_mentions(files[mentions_name], mentions_name, text, left_out))
        starts = [each.start for each in mentions]
        for start, end in _sentences(text, mentions):
            inside = [
                Mention(each.start - start, each.end - start, each.kind)
                for each in mentions[bisect_left(starts, start) : bisect_left(starts, end)]
            ]
            if sentence := standoff.tagged(text[start:end], inside, document, left_out):
                sentences.append(sentence)
    if not sentences:
        raise CorpusError(f"{len(files):,} brat files have no sentences, expected texts")
    return tuple(sentences), +left_out


def pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Each text with its mentions, by name. Raises CorpusError where one of the two is missing, or not the only one."""
    found: dict[str, dict[str, list[str]]] = {}
    for name in sorted(names):
        path = PurePosixPath(name)
        if path.suffix in (TEXT, MENTIONS):
            found.setdefault(path.stem, {}).setdefault(path.suffix, []).append(name)
    return [(_only(stem, each, TEXT), _only(stem, each, MENTIONS)) for stem, each in found.items()]


def _only(stem: str, found: Mapping[str, Sequence[str]], suffix: str) -> str:
    names = found.get(suffix, ())
    original = [name for name in names if PurePosixPath(name).parent.name == "original"]
    if len(chosen := original or names) != 1:
        raise CorpusError(f"{stem}{suffix} is there {len(names)} times, expected one beside each text")
    return chosen[0]


def _mentions(data: bytes, name: str, text: str, left_out: Counter[str]) -> list[Mention]:
    if not data.strip():
        return []
    found = []
    for number, line in enumerate(decode_lines(data, name), start=1):
        if not line.startswith("T"):
            continue
        identity, _, rest = line.partition("\t")
        where, _, covered = rest.partition("\t")
        match = _PIECES.fullmatch(where)
        if match is None or not identity[1:].isdecimal():
            raise CorpusError(
                f"{name} has {quote(line)} in line {number:,}, expected T and a number, a type with offsets, and "
                "the text, with tabs between them"
            )
        if ";" in match[2]:
            left_out[standoff.DISCONTINUOUS] += 1
            continue
        start, end = map(int, match[2].split())
        if not start < end <= len(text):
            raise CorpusError(
                f"{name} has the offsets {start} and {end} in line {number:,}, expected a stretch of a text of "
                f"{len(text):,} characters"
            )
        if text[start:end].split() != covered.split():
            left_out[standoff.ASTRAY] += 1
        else:
            found.append(Mention(start, end, match[1]))
    return found


def _sentences(text: str, mentions: Sequence[Mention]) -> Iterator[tuple[int, int]]:
    """mentions: by where they start."""
    start, starts = 0, [each.start for each in mentions]
    reach = [0, *accumulate((each.end for each in mentions), max)]  # of so many mentions, where the last one ends
    for found in _END.finditer(text):
        if reach[bisect_left(starts, found.end())] > found.start():
            continue
        yield start, found.start()
        start = found.end()
    yield start, len(text)
