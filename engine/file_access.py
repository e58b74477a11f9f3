"""Who can read what this program writes: files belong to their owner alone.

Corpora, encoded sentences, taggers, records, checkpoints and logs come from private sentences. Each process of the
program calls :func:`protect_process` when it starts, and its children inherit the effect.
"""

import os
import resource
import stat
from contextlib import suppress
from pathlib import Path

from engine.errors import InvalidConfig

_OTHERS = 0o077
"""Permission bits of all users but the owner."""


def protect_process() -> int:
    """Keep other users out of all files that this process and its children write, and write no core dumps.

    A core dump would hold keys, noise and sentences. A system that pipes core dumps to a program ignores the limit of
    their size; on Linux, the second setting leaves it no memory to save.

    Returns:
        The umask until now.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/coredump_filter").write_text("0")
    return os.umask(_OTHERS)


def read_secret(variable: str, path: Path) -> str:
    """Return the text of a file with a secret, without spaces and line ends around it.

    Args:
        variable: The environment variable that names the file.
        path: The file.

    Raises:
        InvalidConfig: If the file cannot be read or is empty, or other users have access to it.
    """
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InvalidConfig(f"{variable}={path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidConfig(f"{variable}={path} is not a text file in UTF-8") from error
    if mode & _OTHERS:
        raise InvalidConfig(f"{variable}={path} may be read by other users: chmod 600 it")
    if not text:
        raise InvalidConfig(f"{variable}={path} is empty, expected the secret")
    return text


def correct(folder: Path) -> str:
    """Take from all other users the access to existing files in a folder: versions up to 0.6.0 allowed reading.

    Symbolic links are not followed.

    Args:
        folder: The folder of data. A user's own home folder, or one above it, is left as it is.

    Returns:
        A sentence on files that remain accessible, or "".
    """
    if Path.home().resolve().is_relative_to(folder):
        return f"{folder} contains your home folder, so its files keep their access: choose another folder."
    left = []
    for parent, _, names in os.walk(folder):
        for path in (Path(parent), *(Path(parent, name) for name in names)):
            try:
                mode = path.lstat().st_mode
                if not stat.S_ISLNK(mode) and mode & _OTHERS:
                    path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
            except OSError:  # of another user, on a read-only disk, or just removed
                left += [path] if path.exists() else []
    if not left:
        return ""
    others = "" if len(left) == 1 else f" and {len(left) - 1:,} others"
    return f"Other users may read {left[0]}{others}: its access could not be changed."
