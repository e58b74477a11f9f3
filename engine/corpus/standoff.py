"""Standoff annotations (character offsets) converted to sentences in BIO2.

Tokens are runs of letters and digits; every other visible character is a token of its own. Mentions do not influence
tokenisation: tokens cut at mentions would reveal the entities to the tagger. A mention that begins or ends within a
token covers the whole token.

A token has one tag. Of overlapping mentions the longest is kept, or the first among equally long ones. Mentions that
are left out are counted by reason.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from engine.corpus.sentences import Sentence

NESTED, DISCONTINUOUS, ASTRAY = "within or across a longer mention", "in several pieces", "not where its offsets say"
"""Reasons for leaving a mention out."""

_TOKEN = re.compile(r"[^\W_]+|[^\w\s]|_")


class Mention(NamedTuple):
    """A mention: its first character, the character after its last one, and its entity type."""

    start: int
    end: int
    kind: str


def tagged(text: str, mentions: Iterable[Mention], document: int | None, left_out: Counter[str]) -> Sentence | None:
    """Tag the tokens of one sentence.

    Args:
        text: The sentence.
        mentions: Mentions by character offsets within ``text``.
        document: Number of the sentence's document, or None.
        left_out: Counts of mentions left out, by reason; updated in place.

    Returns:
        The sentence in BIO2, or None if the text has no token.
    """
    tokens = list(_TOKEN.finditer(text))
    tags = ["O"] * len(tokens)
    starts, ends = [token.start() for token in tokens], [token.end() for token in tokens]
    for mention in sorted(set(mentions), key=lambda span: (span.start - span.end, span.start, span.kind)):
        covered = range(bisect_right(ends, mention.start), bisect_left(starts, mention.end))
        if not covered:
            left_out[ASTRAY] += 1
        elif any(tags[index] != "O" for index in covered):
            left_out[NESTED] += 1
        else:
            for index in covered:
                tags[index] = f"I-{mention.kind}"
            tags[covered[0]] = f"B-{mention.kind}"
    return Sentence(tuple(token[0] for token in tokens), tuple(tags), document) if tokens else None
