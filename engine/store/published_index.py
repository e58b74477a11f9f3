"""Index of the published runs in the home folder, which avoids opening their files.

It is only a cache and can be deleted at any time. Each row is valid for one state of its file (size and both times)
and one state of the engine's code, which decides whether a file is valid. Rows are compressed, which includes a
checksum. A damaged index is rebuilt; one that is locked, has another format or is not writable is ignored.
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
"""File name in the home folder."""
BUSY_SECONDS = 2.0
"""Seconds to wait while another program writes the index."""
_TABLE = "files_1"
"""Increase the number if the columns change: a table of another version stays unchanged."""
_COLUMNS = "folder BLOB, name BLOB, rules TEXT, size INT, modified INT, changed INT, about BLOB, last BLOB"
_PAGES = "PRAGMA page_size = 16384"
"""Page size in bytes of a new index: with 4,096, each row would fill a page of its own."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class File(NamedTuple):
    """The state of a file when its folder was listed.

    Attributes:
        path: Path of the file.
        size: Size in bytes.
        modified: Time of the last change of the content, in ns since 1970 UTC.
        changed: Time of the last change of content or metadata, likewise; programs cannot set it back.
    """

    path: str
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, entry: os.DirEntry[str]) -> "File":
        """Return the state of a directory entry. Raises OSError."""
        status = entry.stat()
        return cls(entry.path, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class Row(NamedTuple):
    """The index row of a valid file, each value as :func:`packed` returns it.

    Attributes:
        about: Values that a list of runs needs.
        last: The newest record.
    """

    about: bytes
    last: bytes


def packed(values: Mapping[str, Any]) -> bytes:
    """Return plain values as compressed JSON; :func:`unpacked` is the inverse."""
    return zlib.compress(json.dumps(values, separators=(",", ":")).encode(), 1)


def unpacked(kept: bytes) -> Any:
    """Return the values of compressed JSON. Raises ValueError if it is damaged."""
    try:
        return json.loads(zlib.decompress(kept))
    except (zlib.error, *UNREADABLE) as error:
        raise ValueError(f"damaged: {error}") from error


def rows(index: Path, folder: Path) -> dict[File, Row]:
    """Return the rows for the files in a folder; none if the index cannot be used."""
    if not index.is_file():
        return {}
    query = f"SELECT name, size, modified, changed, about, last FROM {_TABLE} WHERE folder = ? AND rules = ?"
    try:
        with closing(sqlite3.connect(index, timeout=BUSY_SECONDS)) as connection:
            records = connection.execute(query, (os.fsencode(folder), _rules())).fetchall()
        start = os.path.join(folder, "")
        return {File(start + os.fsdecode(name), *state): Row(about, last) for name, *state, about, last in records}
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) in _DAMAGED:
            _remove(index)
        return {}
    except (TypeError, ValueError):  # rows of another format
        return {}


def keep(index: Path, folder: Path, found: Mapping[File, Row]) -> None:
    """Write rows, replacing older ones of the same files; do nothing if the index cannot be written."""
    values = [(os.fsencode(folder), _name(file), _rules(), *file[1:], *row) for file, row in found.items()]
    with suppress(sqlite3.Error, OSError):
        index.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(index, timeout=BUSY_SECONDS)) as connection, connection:
            connection.execute(_PAGES)
            connection.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE} ({_COLUMNS}, PRIMARY KEY (folder, name))")
            connection.executemany(f"INSERT OR REPLACE INTO {_TABLE} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)


def forget(index: Path, folder: Path, gone: Iterable[File]) -> None:
    """Delete the rows of files that no longer exist."""
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
    """Return a checksum of everything that decides whether a file is valid, which takes 7 ms.

    It covers the engine's code and the checksums of the sentences that public features were fitted on.
    """
    digest = hashlib.sha256()
    for path in (*sorted((REPOSITORY / "engine").rglob("*.py")), contamination.CHECKSUMS):
        digest.update(path.read_bytes())
    return digest.hexdigest()
