"""Files that runs share: corpora by checksum, encoded arrays, features, layouts, checkpoints, models.

Each has a name such as ``layouts/3f2a.npz`` below one root: a local folder by default, or any URL that fsspec supports
(a shared folder, an object store). Workers on other machines thus find every file by name. Reads return a local file,
since arrays are memory-mapped; a file at a remote URL is first downloaded once to a local cache folder.

All writes are atomic: a reader, or a crash, sees either the old file or the new one.

Files in the user's own folder belong to their owner. In a shared folder, the group of that folder has the access to its
files that it has to the folder, so that its members can share them; all other users have none. Who reads files at a URL
is decided there.
"""

import fcntl
import grp
import os
import shutil
import socket
import stat
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

from engine.errors import StoreError

_PASSING = ".passing-"
"""Prefix of the temporary folders in which files are written before they are renamed."""
PUBLIC = 0o644
"""Permission bits of files that all users may read: published results and parts of the program."""
_POLL = 0.2
"""Seconds between two attempts to take a lock that another process holds."""


@contextmanager
def atomic_write(path: Path, what: str, *, folder: bool = False, mode: int = 0o600) -> Iterator[Path]:
    """Yield a temporary path that is renamed to ``path`` at the end of the block.

    If the block raises, nothing remains. A folder that already exists is left unchanged.

    Args:
        path: Path of the new file or folder.
        what: First words of the error message.
        folder: Whether ``path`` is a folder, which the block fills.
        mode: Permission bits of a file. Those of folders, and of files in them, follow from the umask.

    Raises:
        StoreError: If it cannot be written.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path.parent)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f"{_PASSING}{os.getpid()}@{socket.gethostname()}@"))
        target = temporary / path.name
        if folder:
            target.mkdir()
        yield target
        if not folder:
            with target.open("rb") as file:
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            os.replace(target, path)
        elif not path.exists():
            with suppress(FileExistsError):  # another process was first, with the same content
                target.rename(path)
    except OSError as error:
        raise StoreError(f"{what} cannot be written to {path}: {error.strerror or error}.") from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def overwrite(file: BinaryIO) -> None:
    """Replace the content of a file by zeros, durably; what a disk retains of the old content is out of reach."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    file.write(bytes(size))
    file.flush()
    os.fsync(file.fileno())


def _sweep(folder: Path) -> None:
    """Remove the temporary folders of processes of this machine that were killed."""
    for entry in folder.glob(f"{_PASSING}*"):
        pid, host, *_ = (*entry.name.removeprefix(_PASSING).split("@"), "")
        if host == socket.gethostname() and pid.isdigit() and not _lives(int(pid)):
            shutil.rmtree(entry, ignore_errors=True)


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _name_of(group: int) -> str:
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's process
        pass
    return True


