"""Backups: a zip of a home's files, with a manifest that lists size, time and SHA-256 of each.

A zip has no links, devices or extension headers. The manifest is the last member, so that a backup that was cut off has
none. A backup that is read is untrusted: nothing is written before the whole file has been verified, and no member gets
a name that :func:`is_saved` excludes.
"""

import hashlib
import json
import os
import sqlite3
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO
from urllib.parse import quote

from engine import VERSION
from engine.errors import UNREADABLE, InvalidConfig, StoreError
from engine.store.published_index import NAME as PUBLISHED_INDEX
from engine.store.schema import BUSY_SECONDS

FORMAT = 1
"""Increase the number if an older program could not read the format."""
_MANIFEST = "manifest.json"
_MAX_MANIFEST = 200_000_000
"""Largest manifest that is read, in bytes: about a million files."""
_CHUNK = 1 << 20
_LONGEST_PART = 255
"""Largest number of bytes in the name of a file or folder on Linux and macOS."""
_NOT_SAVED = ("cluster", "encoded", "incoming", "locks", "vectors")
"""Folders of running processes, of uploads that are not saved yet, and of files that are computed again."""
_CORPORA = ("corpora", "fetched")
_TEMPORARY = (".passing-", ".upload-", ".restored")
_KEYS = (".key", ".pem")
_BESIDE_DATABASES = ("-journal", "-shm", "-wal")
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
"""Errors raised while reading a damaged zip file."""

