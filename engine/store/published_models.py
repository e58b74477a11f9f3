"""Published taggers: files in the subfolder ``models`` of the published runs, named after their runs.

``SHA256SUMS`` lists the checksum of each in the format of ``sha256sum -c``. The files are untrusted input, and they
decide which words of a user's text are tagged. A file that is not listed, or was changed, is refused before it is read.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from engine.artifact_store import PUBLIC, atomic_write
from engine.errors import StoreError
from engine.store import paths

if TYPE_CHECKING:
    from engine.training.model import Model

SUMS = "SHA256SUMS"
MAX_BYTES = 50_000_000
"""Maximum size of one file in bytes; the taggers of the two papers have less than a million weights."""


def write(tagger: "Model", name: str, folder: Path) -> None:
    """Publish a tagger with float16 weights.

    Args:
        tagger: The tagger.
        name: Its name, see :func:`engine.store.paths.model_name`.
        folder: Folder of the published runs.

    Raises:
        StoreError: If it cannot be written.
    """
    path = folder / name
    with atomic_write(path, "The published tagger", mode=PUBLIC) as temporary:
        tagger.save(temporary, half=True)
    checksums = sums(folder) | {path.name: _checksum(path)}
    listed = folder / paths.MODELS / SUMS
    with atomic_write(listed, "The checksums of published taggers", mode=PUBLIC) as temporary:
        temporary.write_text("".join(f"{checksums[file]}  {file}\n" for file in sorted(checksums)), encoding="utf-8")


def sums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each published tagger by file name. Raises StoreError if the list cannot be read."""
    try:
        lines = (folder / paths.MODELS / SUMS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise StoreError(f"The checksums of published taggers cannot be read: {error}.") from error
    return {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}


def read(name: str, folder: Path) -> "Model":
    """Return a published tagger. Raises StoreError if its checksum or its run is not the published one."""
    from engine.training.model import Model

    path = folder / name
    expected = sums(folder).get(path.name)
    if expected is None:
        raise StoreError(f"The published tagger {path.name} is refused: {SUMS} does not list it.")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise StoreError(f"The published tagger {path.name} is refused: it has more than {MAX_BYTES:,} bytes.")
        actual = _checksum(path)
    except OSError as error:
        raise StoreError(f"The published tagger {path.name} cannot be read: {error.strerror}.") from error
    if actual != expected:
        raise StoreError(
            f"The published tagger {path.name} is refused: it was changed (SHA-256 {actual[:12]}…, expected "
            f"{expected[:12]}…)."
        )
    model = Model.load(path)
    if model.run_id != paths.run_of_model(name):
        raise StoreError(f"The published tagger {path.name} is refused: it belongs to run {model.run_id}.")
    return model


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
