"""Text → sentences and tokens, each with its place in the text.

spaCy's rules for English, without any model, but for one: words with a hyphen stay whole, as they are in the corpora
that taggers learn from. What the rules cannot read is read as U+FFFD, character by character, so that
places stay what they are. Their time grows with the square of the length of a stretch without spaces, and memory with a
sentence's, so both are cut: a page of brackets would take minutes.
"""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

LONGEST_WORD, LONGEST_SENTENCE = 200, 256
"""Characters of a stretch without spaces and tokens of a sentence that are read together; the rest begins anew."""
_UNREADABLE = re.compile("[\x00\ud800-\udfff]")
_TOO_LONG = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")


@dataclass(frozen=True)
class Tokens:
    """A text and what it is made of. spans: where each token starts and ends, in characters; tokens do not overlap, and
    nothing but white space lies between them. offsets: the first token of each sentence, and the end."""

    text: str
    spans: tuple[tuple[int, int], ...]
    offsets: tuple[int, ...]

    @cached_property
    def sentences(self) -> list[list[str]]:
        """The words of each sentence, as taggers read them."""
        words = [readable(self.text[start:end]) for start, end in self.spans]
        return [words[first:last] for first, last in pairwise(self.offsets)]


def readable(text: str) -> str:
    """The text without NUL and halves of characters, as long as it was."""
    return _UNREADABLE.sub("\ufffd", text)


def split(text: str) -> Tokens:
    """The sentences and tokens of a text; a blank line ends a sentence too."""
    spans: list[tuple[int, int]] = []
    offsets: list[int] = []
    begins = True
    clean = readable(text)
    for start, end in pairwise(_cuts(clean)):
        for token in _english()(clean[start:end]):
            if token.is_space:
                begins = begins or token.text.count("\n") > 1
                continue
            begins = begins or (bool(token.is_sent_start) and token.i > 0)
            if begins or len(spans) - offsets[-1] == LONGEST_SENTENCE:
                offsets.append(len(spans))
                begins = False
            spans.append((start + token.idx, start + token.idx + len(token)))
    return Tokens(text, tuple(spans), (*offsets, len(spans)))


def _cuts(text: str) -> list[int]:
    """Where the text is cut before spaCy reads it: nowhere but in what is too long."""
    inside = (
        place for found in _TOO_LONG.finditer(text) for place in range(found.start(), found.end(), LONGEST_WORD)[1:]
    )
    return [0, *inside, len(text)]


@lru_cache(maxsize=1)
def _english() -> Any:
    import spacy
    from spacy.lang.char_classes import ALPHA, HYPHENS
    from spacy.util import compile_infix_regex

    language: Any = spacy.blank("en")
    language.add_pipe("sentencizer")
    rules = [rule for rule in language.Defaults.infixes or [] if f"(?:{HYPHENS})" not in rule]
    dashes = "|".join(each for each in HYPHENS.split("|") if each != "-")
    language.tokenizer.infix_finditer = compile_infix_regex(
        [*rules, rf"(?<=[{ALPHA}0-9])(?:{dashes})(?=[{ALPHA}])"]
    ).finditer
    language.max_length = 2**31  # no model reads the text, so its length costs no memory
    return language