Tell = Callable[[str, float], None]
"""Takes the stage in words and the progress from 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A file of a backup.

    Attributes:
        size: Size in bytes.
        sha256: SHA-256 of its content, in hexadecimal.
        modified: Time of the last change, seconds since 1970 UTC.
    """

    size: int
    sha256: str
    modified: float


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of a backup.

    Attributes:
        version: Version of the program that wrote it.
        created: Time of its start, in ISO 8601.
        database: Name of the SQLite database among the members; None if the runs are in a PostgreSQL database.
        members: The files by name, relative to the home.
    """

    version: str
    created: str
    database: str | None
    members: Mapping[str, Member]

    @property
    def size(self) -> int:
        """Size of all files in bytes."""
        return sum(member.size for member in self.members.values())


def is_saved(name: str) -> bool:
    """Return whether backups contain a file with this name: no keys, temporary files, or caches."""
    parts = PurePosixPath(name).parts
    if parts[0] in _NOT_SAVED or any(part.startswith(_TEMPORARY) for part in parts):
        return False
    if parts[0] not in _CORPORA and name.endswith((*_KEYS, *_BESIDE_DATABASES)):
        return False
    return name != PUBLISHED_INDEX


class Writer:
    """Adds files to a new backup."""

    def __init__(self, file: zipfile.ZipFile, database: str | None) -> None:
        self._zip, self._database, self._members = file, database, dict[str, Member]()
        self._created = datetime.now(UTC).isoformat(timespec="seconds")

    def add(self, name: str, path: Path) -> int:
        """Add a file and return its size; do nothing if it no longer exists. Raises OSError."""
        try:
            file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")
        except FileNotFoundError:  # deleted since the folder was listed
            return 0
        with file:
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_STORED if name.endswith(".npz") else zipfile.ZIP_DEFLATED
            info.external_attr = 0o600 << 16
            digest, size, modified = hashlib.sha256(), 0, os.fstat(file.fileno()).st_mtime
            with self._zip.open(info, "w", force_zip64=True) as target:
                for chunk in _chunks(file):
                    digest.update(chunk)
                    size += target.write(chunk)
        self._members[name] = Member(size=size, sha256=digest.hexdigest(), modified=modified)
        return size

    def finish(self) -> Manifest:
        """Write the manifest and return it."""
        manifest = Manifest(
            version=VERSION, created=self._created, database=self._database, members=dict(self._members)
        )
        self._zip.writestr(_MANIFEST, json.dumps({"format": FORMAT} | asdict(manifest), indent=1))
        return manifest


@contextmanager
def writing(path: Path, database: str | None) -> Iterator[Writer]:
    """Yield the writer of a new backup; the caller adds the files, then calls :meth:`Writer.finish`.

    Args:
        path: The file to write.
        database: Name of the SQLite database among the members, or None.
    """
    with zipfile.ZipFile(path, "w", compresslevel=1) as file:
        yield Writer(file, database)


def verify(path: Path, tell: Tell = lambda stage, share: None) -> Manifest:
    """Read a whole backup, compare each file with the manifest, and return the manifest.

    Raises:
        InvalidConfig: If the backup is not complete, was changed, is of a newer format, or has a name that leads out of
            the home or belongs to no file of a backup.
    """
    with _reading(path) as file:
        manifest = _manifest(file, path)
        done = 0
        for name, member in manifest.members.items():
            with file.open(name) as content:
                if _checksum(content, member.size) != member.sha256:
                    raise InvalidConfig(f"{path} is damaged: {name} differs from its checksum in the manifest")
            done += member.size
            tell("checking the backup", done / max(1, manifest.size))
    return manifest


def extract(path: Path, manifest: Manifest, folder: Path, tell: Tell) -> None:
    """Write all files of a verified backup into an empty folder, and verify what was written.

    Raises:
        InvalidConfig: If the backup was changed since it was verified.
        StoreError: If the disk returns other content than was written.
        OSError: If a file cannot be written.
    """
    done = 0
    with _reading(path) as file:
        for name, member in manifest.members.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            left = member.size
            with file.open(name) as content, target.open("xb") as made:
                for chunk in _chunks(content):
                    left -= len(chunk)
                    if left < 0:
                        break
                    made.write(chunk)
                made.flush()
                os.fsync(made.fileno())
            if left:
                raise InvalidConfig(f"{path} was changed while it was read: {name} has another size")
            os.utime(target, (member.modified, member.modified))
            done += member.size
            tell("writing", done / max(1, manifest.size))
    for name, member in manifest.members.items():
        with (folder / name).open("rb") as written:
            if _checksum(written, member.size) != member.sha256:
                raise StoreError(f"{name} differs from its checksum after it was written. The disk may be damaged.")


def copy_database(source: Path, target: Path) -> None:
    """Copy an SQLite database in its state at one moment, while other programs may write; check the copy.

    Raises:
        StoreError: If it cannot be read, or the copy is damaged.
    """
    try:
        with (
            closing(sqlite3.connect(f"file:{quote(str(source))}?mode=ro", uri=True, timeout=BUSY_SECONDS)) as original,
            closing(sqlite3.connect(target)) as copy,
        ):
            original.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
            problem = copy.execute("PRAGMA integrity_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        raise StoreError(f"The database {source} cannot be copied: {error}.") from error
    if problem != "ok":
        raise StoreError(f"The database {source} is damaged: {problem}.")


@contextmanager
def _reading(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as file:
            yield file
    except _DAMAGED as error:
        raise InvalidConfig(f"{path} is not a complete backup: {error}") from error
    except FileNotFoundError as error:
        raise InvalidConfig(f"{path} cannot be read: {error.strerror}") from error


def _manifest(file: zipfile.ZipFile, path: Path) -> Manifest:
    """Return the manifest after a check of all names. Raises InvalidConfig."""
    entries = {entry.filename: entry for entry in file.infolist()}
    if len(entries) != len(file.infolist()) or _MANIFEST not in entries:
        raise InvalidConfig(f"{path} is not a complete backup: it has no manifest, or two files of one name")
    with file.open(_MANIFEST) as content:
        text = content.read(_MAX_MANIFEST + 1)
    try:
        if len(text) > _MAX_MANIFEST:
            raise ValueError(f"more than {_MAX_MANIFEST:,} bytes")
        values = json.loads(text)
        number = int(values["format"])
        if number <= FORMAT:
            members = {str(name): _member(each) for name, each in values["members"].items()}
            database = values["database"]
            if database is not None and database not in members:
                raise ValueError(f"database {database!r}")
            manifest = Manifest(
                version=str(values["version"]), created=str(values["created"]), database=database, members=members
            )
    except UNREADABLE as error:
        raise InvalidConfig(f"{path} is not a backup: its manifest cannot be read ({error})") from error
    if number > FORMAT:
        raise InvalidConfig(f"{path} has format {number}, expected at most {FORMAT}: install a newer version")
    if members.keys() != entries.keys() - {_MANIFEST}:
        differing = min(members.keys() ^ (entries.keys() - {_MANIFEST}))
        raise InvalidConfig(f"{path} is damaged: {differing!r} is not in both the archive and its manifest")
    for name in members:
        _refuse_name(name, members, path)
        if entries[name].file_size != members[name].size:
            raise InvalidConfig(f"{path} is damaged: {name} has another size than in the manifest")
    return manifest


def _member(values: Mapping[str, object]) -> Member:
    size, sha256, modified = values["size"], values["sha256"], values["modified"]
    if not isinstance(size, int) or size < 0 or not isinstance(sha256, str) or not isinstance(modified, int | float):
        raise ValueError(f"a file with {values!r}")
    return Member(size=size, sha256=sha256, modified=float(modified))


def _refuse_name(name: str, members: Mapping[str, Member], path: Path) -> None:
    """Raise InvalidConfig for a name that leads out of the home, or that no backup contains."""
    parts = name.split("/")
    plain = all(part not in ("", ".", "..") and len(part.encode()) <= _LONGEST_PART for part in parts)
    parents = ("/".join(parts[:number]) for number in range(1, len(parts)))
    if not plain or "\0" in name or not is_saved(name) or any(parent in members for parent in parents):
        raise InvalidConfig(f"{path} has {name!r}, which is not a file of a backup: nothing was restored")


def _checksum(file: IO[bytes], size: int) -> str:
    """Return the SHA-256 of a file, or "" if it has more bytes than expected; no more are read."""
    digest = hashlib.sha256()
    for chunk in _chunks(file):
        digest.update(chunk)
        size -= len(chunk)
        if size < 0:
            return ""
    return digest.hexdigest()


def _chunks(file: IO[bytes] | BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk
