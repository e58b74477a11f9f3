"""Texts with mentions by character offsets → sentences in BIO2.

Tokens are runs of letters and digits, and every other visible character by itself, whatever is mentioned where: cut at
mentions, tokens would tell a tagger what it is to find. A mention that begins or ends within a token covers all of it.

A token has one tag, so of mentions that overlap one is kept: the longest, of equally long ones the first. What is left
out is counted, by reason.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from engine.corpus.sentences import Sentence

NESTED, DISCONTINUOUS, ASTRAY = "within or across a longer mention", "in several pieces", "not where its offsets say"
"""Why mentions are left out."""

_TOKEN = re.compile(r"[^\W_]+|[^\w\s]|_")


class Mention(NamedTuple):
    """Characters from start up to end of a text, and their type."""

    start: int
    end: int
    kind: str


def tagged(text: str, mentions: Iterable[Mention], document: int | None, left_out: Counter[str]) -> Sentence | None:
    """One sentence; None where it has no token. left_out: counts up what is not kept."""
    tokens = list(_TOKEN.finditer(text))
    tags = ["O"] * len(tokens)
    starts, ends = [token.start() for token in tokens], [token.end() for token in tokens]
    for mention in sorted(set(mentions), key=lambda each: (each.start - each.end, each.start, each.kind)):
        covered = range(bisect_right(ends, mention.start), bisect_left(starts, mention.end))
        if not covered:
            left_out[ASTRAY] += 1
        elif any(tags[place] != "O" for place in covered):
            left_out[NESTED] += 1
        else:
            for place in covered:
                tags[place] = f"I-{mention.kind}"
            tags[covered[0]] = f"B-{mention.kind}"
    return Sentence(tuple(token[0] for token in tokens), tuple(tags), document) if tokens else None
