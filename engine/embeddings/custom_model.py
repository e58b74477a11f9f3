"""Language models other than the default one: a folder with a BERT or an MPNet in Hugging Face format.

It belongs to a registered encoder (:mod:`engine.config.encoder_registry`), or is a user's own, for example trained on
medical text. ``EPSILON_LANGUAGE_MODEL`` names the latter. A folder has ``config.json``, ``model.safetensors`` (never a
pickle), and either ``tokenizer.json`` or ``vocab.txt`` with ``tokenizer_config.json``. A configuration names a custom
model by its shape and the checksum of these files. A run's identity therefore determines the model, wherever the folder
is. Light to import, for pages.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from engine.artifact_store import ArtifactStore
from engine.config import ENCODERS, MINILM
from engine.config.encoder_registry import folder_of
from engine.errors import VectorsMissing
from engine.settings import Settings

VARIABLE = "EPSILON_LANGUAGE_MODEL"
SMALLEST = 128
"""Fewest dimensions of a layer: this many are used of each (``features.KEPT``)."""
LANES = 16
"""Divisor of a layer's size, by which it is summed: one vector of the widest processors."""
MOST_PIECES = 510
"""Largest number of pieces of a sentence that are read together."""
_WEIGHTS, _CONFIG, _TOKENIZER = "model.safetensors", "config.json", "tokenizer.json"
_VOCABULARY = ("vocab.txt", "tokenizer_config.json")
_MOST_BYTES = {_WEIGHTS: 3_000_000_000, _CONFIG: 1_000_000, _TOKENIZER: 50_000_000} | dict.fromkeys(
    _VOCABULARY, 50_000_000
)
_LONGEST_HEADER = 10_000_000
_DTYPES = {"F32": 4, "F16": 2}
"""Supported number types, with their size in bytes."""
_RANGES = {
    "num_hidden_layers": (2, 48),
    "hidden_size": (SMALLEST, 4096),
    "num_attention_heads": (1, 128),
    "intermediate_size": (1, 32_768),
    "max_position_embeddings": (8, 8192),
    "type_vocab_size": (1, 16),
    "vocab_size": (1, 1_000_000),
}
_EXPECTED = {"hidden_act": "gelu", "position_embedding_type": "absolute"}
BORDERS = {"bert": (("[CLS]", "[SEP]"), ("<s>", "</s>")), "mpnet": (("<s>", "</s>"),)}
"""Pieces at the beginning and end of a sentence, by kind of model; a BERT with XLM-RoBERTa's tokenizer has others."""
_OF_MPNET = {
    "attn.q": "self.query",
    "attn.k": "self.key",
    "attn.v": "self.value",
    "attn.o": "output.dense",
    "LayerNorm": "output.LayerNorm",
}
"""Names of parts of an MPNet's attention, and of the same parts of a BERT's."""
_RESERVED = 2
"""Rows of MPNet's position embeddings before that of the first piece: the number of its padding piece, 1, and 0."""
_BUCKETS = 32
"""Rows of MPNet's table of distances."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of an encoder.

    Attributes:
        kind: "bert" or "mpnet".
        layers: Number of layers.
        size: Dimensions of a layer.
        heads: Attention heads of a layer.
        epsilon: Added to the variance in layer normalisation.
    """

    kind: str
    layers: int
    size: int
    heads: int
    epsilon: float

    @property
    def first_position(self) -> int:
        """Row of the position embeddings of the first piece."""
        return _RESERVED if self.kind == "mpnet" else 0


@dataclass(frozen=True)
class OwnModel:
    """A folder with a model.

    Attributes:
        folder: The folder.
        label: Its name in configurations.
        shape: Its sizes.
        places: Pieces of a sentence that are read together, without [CLS] and [SEP].
        vocabulary: Number of word pieces.
    """

    folder: Path
    label: str
    shape: Shape
    places: int
    vocabulary: int

    @property
    def used_layers(self) -> tuple[int, int]:
        """The layer at two thirds of the depth, and the last one: of six layers 4 and 6, as for MiniLM."""
        return round(2 * self.shape.layers / 3), self.shape.layers

    @property
    def middle_layer(self) -> int:
        """The layer whose centred vectors are features: that of the registry, or the one halfway."""
        return ENCODERS[self.label].layer if self.label in ENCODERS else self.shape.layers // 2


class OwnInContext:
    """A language model, located only when features must be computed.

    A worker that finds the features of a corpus among the shared files needs no model.
    """

    def __init__(self, label: str, settings: Settings) -> None:
        self.label, self._settings = label, settings

    @cached_property
    def model(self) -> OwnModel:
        """The model.

        Raises:
            VectorsMissing: If it is not available.
        """
        return find(self.label, self._settings)

    def public_sentences(self) -> list[list[str]]:
        """Return the sentences of Wikigold, on which the projection is fitted.

        Raises:
            CorpusError: If they are not available.
        """
        from engine.corpus.handle import CorpusHandle

        found = CorpusHandle("wikigold", self._settings).load()
        return [list(sentence.tokens) for part in (found.train, found.validation, found.test) for sentence in part]

    @property
    def artefacts(self) -> ArtifactStore:
        """The files that runs share."""
        return self._settings.artefacts


