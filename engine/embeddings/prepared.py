"""Contextual features of the embedded corpus, which set-up computes for all users of an environment.

A new home copies them, so its first run on that corpus computes none. The corpus is public. Each part is one file. It
holds the bytes with sign and exponent apart from those with the mantissa, which cannot be compressed; so it takes two
thirds of the space.
"""

import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np

from engine.artifact_store import PUBLIC, atomic_write
from engine.embeddings.known_sentences import file_name
from engine.embeddings.vectors import VectorPackage

FOLDER = Path(sys.prefix) / "features"
"""Folder of the virtual environment."""


def path_of(checksum: str, part: str, package: VectorPackage, language_model: str) -> Path:
    """Return the file of a part, for the corpus with this checksum."""
    return FOLDER / f"{Path(file_name(checksum, package, part, language_model)).stem}.npz"


def write(path: Path, rows: np.ndarray) -> None:
    """Write the rows of a part, uint16 [tokens, width]. Raises StoreError."""
    high, low = (rows >> 8).astype(np.uint8), (rows & 0xFF).astype(np.uint8)
    with atomic_write(path, "The features of the embedded corpus", mode=PUBLIC) as target, target.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, high=high, low=low)


def read(path: Path, shape: tuple[int, int]) -> np.ndarray | None:
    """Return the rows of a part, uint16 of this shape; None if the file is missing or damaged."""
    try:
        with np.load(path, allow_pickle=False) as found:
            high, low = found["high"], found["low"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None
    if not (high.shape == low.shape == shape and high.dtype == low.dtype == np.uint8):
        return None
    rows: np.ndarray = high.astype(np.uint16) << 8 | low
    return rows
