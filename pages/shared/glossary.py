"""The glossary in ``docs/glossary.md``, as values: no streamlit."""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "docs" / "glossary.md"
"""The one place where terms are explained. An entry is a heading, a paragraph, ``Also:`` if need be, ``Source:``."""
MOST_WORDS = 60
"""Of an entry, its source left aside."""
_ENTRY = re.compile(
    r"## (?P<term>.+)\n(?P<text>.+\n(?:(?!Also:|Source:|## ).*\n)*)(?:Also: (?P<also>.+)\n)?Source: (?P<source>.+)\n"
)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One term. term: as it stands in the middle of a sentence, with its letter in brackets if it has one. text: plain
    words, then the formula. also: other forms that lead here. source: who says so."""

    term: str
    text: str
    also: tuple[str, ...]
    source: str

    @property
    def forms(self) -> tuple[str, ...]:
        """All ways to write it that a page is searched for: as they are, with a large first letter, with an s."""
        return (re.sub(r" \(.*\)", "", self.term), *self.also)

    @property
    def anchor(self) -> str:
        """Its name in links: small letters, digits and hyphens."""
        return re.sub(r"[^\w]+", "-", self.term.lower()).strip("-")

    def holds(self, words: str) -> bool:
        """Whether what somebody searches for occurs in it, whatever its case."""
        everything = " ".join((self.term, self.text, *self.also, self.source)).casefold()
        return all(word in everything for word in words.casefold().split())


@lru_cache(maxsize=1)
def entries() -> tuple[Entry, ...]:
    """All of them, in the order of the alphabet."""
    return parse(FILE.read_text(encoding="utf-8"))


def of(form: str) -> Entry | None:
    """The entry that a form leads to, as it stands or in the plural; None where there is none."""
    by_form = _by_form()
    return by_form.get(form) or by_form.get(form.removesuffix("s"))


@lru_cache(maxsize=1)
def _by_form() -> dict[str, Entry]:
    return {form: entry for entry in entries() for form in entry.forms}


def parse(text: str) -> tuple[Entry, ...]:
    """The entries of a file like ``docs/glossary.md``, without marks of emphasis; raises ValueError with the heading of
    one that lacks a part."""
    found = tuple(
        Entry(
            term=each["term"],
            text=" ".join(each["text"].replace("*", "").split()),
            also=tuple(form.strip() for form in (each["also"] or "").split(",") if form.strip()),
            source=each["source"].replace("*", ""),
        )
        for each in _ENTRY.finditer(text)
    )
    complete = {entry.term for entry in found}
    for heading in re.findall(r"(?m)^## (.+)$", text):
        if heading not in complete:
            raise ValueError(f"the glossary's entry {heading!r} lacks its text or its source")
    return found
