"""Progress of the background installation, reported by the process that installs to pages and workers.

The dashboard starts once the packages of its pages are installed; parts that only runs need follow in the background
(:mod:`engine.setup`). A file in the virtual environment holds the progress and is deleted at the end. The installing
or compiling process holds the environment's lock, so that no two processes do the same work. The lock ends with its
process.

This module uses only the standard library: set-up imports it before any package is installed, and pages read it at
every rerun.
"""

import json
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from engine.artifact_store import PUBLIC, ArtifactStore, atomic_write

FOLDER = Path(sys.prefix)
"""The virtual environment."""

VECTORS, TRAINING, TENSORFLOW = "word vectors", "training step", "TensorFlow"
LANGUAGE_MODEL, MPNET, E5 = "language model", "larger language model", "multilingual language model"
FEATURES = "features of the built-in corpus"
"""Parts that pages do not need."""

_LOCK, _FILE = "set-up", "set-up.json"
_POLL = 0.2
"""Seconds between two checks while waiting."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of the installation.

    Attributes:
        parts: Names of the missing parts, in the order of installation.
        over: Number of finished parts, including those that failed.
        step: Progress of the current part, in words.
        failed: Error message of each part that failed, with what to do.
        under_way: Whether a process is installing.
    """

    parts: tuple[str, ...]
    over: int = 0
    step: str = ""
    failed: dict[str, str] = field(default_factory=dict)
    under_way: bool = False

    @property
    def left(self) -> tuple[str, ...]:
        """Unfinished parts, the current one first."""
        return self.parts[self.over :]

    @property
    def where(self) -> str:
        """Number of finished parts of all parts, and the current one."""
        if not self.left:
            return f"{self.over} of {len(self.parts)} parts done"
        step = f" ({self.step})" if self.step else ""
        return f"{self.over} of {len(self.parts)} parts done, now: {self.left[0]}{step}"


def tell(progress: Progress) -> None:
    """Write the progress of the installation. Raises StoreError."""
    fields = asdict(progress)
    del fields["under_way"]
    with atomic_write(FOLDER / _FILE, "The progress of the installation", mode=PUBLIC) as path:
        path.write_text(json.dumps(fields), encoding="utf-8")


def all_is_there() -> None:
    """Record that no part is missing."""
    (FOLDER / _FILE).unlink(missing_ok=True)


def look() -> Progress | None:
    """Return the progress of the installation; None if no part is known to be missing."""
    under_way = _locks().held(_LOCK)  # before the file: a process that ends after this has written its last progress
    try:
        fields = json.loads((FOLDER / _FILE).read_text(encoding="utf-8"))
        return Progress(**fields | {"parts": tuple(fields["parts"])}, under_way=under_way)
    except (OSError, ValueError, KeyError, TypeError):  # no file, or one of another version
        return None


def wait_for(parts: Collection[str], waiting: Callable[[str], None]) -> None:
    """Wait until none of the parts is being installed or about to be.

    Args:
        parts: Names of the parts.
        waiting: Callback with the progress as a message, every ``_POLL`` seconds; it may raise.
    """
    while progress := being_made(parts):
        waiting(f"waiting for set-up: {progress.where}")
        time.sleep(_POLL)


def being_made(parts: Collection[str]) -> Progress | None:
    """Return the progress of the installation if one of the parts is being installed or about to be, else None."""
    progress = look()
    return progress if progress and progress.under_way and any(part in progress.left for part in parts) else None


@contextmanager
def alone(waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the environment's lock.

    Args:
        waiting: Callback while another process holds the lock, every ``_POLL`` seconds; it may raise.

    Raises:
        StoreError: If the environment is not writable.
    """
    with _locks().lock(_LOCK, waiting):
        yield


def _locks() -> ArtifactStore:
    return ArtifactStore(str(FOLDER), FOLDER)
