"""Published taggers: the files beside published runs, in ``models/`` of their folder, each called by its run.

``SHA256SUMS`` there has the checksum of each, as ``sha256sum -c`` reads it. A file comes from outside and decides what
is taken out of somebody's text, so one that is not listed, or was changed, is refused before it is read.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from engine.artifact_store import atomic_write
from engine.errors import StoreError
from engine.store import paths

if TYPE_CHECKING:
    from engine.training.model import Model

SUMS = "SHA256SUMS"
MAX_BYTES = 50_000_000
"""Of one file; the taggers of the two papers have less than a million weights."""


def write(tagger: "Model", name: str, folder: Path) -> None:
    """Publish a tagger under ``name`` (:func:`engine.store.paths.model_name`), its weights in float16. Raises
    StoreError."""
    path = folder / name
    with atomic_write(path, "The published tagger") as passing:
        tagger.save(passing, half=True)
    known = sums(folder) | {path.name: _checksum(path)}
    with atomic_write(folder / paths.MODELS / SUMS, "The checksums of published taggers") as passing:
        passing.write_text("".join(f"{known[each]}  {each}\n" for each in sorted(known)), encoding="utf-8")


def sums(folder: Path) -> dict[str, str]:
    """The checksum of each published tagger by its file name. Raises StoreError if the list cannot be read."""
    try:
        lines = (folder / paths.MODELS / SUMS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise StoreError(f"The checksums of published taggers cannot be read: {error}.") from error
    return {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}


def read(name: str, folder: Path) -> "Model":
    """A published tagger. Raises StoreError if it is not what was published."""
    from engine.training.model import Model

    path = folder / name
    expected = sums(folder).get(path.name)
    if expected is None:
        raise StoreError(f"The published tagger {path.name} is refused: {SUMS} does not list it.")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise StoreError(f"The published tagger {path.name} is refused: it has more than {MAX_BYTES:,} bytes.")
        found = _checksum(path)
    except OSError as error:
        raise StoreError(f"The published tagger {path.name} cannot be read: {error.strerror}.") from error
    if found != expected:
        raise StoreError(
            f"The published tagger {path.name} is refused: it was changed (SHA-256 {found[:12]}…, expected "
            f"{expected[:12]}…)."
        )
    model = Model.load(path)
    if model.run_id != paths.run_of_model(name):
        raise StoreError(f"The published tagger {path.name} is refused: it is that of run {model.run_id}.")
    return model


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