def own_in_context(label: str, settings: Settings) -> OwnInContext | None:
    """Return the language model of a configuration, or None for MiniLM."""
    return None if label == MINILM else OwnInContext(label, settings)


def installed(settings: Settings) -> list[str]:
    """Return the available models: MiniLM, other registered ones that are installed, and the custom one if configured.

    Raises:
        VectorsMissing: If the custom model cannot be used.
    """
    others = [name for name in ENCODERS if name != MINILM and folder_of(name).is_dir()]
    return [MINILM, *others, *([at(settings.language_model).label] if settings.language_model else [])]


def find(label: str, settings: Settings) -> OwnModel:
    """Return the model with this label.

    Raises:
        VectorsMissing: If it is not the configured one, or a registered one that is not installed.
    """
    if label in ENCODERS:
        return registered(label, folder_of(label))
    if settings.language_model is None:
        raise VectorsMissing(
            f"language_model={label!r} is not available: {VARIABLE} names no folder, expected the folder of this model"
        )
    found = at(settings.language_model)
    if found.label != label:
        raise VectorsMissing(
            f"language_model={label!r} is not available: the model in the folder that {VARIABLE} names is {found.label}"
        )
    return found


def registered(label: str, folder: Path) -> OwnModel:
    """Return a registered encoder in a folder, whose files have the registered checksums.

    Raises:
        VectorsMissing: If it is not there or has other files.
    """
    if not folder.is_dir():
        raise VectorsMissing(f"language_model={label!r} is not installed; run `make setup`")
    try:
        for name, expected in ENCODERS[label].checksums.items():
            if (checksum := _digest(folder / name, *_status(folder / name))) != expected:
                raise ValueError(f"{name} has the SHA-256 {checksum}, expected {expected}")
        return replace(_in_folder(folder), label=label)
    except (OSError, ValueError, RecursionError) as error:
        raise VectorsMissing(
            f"language_model={label!r} cannot be used: {error}; delete {folder} and run `make setup`"
        ) from error


def at(folder: Path) -> OwnModel:
    """Return the model in a folder; its files are read again only when they change.

    Raises:
        VectorsMissing: If it cannot be used; the message names the reason.
    """
    try:
        return _in_folder(folder)
    except (OSError, ValueError, RecursionError) as error:
        raise VectorsMissing(f"{VARIABLE}={folder} cannot be used: {error}") from error


def _in_folder(folder: Path) -> OwnModel:
    used = [_CONFIG, _WEIGHTS, *([_TOKENIZER] if (folder / _TOKENIZER).is_file() else _VOCABULARY)]
    return _read(folder, tuple((name, *_status(folder / name)) for name in used))


def _status(path: Path) -> tuple[int, int]:
    """Return a file's size and modification time."""
    if not path.is_file():
        raise ValueError(
            f"{path.name} is missing, expected {_CONFIG}, {_WEIGHTS}, and {_TOKENIZER} or {' with '.join(_VOCABULARY)}"
        )
    status = path.stat()
    if status.st_size > _MOST_BYTES[path.name]:
        raise ValueError(f"{path.name} has {status.st_size:,} bytes, expected at most {_MOST_BYTES[path.name]:,}")
    return status.st_size, status.st_mtime_ns


@lru_cache(maxsize=2)
def _read(folder: Path, files: tuple[tuple[str, int, int], ...]) -> OwnModel:
    shape = _shape(_table((folder / _CONFIG).read_bytes(), _CONFIG))
    _check_weights(folder / _WEIGHTS, shape)
    if files[-1][0] != _TOKENIZER and not isinstance(lower_cased(folder), bool):
        raise ValueError(f"{_VOCABULARY[1]} does not say whether words are lower-cased (do_lower_case)")
    layers, size = shape["num_hidden_layers"], shape["hidden_size"]
    return OwnModel(
        folder=folder,
        label=f"{shape['model_type']}-{layers}x{size}-{_checksum(folder, files)[:16]}",
        shape=Shape(
            kind=shape["model_type"],
            layers=layers,
            size=size,
            heads=shape["num_attention_heads"],
            epsilon=shape["layer_norm_eps"],
        ),
        places=min(MOST_PIECES, shape["max_position_embeddings"] - _reserved(shape) - 2),
        vocabulary=shape["vocab_size"],
    )


def lower_cased(folder: Path) -> bool | None:
    """Return whether a model without ``tokenizer.json`` lower-cases words, or None if it is not specified."""
    found: bool | None = _table((folder / _VOCABULARY[1]).read_bytes(), _VOCABULARY[1]).get("do_lower_case")
    return found


def _reserved(shape: dict[str, Any]) -> int:
    return _RESERVED if shape["model_type"] == "mpnet" else 0


def _checksum(folder: Path, files: tuple[tuple[str, int, int], ...]) -> str:
    """Return SHA-256 over all files that are used, in hexadecimal."""
    whole = hashlib.sha256()
    for name, *status in files:
        whole.update(f"{name} {_digest(folder / name, *status)}\n".encode())
    return whole.hexdigest()


