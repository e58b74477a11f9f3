"""What of this environment is set up, told by the process that does it to pages and workers.

The dashboard opens once its pages can be drawn; what only runs need is set up behind it (:mod:`engine.setup`). How far
that is stands in a file of the virtual environment, which is gone once all is there. Whoever sets up, or compiles,
holds the environment's lock, so that nothing is made twice side by side; the lock ends with its process.

Only the standard library: set-up asks this before any package is there, and each page at each of its draws.
"""

import json
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from engine.artifact_store import ArtifactStore, atomic_write

FOLDER = Path(sys.prefix)
"""The virtual environment."""

VECTORS, TRAINING, TENSORFLOW = "word vectors", "training step", "TensorFlow"
LANGUAGE_MODEL, BYTE_CODE = "language model", "byte-code"
"""Parts that pages do without."""

_LOCK, _FILE = "set-up", "set-up.json"
_POLL = 0.2
"""Seconds between two looks of somebody who waits."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far set-up is. parts: names of what was missing, in the order in which it is made. over: how many of them are
    over, the failed ones too. step: how far the one that is being made is, in words. failed: of each part that could
    not be made, what went wrong and what to do, in a sentence. under_way: whether a process is at it."""

    parts: tuple[str, ...]
    over: int = 0
    step: str = ""
    failed: dict[str, str] = field(default_factory=dict)
    under_way: bool = False

    @property
    def left(self) -> tuple[str, ...]:
        """Parts that are not over, the one that is being made first."""
        return self.parts[self.over :]

    @property
    def where(self) -> str:
        """Parts done of parts, and which is being made."""
        if not self.left:
            return f"{self.over} of {len(self.parts)} parts done"
        step = f" ({self.step})" if self.step else ""
        return f"{self.over} of {len(self.parts)} parts done, now: {self.left[0]}{step}"


def tell(progress: Progress) -> None:
    """Say how far set-up is. Raises StoreError."""
    fields = asdict(progress)
    del fields["under_way"]
    with atomic_write(FOLDER / _FILE, "How far set-up is") as passing:
        passing.write_text(json.dumps(fields), encoding="utf-8")


def all_is_there() -> None:
    """Say that nothing is missing."""
    (FOLDER / _FILE).unlink(missing_ok=True)


def look() -> Progress | None:
    """How far set-up is; None where nothing is known to be missing."""
    under_way = _locks().held(_LOCK)  # before the file: who has ended since then has written its last word
    try:
        fields = json.loads((FOLDER / _FILE).read_text(encoding="utf-8"))
        return Progress(**fields | {"parts": tuple(fields["parts"])}, under_way=under_way)
    except (OSError, ValueError, KeyError, TypeError):  # none, or that of another version
        return None


def wait_for(parts: Collection[str], waiting: Callable[[str], None]) -> None:
    """Return once none of the parts is being made or about to be. waiting: told again and again how far set-up is; it
    may raise."""
    while now := being_made(parts):
        waiting(f"waiting for set-up: {now.where}")
        time.sleep(_POLL)


def being_made(parts: Collection[str]) -> Progress | None:
    """How far set-up is, if one of the parts is being made or about to be."""
    now = look()
    return now if now and now.under_way and any(part in now.left for part in parts) else None


@contextmanager
def alone(waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the environment's lock. waiting: called again and again while another process has it; it may raise. Raises
    StoreError where nobody may write to the environment."""
    with _locks().lock(_LOCK, waiting):
        yield


def _locks() -> ArtifactStore:
    return ArtifactStore(str(FOLDER), FOLDER)
