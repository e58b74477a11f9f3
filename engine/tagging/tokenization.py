"""Tokenisation of a text into sentences and tokens with their positions.

These are spaCy's rules for English without a model, with one change: words with a hyphen stay whole, as in the training
corpora. Characters that the rules cannot read are replaced by U+FFFD one by one, so that positions stay valid. The
rules' time grows with the square of the length of a run without spaces, and memory with that of a sentence. Both are
therefore limited: a page of brackets would take minutes.
"""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

LONGEST_WORD, LONGEST_SENTENCE = 200, 256
"""Limits of a run without spaces, in characters, and of a sentence, in tokens; longer ones are split."""
_UNREADABLE = re.compile("[\x00\ud800-\udfff]")
_TOO_LONG = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")


@dataclass(frozen=True)
class Tokens:
    """A text with its tokens.

    Attributes:
        text: The text.
        spans: Start and end of each token, in characters. Tokens do not overlap, and only white space separates them.
        offsets: The first token of each sentence, and the end.
    """

    text: str
    spans: tuple[tuple[int, int], ...]
    offsets: tuple[int, ...]

    @cached_property
    def sentences(self) -> list[list[str]]:
        """The words of each sentence, as taggers read them."""
        words = [readable(self.text[start:end]) for start, end in self.spans]
        return [words[first:last] for first, last in pairwise(self.offsets)]


def readable(text: str) -> str:
    """Return the text, of the same length, with NUL and unpaired surrogates replaced."""
    return _UNREADABLE.sub("\ufffd", text)


def split(text: str) -> Tokens:
    """Split a text into sentences and tokens; a blank line also ends a sentence."""
    spans: list[tuple[int, int]] = []
    offsets: list[int] = []
    new_sentence = True
    clean = readable(text)
    for start, end in pairwise(_cuts(clean)):
        for token in _english()(clean[start:end]):
            if token.is_space:
                new_sentence = new_sentence or token.text.count("\n") > 1
                continue
            new_sentence = new_sentence or (bool(token.is_sent_start) and token.i > 0)
            if new_sentence or len(spans) - offsets[-1] == LONGEST_SENTENCE:
                offsets.append(len(spans))
                new_sentence = False
            spans.append((start + token.idx, start + token.idx + len(token)))
    return Tokens(text, tuple(spans), (*offsets, len(spans)))


def _cuts(text: str) -> list[int]:
    """Return where the text is cut before spaCy reads it: only within runs that are too long."""
    inside = (cut for match in _TOO_LONG.finditer(text) for cut in range(match.start(), match.end(), LONGEST_WORD)[1:])
    return [0, *inside, len(text)]


@lru_cache(maxsize=1)
def _english() -> Any:
    import spacy
    from spacy.lang.char_classes import ALPHA, HYPHENS
    from spacy.util import compile_infix_regex

    language: Any = spacy.blank("en")
    language.add_pipe("sentencizer")
    rules = [rule for rule in language.Defaults.infixes or [] if f"(?:{HYPHENS})" not in rule]
    dashes = "|".join(dash for dash in HYPHENS.split("|") if dash != "-")
    language.tokenizer.infix_finditer = compile_infix_regex(
        [*rules, rf"(?<=[{ALPHA}0-9])(?:{dashes})(?=[{ALPHA}])"]
    ).finditer
    language.max_length = 2**31  # no model reads the text, so its length costs no memory
    return language
