"""Files derived from a corpus's sentences, stored by its checksum among the files that runs share."""

from engine.artifact_store import ArtifactStore
from engine.corpus.handle import COPIES

_DERIVED = ("characters", "encoded", "layouts", "locks/encoded", "overlaps", "platforms")
"""Folders of files that are recomputed where they are missing."""


def forget(checksum: str, artefacts: ArtifactStore, *, copies: bool = True) -> None:
    """Remove all derived files of a corpus.

    Args:
        checksum: Checksum of the corpus, in hexadecimal.
        artefacts: Store of the derived files.
        copies: Whether to remove also the copy for workers on other machines, which have no other source of the corpus.

    Raises:
        StoreError: If a file cannot be removed.
    """
    for folder in (*_DERIVED, COPIES) if copies else _DERIVED:
        artefacts.forget(folder, checksum[:16])