@lru_cache(maxsize=16)
def _digest(path: Path, size: int, modified: int) -> str:
    """Return the SHA-256 of a file with this size and modification time, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _table(data: bytes, name: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError as error:
        raise ValueError(f"{name} is not valid JSON") from error
    if not isinstance(found, dict):
        raise ValueError(f"{name} contains no table")
    return found


def _shape(config: dict[str, Any]) -> dict[str, Any]:
    """Return the validated sizes of the model."""
    kind = config.get("model_type")
    if kind not in BORDERS:
        raise ValueError(f"{_CONFIG} has model_type={kind!r}, expected {' or '.join(map(repr, BORDERS))}")
    for name, expected in _EXPECTED.items():
        if config.get(name, expected) != expected:
            raise ValueError(f"{_CONFIG} has {name}={config.get(name)!r}, expected {expected!r}")
    if kind == "mpnet" and config.get("relative_attention_num_buckets", _BUCKETS) != _BUCKETS:
        buckets = config["relative_attention_num_buckets"]
        raise ValueError(f"{_CONFIG} has relative_attention_num_buckets={buckets!r}, expected {_BUCKETS}")
    found: dict[str, Any] = {}
    for name, (least, most) in _RANGES.items():
        if name == "type_vocab_size" and kind == "mpnet":
            continue
        value = config.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"{_CONFIG} has {name}={value!r}, expected a number from {least:,} to {most:,}")
        found[name] = value
    if found["hidden_size"] % found["num_attention_heads"]:
        raise ValueError(
            f"{_CONFIG} has hidden_size={found['hidden_size']}, expected a multiple of "
            f"num_attention_heads={found['num_attention_heads']}"
        )
    if found["hidden_size"] % LANES:
        raise ValueError(f"{_CONFIG} has hidden_size={found['hidden_size']}, expected a multiple of {LANES}")
    epsilon = config.get("layer_norm_eps", 1e-12)
    if not isinstance(epsilon, float) or not 0 < epsilon < 0.01:
        raise ValueError(f"{_CONFIG} has layer_norm_eps={epsilon!r}, expected a number in (0, 0.01)")
    return found | {"layer_norm_eps": epsilon, "model_type": kind}


def known_name(name: str) -> str:
    """Return the name of a weight in a BERT without a head, in the newer naming."""
    name = name.removeprefix("bert.").removeprefix("mpnet.")
    for before, now in ((".gamma", ".weight"), (".beta", ".bias")):
        name = name.removesuffix(before) + now if name.endswith(before) else name
    for before, now in _OF_MPNET.items():
        name = name.replace(f".attention.{before}.", f".attention.{now}.")
    return name


def _check_weights(path: Path, shape: dict[str, Any]) -> None:
    """Check that the file has each weight of such a model with its shape, and is complete; without reading them."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _LONGEST_HEADER:
            raise ValueError(f"{_WEIGHTS} is not a safetensors file")
        header = _table(file.read(length), f"the head of {_WEIGHTS}")
    rows = {known_name(name): row for name, row in header.items() if name != "__metadata__"}
    ends = []
    for name, expected in _weights(shape).items():
        row = rows.get(name)
        if not isinstance(row, dict):
            raise ValueError(f"{_WEIGHTS} has no {name}")
        if row.get("dtype") not in _DTYPES:
            raise ValueError(f"{_WEIGHTS} has {name} as {row.get('dtype')}, expected {' or '.join(_DTYPES)}")
        if row.get("shape") != expected:
            raise ValueError(f"{_WEIGHTS} has {name} of shape {row.get('shape')}, expected {expected}")
        ends += [end for end in row.get("data_offsets", ()) if isinstance(end, int)]
    if 8 + length + max(ends, default=0) > path.stat().st_size:
        raise ValueError(f"{_WEIGHTS} is truncated")


def _weights(shape: dict[str, Any]) -> dict[str, list[int]]:
    """Return the shape of each weight by name."""
    size, wide = shape["hidden_size"], shape["intermediate_size"]
    found = {
        "embeddings.word_embeddings.weight": [shape["vocab_size"], size],
        "embeddings.position_embeddings.weight": [shape["max_position_embeddings"], size],
        "embeddings.LayerNorm.weight": [size],
        "embeddings.LayerNorm.bias": [size],
    }
    if shape["model_type"] == "mpnet":
        found["encoder.relative_attention_bias.weight"] = [_BUCKETS, shape["num_attention_heads"]]
    else:
        found["embeddings.token_type_embeddings.weight"] = [shape["type_vocab_size"], size]
    matrices = {f"attention.self.{kind}": (size, size) for kind in ("query", "key", "value")}
    matrices |= {"attention.output.dense": (size, size), "intermediate.dense": (wide, size)}
    matrices |= {"output.dense": (size, wide)}
    for number in range(shape["num_hidden_layers"]):
        layer = f"encoder.layer.{number}."
        for name, (rows, columns) in matrices.items():
            found |= {f"{layer}{name}.weight": [rows, columns], f"{layer}{name}.bias": [rows]}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            found |= {f"{layer}{name}.weight": [size], f"{layer}{name}.bias": [size]}
    return found
