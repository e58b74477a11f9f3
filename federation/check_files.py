"""The files of a client's noise check, and their end. This module imports nothing large.

``check.key`` seals the measurements in ``check.npz``; ``check.json`` has the result only, and stays. A client learns of
its last round and of a failed check, but not that the server has stopped, or that it was dropped from a round. A run
cannot continue after its server has stopped, so measurements that no round changes for a while are destroyed.
"""

import time
from pathlib import Path

from engine.artifact_store import overwrite
from engine.errors import StoreError

KEY, SAVED, RESULT = "check.key", "check.npz", "check.json"
_ROUNDS, _LEAST = 2, 3600.0
"""Rounds, and least seconds, without a change after which measurements are destroyed."""
_STAGES = 4
"""Stages of a round, for each of which the server waits."""


def lifetime(seconds: float) -> float:
    """Return after how many seconds without a round measurements are destroyed.

    Args:
        seconds: Time that the server waits for a client in each stage of a round.
    """
    return max(_LEAST, _ROUNDS * _STAGES * seconds)


def destroy(folder: Path) -> bool:
    """Overwrite and delete key and measurements of a run; return whether there were any. Raises StoreError."""
    found = [path for path in (folder / KEY, folder / SAVED) if path.exists()]
    try:
        for path in found:
            with path.open("r+b") as file:
                overwrite(file)
            path.unlink()
    except OSError as error:
        raise StoreError(f"The measurements in {folder} cannot be destroyed: {error.strerror or error}.") from error
    return bool(found)


def destroy_all(client: Path, older: float = 0.0) -> list[str]:
    """Destroy key and measurements of a client's runs, and return the runs.

    Args:
        client: Folder of the client.
        older: Seconds since the last change; younger ones stay.

    Raises:
        StoreError: If files cannot be destroyed.
    """
    destroyed, now = [], time.time()
    for folder in {path.parent for name in (KEY, SAVED) for path in client.glob(f"*/{name}")}:
        times = [path.stat().st_mtime for path in (folder / KEY, folder / SAVED) if path.exists()]
        if times and now - max(times) >= older and destroy(folder):
            destroyed.append(folder.name)
    return sorted(destroyed)
