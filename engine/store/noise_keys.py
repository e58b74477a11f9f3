"""Noise keys of runs with ``noise_source="system"``: files beside the checkpoints, deleted when the runs end.

Only the user of the process can read them. A resumed run must use its original keys: with new ones it would release
the same step with two noise draws, whose mean has less noise. Without its keys a run cannot resume.
"""

import os
from collections.abc import Callable
from pathlib import Path

from engine.errors import StoreError
from engine.seeds import Secrets

_BYTES = 32


def secrets_for(path: Path, *, begun: bool) -> Secrets:
    """Return the keys of a run; create and save them durably if the run has none yet.

    Args:
        path: File of the keys.
        begun: Whether the run has released anything.

    Raises:
        StoreError: If a run that has begun has no keys or damaged ones, or the keys cannot be saved.
    """
    try:
        if path.exists():
            return _read(path)
        if begun:
            raise StoreError(
                "The noise keys of this run are missing, and new ones would weaken the privacy of its releases. Delete "
                "the run and start another."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        secrets = Secrets.drawn()
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.entropy)
            file.flush()
            os.fsync(file.fileno())
        return secrets
    except OSError as error:
        raise StoreError(f"The noise keys cannot be saved in {path}: {error.strerror or error}.") from error


def _read(path: Path) -> Secrets:
    entropy = path.read_bytes()
    if len(entropy) != _BYTES or not any(entropy):
        raise StoreError(f"The noise keys in {path} are damaged: delete the run and start another.")
    return Secrets(entropy)


def sweep(folder: Path, done: Callable[[str], bool]) -> None:
    """Destroy the keys of finished runs in a folder, for runs that ended before they could destroy their own.

    Args:
        folder: The folder.
        done: Return whether the run with an identity is done.

    Raises:
        StoreError: If keys cannot be destroyed.
    """
    for path in folder.glob("*.key"):
        if done(path.stem):
            destroy(path)


def destroy(path: Path) -> None:
    """Overwrite and delete the keys, if there are any. Raises StoreError."""
    try:
        if path.exists():
            with path.open("r+b") as file:
                file.write(bytes(_BYTES))
                file.flush()
                os.fsync(file.fileno())
            path.unlink()
    except OSError as error:
        raise StoreError(f"The noise keys in {path} cannot be destroyed: {error.strerror or error}.") from error
