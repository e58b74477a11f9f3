"""Word shape as a few bits with a fixed meaning, so that it reveals nothing about any text."""

from collections.abc import Callable, Iterable

import numpy as np

_TESTS: tuple[Callable[[str], bool], ...] = (
    str.islower,
    lambda word: word[:1].isupper() and word[1:].islower(),
    lambda word: len(word) > 1 and word.isupper(),
    lambda word: len(word) == 1 and word.isupper(),
    lambda word: word[:1].isupper(),
    lambda word: any(c.isupper() for c in word[1:]) and any(c.islower() for c in word),
    str.isdigit,
    lambda word: any(c.isdigit() for c in word),
    lambda word: not any(c.isalnum() for c in word),
    lambda word: "-" in word,
    lambda word: "." in word,
    lambda word: "'" in word,
    lambda word: "/" in word,
    lambda word: len(word) == 1,
    lambda word: len(word) == 2,
    lambda word: len(word) == 3,
    lambda word: len(word) > 8,
)
SIZE = len(_TESTS)
CASES = 8
"""Number of spelling classes that :func:`case` distinguishes."""


def shapes(words: Iterable[str]) -> np.ndarray:
    """Return the bits of each word, float32 [words, SIZE]."""
    words = list(words)
    known = {word: [test(word) for test in _TESTS] for word in set(words)}
    return np.array([known[word] for word in words], np.float32).reshape(len(words), SIZE)


def case(word: str) -> int:
    """Return one of ``CASES`` spelling classes, for a model that reads words in lower case."""
    if word.isdigit():
        return 1
    if any(c.isdigit() for c in word):
        return 2
    if not any(c.isalpha() for c in word):
        return 3
    if len(word) > 1 and word.isupper():
        return 4
    if word[0].isupper():
        return 5 if word[1:].islower() or len(word) == 1 else 6
    return 0 if word.islower() else 7
