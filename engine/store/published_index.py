"""What is known of the files of published runs without opening them: an index in the home, made once.

It only saves time. Each row holds for one state of its file (size, both times of it) and for one state of the engine's
code, which says what of a file is believed; for anything else there is no row. Rows are compressed, so that a checksum
goes with them. An index that is damaged is made anew; one that is locked, of another make or in a home that cannot be
written is done without. It can be deleted at any time.
"""

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from engine.embeddings import contamination
from engine.errors import UNREADABLE
from engine.settings import REPOSITORY

NAME = "published-index.sqlite"
"""Below the home."""
BUSY_SECONDS = 2.0
"""How long another program is waited for that is writing the index."""
_TABLE = "files_1"
"""Another number for other columns: a table of another version stays as it is."""
_COLUMNS = "folder BLOB, name BLOB, rules TEXT, size INT, modified INT, changed INT, about BLOB, last BLOB"
_PAGES = "PRAGMA page_size = 16384"
"""Bytes, where the index is made: of 4,096 a row would take a whole page."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class File(NamedTuple):
    """A file as it was when its folder was listed. size: bytes. modified, changed: when its content was, and when
    anything about it was, in ns since 1970 UTC; the second cannot be set back."""

    path: str
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, entry: os.DirEntry[str]) -> "File":
        """Raises OSError."""
        status = entry.stat()
        return cls(entry.path, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class Row(NamedTuple):
    """What is kept of a file that can be believed, each as :func:`packed`. about: what a list of runs needs. last: the
    newest record."""

    about: bytes
    last: bytes


def packed(values: Mapping[str, Any]) -> bytes:
    """Plain values; :func:`unpacked` is the inverse."""
    return zlib.compress(json.dumps(values, separators=(",", ":")).encode(), 1)


def unpacked(kept: bytes) -> Any:
    """Raises ValueError where it is damaged."""
    try:
        return json.loads(zlib.decompress(kept))
    except (zlib.error, *UNREADABLE) as error:
        raise ValueError(f"damaged: {error}") from error


def rows(index: Path, folder: Path) -> dict[File, Row]:
    """What is known of the files in a folder; nothing where the index cannot be used."""
    if not index.is_file():
        return {}
    query = f"SELECT name, size, modified, changed, about, last FROM {_TABLE} WHERE folder = ? AND rules = ?"
    try:
        with closing(sqlite3.connect(index, timeout=BUSY_SECONDS)) as connection:
            found = connection.execute(query, (os.fsencode(folder), _rules())).fetchall()
        start = os.path.join(folder, "")
        return {File(start + os.fsdecode(name), *state): Row(about, last) for name, *state, about, last in found}
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) in _DAMAGED:
            _remove(index)
        return {}
    except (TypeError, ValueError):  # rows of something else
        return {}


def keep(index: Path, folder: Path, found: Mapping[File, Row]) -> None:
    """Add rows in place of older ones of the same files; nothing where the index cannot be written."""
    values = [(os.fsencode(folder), _name(file), _rules(), *file[1:], *row) for file, row in found.items()]
    with suppress(sqlite3.Error, OSError):
        index.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(index, timeout=BUSY_SECONDS)) as connection, connection:
            connection.execute(_PAGES)
            connection.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE} ({_COLUMNS}, PRIMARY KEY (folder, name))")
            connection.executemany(f"INSERT OR REPLACE INTO {_TABLE} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)


def forget(index: Path, folder: Path, gone: Iterable[File]) -> None:
    """Remove the rows of files that are no longer there."""
    names = [(os.fsencode(folder), _name(file)) for file in gone]
    with suppress(sqlite3.Error), closing(sqlite3.connect(index, timeout=BUSY_SECONDS)) as connection, connection:
        connection.executemany(f"DELETE FROM {_TABLE} WHERE folder = ? AND name = ?", names)


def _name(file: File) -> bytes:
    return os.fsencode(os.path.basename(file.path))


def _remove(index: Path) -> None:
    for ending in ("", "-journal"):
        with suppress(OSError):
            index.with_name(index.name + ending).unlink()


@lru_cache(maxsize=1)
def _rules() -> str:
    """A checksum of all that decides what of a file is believed: the engine's code (7 ms), and the sentences that
    public features were fitted on."""
    whole = hashlib.sha256()
    for path in (*sorted((REPOSITORY / "engine").rglob("*.py")), contamination.CHECKSUMS):
        whole.update(path.read_bytes())
    return whole.hexdigest()
