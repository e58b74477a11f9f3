"""Noise keys of runs with ``noise_source="system"``, and the sealed checkpoints that only they open.

A key is a file of its user on the machine that drew it, and never leaves it. A resumed run must use its original keys:
with new ones it would release the same step with two noise draws, whose mean has less noise. Without its keys a run
cannot resume.

Keys and checkpoints exist while their run is queued or running, so that it resumes after a crash or a restart. When it
ends (finished, failed, cancelled or deleted), both are destroyed: the checkpoint is then unreadable in every copy.
"""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine.artifact_store import overwrite
from engine.errors import RunNotFound, StoreError
from engine.records import RunStatus
from engine.seeds import Secrets
from engine.settings import Settings
from engine.store.paths import checkpoint_name, key_path

_BYTES = 32

log = logging.getLogger("epsilon.store")


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


def sweep(settings: Settings, status: Callable[[str], RunStatus]) -> None:
    """Destroy the keys of ended runs on this machine, for runs that could not destroy their own when they ended.

    What cannot be destroyed is logged, and destroyed by the next call.

    Args:
        settings: Where the keys are.
        status: Return the status of a run by its identity. Raises RunNotFound.
    """
    for path in key_path(settings, "").parent.glob("*.key"):
        try:
            with suppress(RunNotFound):  # a run of another database
                if status(path.stem).state.final:
                    destroy(settings, path.stem)
        except StoreError as error:
            log.warning("%s", error)


def destroy(settings: Settings, run_id: str) -> None:
    """Overwrite and delete the keys of a run, if there are any, and remove its checkpoint. Raises StoreError."""
    destroy_keys(settings, run_id)
    settings.artefacts.remove(checkpoint_name(run_id))


def destroy_keys(settings: Settings, run_id: str) -> None:
    """Overwrite and delete the keys of a run, if there are any. Raises StoreError."""
    path = key_path(settings, run_id)
    try:
        if path.exists():
            with path.open("r+b") as file:
                overwrite(file)
            path.unlink()
    except OSError as error:
        raise StoreError(f"The noise keys in {path} cannot be destroyed: {error.strerror or error}.") from error
