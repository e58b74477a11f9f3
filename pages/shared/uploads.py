"""Uploaded files until they are added as corpora: on disk, for their owner only, and for a short time.

Streamlit keeps a file in memory until its session ends. The middleware (:mod:`pages.startup.gate`) writes it to disk
instead, and gives Streamlit a reference, which :func:`content` replaces by the file's content.
"""

import atexit
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import psutil

from engine.corpus.text_decoding import MAX_BYTES
from engine.errors import CorpusError
from engine.settings import Settings

MOST_OF_USER = 4 * MAX_BYTES
"""Bytes of one user's files that wait to be added; a further one replaces the oldest."""
MOST_OF_SERVER = 20 * MAX_BYTES
"""Bytes of all such files."""
LEAST_FREE = 500_000_000
"""Bytes that stay free on the disk."""
KEPT_SECONDS = 3600.0
"""A file that is not added is deleted after this time, or a minute after its browser's last connection ended."""
_PREFIX = "epsilon-upload:"


class UploadRefused(Exception):
    """The file would exceed a limit; the message names it."""


@dataclass(frozen=True)
class _Upload:
    path: Path
    file_id: str
    visit: str
    user: str
    size: int
    begun: float


@dataclass
class Uploads:
    """Uploaded files that wait to be added; methods may be called from all threads.

    Args:
        folder: Folder of the files.
        clock: Seconds that never decrease.
    """

    folder: Path
    clock: Callable[[], float] = time.monotonic
    _files: dict[str, _Upload] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def reserve(self, file_id: str, visit: str, user: str, size: int) -> str:
        """Reserve space for a file; return its reference, the text that Streamlit keeps in its place.

        Args:
            file_id: Streamlit's identity of the file.
            visit: Cookie of the browser that sends it.
            user: Name of its user.
            size: Bytes of the file, at most.

        Raises:
            UploadRefused: If a limit would be exceeded.
        """
        self.clean()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock:
            own = sum(each.size for each in self._files.values() if each.user == user)
            everything = sum(each.size for each in self._files.values())
            for key in [key for key, each in self._files.items() if each.user == user]:  # the oldest first
                if own + size > MOST_OF_USER:  # such as files of a page that was reloaded
                    own -= self._files[key].size
                    everything -= self._files[key].size
                    self._delete(key)
            if everything + size > MOST_OF_SERVER or shutil.disk_usage(self.folder).free - size < LEAST_FREE:
                raise UploadRefused("the server has no space for more files now; try again later")
            name = secrets.token_urlsafe(24)
            self._files[_PREFIX + name] = _Upload(self.folder / name, file_id, visit, user, size, self.clock())
            return _PREFIX + name

    def path(self, reference: str) -> Path:
        """Return the file of a reference; for writing before :meth:`content`."""
        return self._files[reference].path

    def content(self, data: bytes, visit: str | None) -> bytes:
        """Return the content of the file that a reference names; other data are returned as they are.

        Args:
            data: What Streamlit keeps for the file.
            visit: Cookie of the browser that asks.

        Raises:
            CorpusError: If the file was deleted, since it waited too long.
        """
        self.clean()
        text = data[:100].decode("utf-8", "replace")
        if not text.startswith(_PREFIX) or len(data) > 100:
            return data
        upload = self._files.get(text)
        try:
            if upload is not None and upload.visit == visit:
                return upload.path.read_bytes()
        except OSError:
            pass
        raise CorpusError("The uploaded file is no longer on the server: upload it again.")

    def drop(self, *, reference: str | None = None, file_id: str | None = None, visit: str | None = None) -> None:
        """Delete the files with this reference, or this identity, or of this browser."""
        with self._lock:
            for key, each in list(self._files.items()):
                if reference == key or file_id == each.file_id or visit == each.visit:
                    self._delete(key)

    def clean(self) -> None:
        """Delete files that have waited too long."""
        with self._lock:
            for key, each in list(self._files.items()):
                if each.begun < self.clock() - KEPT_SECONDS:
                    self._delete(key)

    def _delete(self, reference: str) -> None:
        with suppress(OSError):
            self._files.pop(reference).path.unlink(missing_ok=True)


@cache
def of_this_server() -> Uploads:
    """Return the uploads of this process, which scripts of all sessions and the middleware share."""
    folder = Settings.from_environment().home / "incoming"
    own = folder / str(os.getpid())
    for left in folder.glob("*"):  # of servers that were killed
        if left == own or not _is_in_use(left):
            shutil.rmtree(left, ignore_errors=True)
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return Uploads(own)


def _is_in_use(folder: Path) -> bool:
    """Return whether the process of a folder runs; another one may have its number, and is younger than the folder."""
    try:
        return bool(psutil.Process(int(folder.name)).create_time() <= folder.stat().st_mtime)
    except (ValueError, OSError, psutil.Error):
        return False
