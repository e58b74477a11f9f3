"""The entries of the glossary in ``docs/glossary.md``. Does not use Streamlit."""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "docs" / "glossary.md"
"""The only file that explains terms. An entry is a heading, a paragraph, an optional ``Also:``, and ``Source:``."""
MOST_WORDS = 60
"""Maximum number of words of an entry without its source, so that it fits in a tooltip."""
_ENTRY = re.compile(
    r"## (?P<term>.+)\n(?P<text>.+\n(?:(?!Also:|Source:|## ).*\n)*)(?:Also: (?P<also>.+)\n)?Source: (?P<source>.+)\n"
)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An entry of the glossary.

    Attributes:
        term: The term as in the middle of a sentence, with its symbol in brackets if it has one.
        text: The explanation in plain words, then the formula.
        also: Other forms of the term that have this entry.
        source: Publication or document that the entry is based on.
    """

    term: str
    text: str
    also: tuple[str, ...]
    source: str

    @property
    def forms(self) -> tuple[str, ...]:
        """Forms of the term in a page's text; each also matches with a capital first letter and with a plural s."""
        return (re.sub(r" \(.*\)", "", self.term), *self.also)

    @property
    def anchor(self) -> str:
        """Name of the entry in links: lower-case letters, digits and hyphens."""
        return re.sub(r"[^\w]+", "-", self.term.lower()).strip("-")

    def holds(self, words: str) -> bool:
        """Return whether all words of a search occur in the entry, in upper or lower case."""
        everything = " ".join((self.term, self.text, *self.also, self.source)).casefold()
        return all(word in everything for word in words.casefold().split())


@lru_cache(maxsize=1)
def entries() -> tuple[Entry, ...]:
    """Return all entries in alphabetical order."""
    return parse(FILE.read_text(encoding="utf-8"))


def of(form: str) -> Entry | None:
    """Return the entry of a form in the singular or plural, or None if it has no entry."""
    by_form = _by_form()
    return by_form.get(form) or by_form.get(form.removesuffix("s"))


@lru_cache(maxsize=1)
def _by_form() -> dict[str, Entry]:
    return {form: entry for entry in entries() for form in entry.forms}


def parse(text: str) -> tuple[Entry, ...]:
    """Return the entries of a file like ``docs/glossary.md``, without marks of emphasis.

    Raises:
        ValueError: An entry has no text or no source; the message has its heading.
    """
    parsed = tuple(
        Entry(
            term=match["term"],
            text=" ".join(match["text"].replace("*", "").split()),
            also=tuple(form.strip() for form in (match["also"] or "").split(",") if form.strip()),
            source=match["source"].replace("*", ""),
        )
        for match in _ENTRY.finditer(text)
    )
    complete = {entry.term for entry in parsed}
    for heading in re.findall(r"(?m)^## (.+)$", text):
        if heading not in complete:
            raise ValueError(f"the glossary's entry {heading!r} lacks its text or its source")
    return parsed
