"""Where the keys of a run with ``noise_source="system"`` lie while it is computed: beside its checkpoint, for its owner
alone, until the run ends.

A run that is resumed goes on with the keys it began with: new ones would release the same step with two noises, whose
mean has less of it. Without them it cannot go on.
"""

import os
from collections.abc import Callable
from pathlib import Path

from engine.errors import StoreError
from engine.seeds import Secrets

_BYTES = 32


def secrets_for(path: Path, *, begun: bool) -> Secrets:
    """The keys in ``path``, or new ones, which are there for good when this returns. begun: whether the run has
    released anything. Raises StoreError if they are gone or damaged then, or cannot be kept."""
    try:
        if path.exists():
            return _read(path)
        if begun:
            raise StoreError(
                "The keys of this run's noise are gone, and new ones would undo what it has released: delete it and "
                "start another."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        secrets = Secrets.drawn()
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.entropy)
            file.flush()
            os.fsync(file.fileno())
        return secrets
    except OSError as error:
        raise StoreError(f"The keys in {path} cannot be kept: {error.strerror or error}.") from error


def _read(path: Path) -> Secrets:
    entropy = path.read_bytes()
    if len(entropy) != _BYTES or not any(entropy):
        raise StoreError(f"The keys in {path} are damaged: delete the run and start another.")
    return Secrets(entropy)


def sweep(folder: Path, done: Callable[[str], bool]) -> None:
    """Destroy the keys in ``folder`` of runs that are done: of such as ended just before theirs could be. Raises
    StoreError."""
    for path in folder.glob("*.key"):
        if done(path.stem):
            destroy(path)


def destroy(path: Path) -> None:
    """Write over the keys and remove them, where there are any. Raises StoreError."""
    try:
        if path.exists():
            with path.open("r+b") as file:
                file.write(bytes(_BYTES))
                file.flush()
                os.fsync(file.fileno())
            path.unlink()
    except OSError as error:
        raise StoreError(f"The keys in {path} cannot be destroyed: {error.strerror or error}.") from error
