"""Files that runs share: corpora by checksum, encoded arrays, features, layouts, checkpoints, models.

Each has a name such as ``layouts/3f2a.npz`` and lies below one address: a folder of this machine by default, or any
address that fsspec knows (a shared folder, an object store), so that a worker on another machine finds by name what it
needs. What is read is a file here, since arrays are memory-mapped: where the address is elsewhere it is brought to a
folder of this machine first, once.

Everything is written whole, and then takes its place: a reader, or a crash, sees the old one or the new one.
"""

import fcntl
import os
import shutil
import socket
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any

from engine.errors import StoreError

_PASSING = ".passing-"
"""How the folders begin in which files are written before they take their place."""
_POLL = 0.2
"""Seconds between two looks at a lock that another process has."""


@contextmanager
def atomic_write(path: Path, what: str, *, folder: bool = False) -> Iterator[Path]:
    """A path to write a file at, or a folder to fill, which becomes ``path`` at the end of the block; nothing remains
    where the block raises. A folder that is there already stays as it is.

    what: begins the sentence of the StoreError that is raised where it cannot be written.
    """
    passing: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path.parent)
        passing = Path(tempfile.mkdtemp(dir=path.parent, prefix=f"{_PASSING}{os.getpid()}@{socket.gethostname()}@"))
        made = passing / path.name
        if folder:
            made.mkdir()
        yield made
        if not folder:
            with made.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(made, path)
        elif not path.exists():
            with suppress(FileExistsError):  # somebody else was first, with the same content
                made.rename(path)
    except OSError as error:
        raise StoreError(f"{what} cannot be written to {path}: {error.strerror or error}.") from error
    finally:
        if passing is not None:
            shutil.rmtree(passing, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Remove what processes of this machine had begun to write when they were killed."""
    for left in folder.glob(f"{_PASSING}*"):
        pid, host, *_ = (*left.name.removeprefix(_PASSING).split("@"), "")
        if host == socket.gethostname() and pid.isdigit() and not _lives(int(pid)):
            shutil.rmtree(left, ignore_errors=True)


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        pass
    return True


class ArtifactStore:
    """address: of the folder that holds them. near: folder of this machine for copies of what lies elsewhere, unused
    where the address is a path."""

    def __init__(self, address: str, near: Path) -> None:
        self.elsewhere = "://" in address and not address.startswith("file://")
        self._address = address.rstrip("/")
        self.folder = near if self.elsewhere else Path(address.removeprefix("file://"))

    def local_path(self, name: str) -> Path:
        """Where the file or folder ``name`` lies on this machine, whether it is there or not. Raises StoreError for a
        name that leaves the folder."""
        parts = PurePosixPath(name).parts
        if not parts or ".." in parts or PurePosixPath(name).is_absolute():
            raise StoreError(f"{name!r} is no name for a file that runs share.")
        return self.folder.joinpath(*parts)

    def get(self, name: str, *, changes: bool = False) -> Path | None:
        """The file or folder on this machine; None if there is none. changes: whether it may have been replaced since
        it was last brought here. Raises StoreError."""
        path = self.local_path(name)
        if self.elsewhere and (changes or not path.exists()):
            self._bring(name, path)
        return path if path.exists() else None

    def sync_folder(self, folder: str) -> None:
        """Have all files of a folder on this machine, as they are now. Raises StoreError."""
        if self.elsewhere:
            for name in self.sizes(folder):
                self.get(name, changes=True)

    @contextmanager
    def write(self, name: str, what: str, *, folder: bool = False) -> Iterator[Path]:
        """As :func:`atomic_write`, for the file or folder ``name``."""
        path = self.local_path(name)
        with atomic_write(path, what, folder=folder) as made:
            yield made
        if self.elsewhere:
            self._send(name, path, what)

    @contextmanager
    def lock(self, name: str, waiting: Callable[[], None]) -> Iterator[None]:
        """Hold the lock of the file or folder ``name``, for what takes so long that two processes of this machine shall
        not both make it. waiting: called again and again while another has it; it may raise. The lock ends with the
        process that holds it. Raises StoreError."""
        lock = self.local_path(f"locks/{name}")
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            file = lock.open("a")
        except OSError as error:
            raise StoreError(f"{lock} cannot be written: {error.strerror or error}.") from error
        with file:
            while not _locked(file):
                waiting()
                time.sleep(_POLL)
            yield

    def held(self, name: str) -> bool:
        """Whether a process of this machine holds the lock of the file or folder ``name``."""
        try:
            with self.local_path(f"locks/{name}").open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # nobody has ever held it
            return False
        return False

    def remove(self, name: str) -> None:
        """Forget the file or folder, where there is one. Raises StoreError."""
        path = self.local_path(name)
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
            if self.elsewhere:
                system, root = self._system()
                for place in (f"{root}/{name}", f"{root}/{name}.tar"):
                    if system.exists(place):
                        system.rm(place)
        except OSError as error:
            raise StoreError(f"{name} cannot be removed: {error.strerror or error}.") from error

    def forget(self, folder: str, start: str) -> None:
        """Remove all in a folder whose names begin so. Raises StoreError."""
        here = self.local_path(folder)
        names = {place.name for place in here.iterdir()} if here.is_dir() else set()
        try:
            if self.elsewhere:
                system, root = self._system()
                there = system.ls(f"{root}/{folder}", detail=False) if system.exists(f"{root}/{folder}") else []
                names |= {PurePosixPath(each).name.removesuffix(".tar") for each in there}
        except OSError as error:
            raise StoreError(f"{folder} cannot be listed: {error.strerror or error}.") from error
        for name in sorted(names):
            if name.startswith(start):
                self.remove(f"{folder}/{name}")

    def sizes(self, folder: str) -> dict[str, int]:
        """Bytes of each file in a folder, by name. Raises StoreError."""
        try:
            if not self.elsewhere:
                place = self.local_path(folder)
                found = sorted(place.iterdir()) if place.is_dir() else []
                return {f"{folder}/{file.name}": file.stat().st_size for file in found if file.is_file()}
            system, root = self._system()
            if not system.exists(f"{root}/{folder}"):
                return {}
            rows = system.ls(f"{root}/{folder}", detail=True)
            return {f"{folder}/{PurePosixPath(row['name']).name}": int(row["size"] or 0) for row in rows}
        except OSError as error:
            raise StoreError(f"{folder} cannot be listed: {error.strerror or error}.") from error

    def _system(self) -> tuple[Any, str]:
        import fsspec

        try:
            system, root = fsspec.core.url_to_fs(self._address)
        except (ImportError, ValueError) as error:
            raise StoreError(f"The artifact URL (EPSILON_ARTIFACT_URL) is invalid: {error}.") from error
        return system, str(root).rstrip("/")

    def _bring(self, name: str, path: Path) -> None:
        """A folder lies there as one tar file: what is put in one piece is seen in one piece."""
        system, root = self._system()
        try:
            if system.exists(f"{root}/{name}.tar"):
                with atomic_write(path, f"The copy of {name}", folder=True) as made:
                    whole = made.with_name("whole.tar")
                    system.get_file(f"{root}/{name}.tar", str(whole))
                    with tarfile.open(whole) as file:
                        file.extractall(made, filter="data")
            elif system.isfile(f"{root}/{name}"):
                with atomic_write(path, f"The copy of {name}") as made:
                    system.get_file(f"{root}/{name}", str(made))
        except (OSError, tarfile.TarError) as error:
            raise StoreError(f"{name} cannot be brought from where runs share their files: {error}.") from error

    def _send(self, name: str, path: Path, what: str) -> None:
        system, root = self._system()
        try:
            place = f"{root}/{name}"
            system.makedirs(place.rsplit("/", 1)[0], exist_ok=True)
            if not path.is_dir():
                system.put_file(str(path), place)
                return
            with tempfile.TemporaryDirectory() as passing:
                whole = Path(passing) / "whole.tar"
                with tarfile.open(whole, "w") as file:
                    for each in sorted(path.iterdir()):
                        file.add(each, each.name)
                system.put_file(str(whole), f"{place}.tar")
        except (OSError, tarfile.TarError) as error:
            raise StoreError(f"{what} cannot be sent to where runs share their files: {error}.") from error
