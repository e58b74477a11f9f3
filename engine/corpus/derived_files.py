"""Files derived from a corpus's sentences, stored by its checksum among the files that runs share."""

import re

from engine.artifact_store import ArtifactStore
from engine.corpus.handle import COPIES

LISTS = re.compile(r"encoded/(?P<checksum>[0-9a-f]{16})-of-(?P<text>[0-9a-f]{16})-1\.npy")
"""Names of lists of sentences, with the checksum of the corpus, and without its split."""

_DERIVED = ("characters", "encoded", "layouts", "locks/encoded", "overlaps", "platforms")
"""Folders of files that are recomputed where they are missing."""


def name_of_list(checksum: str, text_checksum: str) -> str:
    """Return the name of the list of a corpus's sentences, from its checksums with and without its split."""
    return f"encoded/{checksum[:16]}-of-{text_checksum[:16]}-1.npy"


def listed_splits(text_checksum: str, artefacts: ArtifactStore) -> set[str]:
    """Return the beginnings of the checksums of a corpus and its splits, as far as their sentences are listed.

    Raises:
        StoreError: If the files cannot be listed.
    """
    lists = filter(None, map(LISTS.fullmatch, artefacts.sizes("encoded")))
    return {found["checksum"] for found in lists if found["text"] == text_checksum[:16]}


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
