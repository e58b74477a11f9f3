"""brat standoff files converted to sentences in BIO2: a ``.txt`` file with a text, and an ``.ann`` file with mentions.

Mentions are given by character offsets. Only text-bound annotations are read (``T1<tab>Drug 0 9<tab>ibuprofen``;
https://brat.nlplab.org/standoff.html). Relations, events, attributes, normalisations and notes are ignored. A
discontinuous mention (``ADR 0 5;10 15``) is left out and counted, since BIO2 tags have no gaps. A text is split into
sentences at line ends. It is also split after ``.``, ``!`` or ``?`` before a likely sentence start, but never within a
mention.

The folders of a corpus do not matter. CADEC is therefore read as published, with the folders ``text/`` and
``original/``. If a text has several ``.ann`` files of its name, the one in ``original/`` is used: CADEC's ``sct/`` and
``meddra/`` normalise it.
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
    """Return all sentences of these files, ordered by the names of their texts.

    Args:
        files: Content by path within the corpus.

    Returns:
        The sentences, and how many mentions were left out, by reason.

    Raises:
        CorpusError: If a file is malformed; names the file, the line and the value.
    """
    left_out: Counter[str] = Counter()
    sentences: list[Sentence] = []
    for document, (text_name, mentions_name) in enumerate(pairs(list(files))):
        text = decode_text(files[text_name], text_name)
        mentions = sorted(_mentions(files[mentions_name], mentions_name, text, left_out))
        starts = [mention.start for mention in mentions]
        for start, end in _sentences(text, mentions):
            inside = [
                Mention(mention.start - start, mention.end - start, mention.kind)
                for mention in mentions[bisect_left(starts, start) : bisect_left(starts, end)]
            ]
            if sentence := standoff.tagged(text[start:end], inside, document, left_out):
                sentences.append(sentence)
    if not sentences:
        raise CorpusError(f"{len(files):,} brat files have no sentences, expected texts")
    return tuple(sentences), +left_out


def pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the names of each text and of its mentions.

    Raises:
        CorpusError: If one of the two files is missing, or there are several.
    """
    by_stem: dict[str, dict[str, list[str]]] = {}
    for name in sorted(names):
        path = PurePosixPath(name)
        if path.suffix in (TEXT, MENTIONS):
            by_stem.setdefault(path.stem, {}).setdefault(path.suffix, []).append(name)
    return [(_only(stem, files, TEXT), _only(stem, files, MENTIONS)) for stem, files in by_stem.items()]


def _only(stem: str, files: Mapping[str, Sequence[str]], suffix: str) -> str:
    names = files.get(suffix, ())
    original = [name for name in names if PurePosixPath(name).parent.name == "original"]
    if len(chosen := original or names) != 1:
        raise CorpusError(f"{stem}{suffix} exists {len(names)} times, expected one for each text")
    return chosen[0]


def _mentions(data: bytes, name: str, text: str, left_out: Counter[str]) -> list[Mention]:
    if not data.strip():
        return []
    mentions = []
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
                f"{name} has the offsets {start} and {end} in line {number:,}, expected a span within a text of "
                f"{len(text):,} characters"
            )
        if text[start:end].split() != covered.split():
            left_out[standoff.ASTRAY] += 1
        else:
            mentions.append(Mention(start, end, match[1]))
    return mentions


def _sentences(text: str, mentions: Sequence[Mention]) -> Iterator[tuple[int, int]]:
    """Yield the first character of each sentence and the one after its last; ``mentions`` are sorted by start."""
    start, starts = 0, [mention.start for mention in mentions]
    ends = [0, *accumulate((mention.end for mention in mentions), max)]  # ends[k]: largest end of the first k mentions
    for boundary in _END.finditer(text):
        if ends[bisect_left(starts, boundary.end())] > boundary.start():
            continue
        yield start, boundary.start()
        start = boundary.end()
    yield start, len(text)