class ArtifactStore:
    """The files that runs share, below one folder or URL.

    Args:
        address: Folder or fsspec URL that holds them.
        near: Local folder for copies of remote files; unused if ``address`` is a path.
    """

    def __init__(self, address: str, near: Path) -> None:
        self.elsewhere = "://" in address and not address.startswith("file://")
        self._address = address.rstrip("/")
        self.folder = near if self.elsewhere else Path(address.removeprefix("file://"))
        self._shared = not self.elsewhere and self.folder != near

    @property
    def readers(self) -> str:
        """Who can read the files, in words."""
        if self.elsewhere:
            return "all who may read EPSILON_ARTIFACT_URL"
        if not self._group:
            return "you alone"
        return f"the group {_name_of(self.folder.stat().st_gid)}"

    @property
    def _group(self) -> int:
        """Permission bits of the shared folder's group."""
        return self.folder.stat().st_mode & stat.S_IRWXG if self._shared and self.folder.is_dir() else 0

    def _admit_group(self, *paths: Path) -> None:
        """Give the group of a shared folder the same access to files and folders in it, and other users none."""
        group = self._group
        for path in paths if self._shared else ():
            with suppress(PermissionError):  # of another member of the group
                own = stat.S_IMODE(path.stat().st_mode) & ~0o077
                path.chmod(own | (group if path.is_dir() else group & 0o060))

    def local_path(self, name: str) -> Path:
        """Return the local path of the file or folder ``name``, whether it exists or not.

        Raises:
            StoreError: If the name leads outside the folder.
        """
        parts = PurePosixPath(name).parts
        if not parts or ".." in parts or PurePosixPath(name).is_absolute():
            raise StoreError(f"{name!r} is not a valid name of a shared file.")
        return self.folder.joinpath(*parts)

    def get(self, name: str, *, changes: bool = False) -> Path | None:
        """Return the local path of a file or folder; None if there is none.

        Args:
            name: Name of the file or folder.
            changes: Whether it may have been replaced since it was last downloaded.

        Raises:
            StoreError: If it cannot be downloaded.
        """
        path = self.local_path(name)
        if self.elsewhere and (changes or not path.exists()):
            self._download(name, path)
        return path if path.exists() else None

    def sync_folder(self, folder: str) -> None:
        """Download the current versions of all files of a folder. Raises StoreError."""
        if self.elsewhere:
            for name in self.sizes(folder):
                self.get(name, changes=True)

    @contextmanager
    def write(self, name: str, what: str, *, folder: bool = False) -> Iterator[Path]:
        """Write the file or folder ``name`` as :func:`atomic_write` does, and upload it if the root is remote."""
        path = self.local_path(name)
        with atomic_write(path, what, folder=folder, mode=0o600 | self._group & 0o060) as target:
            yield target
            if folder:
                self._admit_group(target, *target.iterdir())
        self._admit_group(*self._folders(path))
        if self.elsewhere:
            self._upload(name, path, what)

    def _folders(self, path: Path) -> list[Path]:
        """Return the folders between the root and a path."""
        return [parent for parent in path.parents if parent.is_relative_to(self.folder) and parent != self.folder]

    @contextmanager
    def lock(self, name: str, waiting: Callable[[], None]) -> Iterator[None]:
        """Hold the lock of the file or folder ``name``, so that two processes of this machine do not both make it.

        The lock ends with the process that holds it.

        Args:
            name: Name of the file or folder.
            waiting: Callback while another process holds the lock, every ``_POLL`` seconds; it may raise.

        Raises:
            StoreError: If the lock file cannot be written.
        """
        lock = self.local_path(f"locks/{name}")
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            file = lock.open("a")
            self._admit_group(*self._folders(lock), lock)
        except OSError as error:
            raise StoreError(f"{lock} cannot be written: {error.strerror or error}.") from error
        with file:
            while not _locked(file):
                waiting()
                time.sleep(_POLL)
            yield

    def held(self, name: str) -> bool:
        """Return whether a process of this machine holds the lock of the file or folder ``name``."""
        try:
            with self.local_path(f"locks/{name}").open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # the lock has never been taken
            return False
        return False

    def remove(self, name: str) -> None:
        """Delete the file or folder if it exists. Raises StoreError."""
        path = self.local_path(name)
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
            if self.elsewhere:
                system, root = self._system()
                for address in (f"{root}/{name}", f"{root}/{name}.tar"):
                    if system.exists(address):
                        system.rm(address)
        except OSError as error:
            raise StoreError(f"{name} cannot be removed: {error.strerror or error}.") from error

    def forget(self, folder: str, start: str) -> None:
        """Delete all entries of a folder whose names begin with ``start``. Raises StoreError."""
        path = self.local_path(folder)
        names = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
        try:
            if self.elsewhere:
                system, root = self._system()
                listed = system.ls(f"{root}/{folder}", detail=False) if system.exists(f"{root}/{folder}") else []
                names |= {PurePosixPath(entry).name.removesuffix(".tar") for entry in listed}
        except OSError as error:
            raise StoreError(f"{folder} cannot be listed: {error.strerror or error}.") from error
        for name in sorted(names):
            if name.startswith(start):
                self.remove(f"{folder}/{name}")

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the size in bytes of each file in a folder, by name. Raises StoreError."""
        try:
            if not self.elsewhere:
                path = self.local_path(folder)
                entries = sorted(path.iterdir()) if path.is_dir() else []
                return {f"{folder}/{file.name}": file.stat().st_size for file in entries if file.is_file()}
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

    def _download(self, name: str, path: Path) -> None:
        """Download a file or folder. A remote folder is one tar file, so that readers never see a part of it."""
        system, root = self._system()
        try:
            if system.exists(f"{root}/{name}.tar"):
                with atomic_write(path, f"The copy of {name}", folder=True) as target:
                    tar = target.with_name("whole.tar")
                    system.get_file(f"{root}/{name}.tar", str(tar))
                    with tarfile.open(tar) as file:
                        file.extractall(target, filter="data")
            elif system.isfile(f"{root}/{name}"):
                with atomic_write(path, f"The copy of {name}") as target:
                    system.get_file(f"{root}/{name}", str(target))
        except (OSError, tarfile.TarError) as error:
            raise StoreError(f"{name} cannot be downloaded from the artifact URL: {error}.") from error

    def _upload(self, name: str, path: Path, what: str) -> None:
        system, root = self._system()
        try:
            target = f"{root}/{name}"
            system.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
            if not path.is_dir():
                system.put_file(str(path), target)
                return
            with tempfile.TemporaryDirectory() as temporary:
                tar = Path(temporary) / "whole.tar"
                with tarfile.open(tar, "w") as file:
                    for entry in sorted(path.iterdir()):
                        file.add(entry, entry.name)
                system.put_file(str(tar), f"{target}.tar")
        except (OSError, tarfile.TarError) as error:
            raise StoreError(f"{what} cannot be uploaded to the artifact URL: {error}.") from error
