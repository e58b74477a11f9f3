"""What was worked out from a corpus's sentences and lies, by its checksum, among the files that runs share."""

from engine.artifact_store import ArtifactStore
from engine.corpus.handle import COPIES

_MADE = ("characters", "encoded", "layouts", "locks/encoded", "overlaps", "platforms")
"""Folders of what is made anew where it is missing."""


def forget(checksum: str, artefacts: ArtifactStore, *, copies: bool = True) -> None:
    """Remove it. copies: also what was left for workers on other machines, who find the corpus nowhere else. Raises
    StoreError."""
    for folder in (*_MADE, COPIES) if copies else _MADE:
        artefacts.forget(folder, checksum[:16])
