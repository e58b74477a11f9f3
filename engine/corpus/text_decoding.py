"""Bytes from outside → text: what all readers of corpora refuse, in the same sentences."""

import re
from collections.abc import Iterator

from engine.errors import CorpusError

MAX_BYTES = 50_000_000
"""Largest upload."""
LARGEST_FILE = 500_000_000
"""Bytes that are read of a file that lies on this machine."""
MAX_LINE = 1_000_000
"""Longest line in bytes; a longer one is not a token and its tag."""


_AT_ONCE = 1_000_000
"""Characters that are cut into lines at once."""


def decode_lines(data: bytes, name: str) -> Iterator[str]:
    """The lines of a text file one after another, whatever ends them there: of a large file never all at once. name: is
    used in messages. Raises CorpusError with the file and what is wrong with it, with the first line."""
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not data or data.isspace():
        raise CorpusError(f"{name} is empty")
    text = decode_text(data, name)
    del data
    start = 0
    while (end := text.rfind("\n", start, start + _AT_ONCE)) >= 0 or (end := text.find("\n", start)) >= 0:
        yield from text[start:end].split("\n")
        start = end + 1
    yield text[start:]


def decode_text(data: bytes, name: str) -> str:
    """A text file character by character, for those who count them; it may be empty. Raises CorpusError."""
    if len(data) > LARGEST_FILE:
        raise CorpusError(f"{name} has {len(data):,} bytes, expected at most {LARGEST_FILE:,}")
    start = 0
    while len(data) - start > MAX_LINE:
        end = data.rfind(b"\n", start, start + MAX_LINE + 1)
        if end < 0:
            number, length = data.count(b"\n", 0, start) + 1, len(data[start:].split(b"\n", 1)[0])
            raise CorpusError(f"{name} has {length:,} bytes in line {number:,}, expected at most {MAX_LINE:,}")
        start = end + 1
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


def quote(value: str) -> str:
    """A value in a message, its beginning if it is long."""
    return repr(value if len(value) <= 40 else value[:40] + "…")
