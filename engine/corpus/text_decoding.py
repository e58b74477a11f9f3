"""Decoding of untrusted bytes to text, with the same checks and messages for all corpus readers."""

import codecs
import re
from collections.abc import Iterator

from engine.errors import CorpusError

MAX_BYTES = 50_000_000
"""Largest accepted upload in bytes."""
LARGEST_FILE = 500_000_000
"""Largest local file that is read, in bytes."""
MAX_LINE = 1_000_000
"""Longest accepted line in bytes; a longer one cannot be a token and its tag."""


_CHUNK_SIZE = 1_000_000
"""Characters split into lines at a time, to limit memory."""


def decode_lines(data: bytes, name: str, *, by_line: bool = False) -> Iterator[str]:
    """Yield the lines of a text file, with any line ending.

    A large file is split in chunks, never as a whole.

    Args:
        data: Content of the file, as UTF-8 or else Latin-1.
        name: Name of the file in error messages.
        by_line: Whether the encoding of each line is determined alone, so that no line changes how others are read.

    Raises:
        CorpusError: If the content is not text, at the first line; names the file and the problem.
    """
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not data or data.isspace():
        raise CorpusError(f"{name} is empty")
    text = decode_text(data, name, by_line=by_line)
    del data
    start = 0
    while (end := text.rfind("\n", start, start + _CHUNK_SIZE)) >= 0 or (end := text.find("\n", start)) >= 0:
        yield from text[start:end].split("\n")
        start = end + 1
    yield text[start:]


def decode_text(data: bytes, name: str, *, by_line: bool = False) -> str:
    """Return the content of a text file without changing its characters.

    Character offsets therefore stay valid. The text may be empty.

    Args:
        data: Content of the file, as UTF-8 or else Latin-1.
        name: Name of the file in error messages.
        by_line: As in :func:`decode_lines`.

    Raises:
        CorpusError: If the file is too large, has a line that is too long, or has binary bytes.
    """
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
        if by_line:
            return "\n".join(map(_decode_line, data.removeprefix(codecs.BOM_UTF8).split(b"\n")))
        return data.decode("latin-1")


def _decode_line(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


def quote(value: str) -> str:
    """Return a quoted value for a message, shortened to 40 characters."""
    return repr(value if len(value) <= 40 else value[:40] + "…")
