"""Bytes from outside → text: what all readers of corpora refuse, in the same sentences."""

import re

from engine.errors import CorpusError

MAX_BYTES = 50_000_000
"""Largest file that is read."""
MAX_LINE = 1_000_000
"""Longest line in bytes; a longer one is not a token and its tag."""


def lines_of(data: bytes, name: str) -> list[str]:
    """The lines of a text file, whatever ends them there. name: is used in messages. Raises CorpusError with the file
    and what is wrong with it."""
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not data.strip():
        raise CorpusError(f"{name} is empty")
    return text_of(data, name).split("\n")


def text_of(data: bytes, name: str) -> str:
    """A text file character by character, for those who count them; it may be empty. Raises CorpusError."""
    if len(data) > MAX_BYTES:
        raise CorpusError(f"{name} has {len(data):,} bytes, expected at most {MAX_BYTES:,}")
    for number, line in enumerate(data.split(b"\n"), start=1):
        if len(line) > MAX_LINE:
            raise CorpusError(f"{name} has {len(line):,} bytes in line {number:,}, expected at most {MAX_LINE:,}")
    control = re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]", data)
    if control:
        line_number = data.count(b"\n", 0, control.start()) + 1
        raise CorpusError(
            f"{name} has the binary byte 0x{control[0][0]:02x} in line {line_number:,}, expected a text file"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def shown(value: str) -> str:
    """A value in a message, its beginning if it is long."""
    return repr(value if len(value) <= 40 else value[:40] + "…")
