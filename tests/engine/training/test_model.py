"""A saved model round-trips, and damaged or hostile files are refused."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from engine.config import SimulationConfig, TaggerConfig
from engine.errors import StoreError
from engine.taggers import build
from engine.training.model import Model

TAGS = ("O", "B-PER", "I-PER")
CONFIG = SimulationConfig(tagger=TaggerConfig(name="mlp-crf", hidden_size=5, window=1), features="shapes")


def model(**changes: object) -> Model:
    size = build(CONFIG.tagger, 7, len(TAGS), 4).size
    weights = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    found = Model(
        run_id="a" * 16,
        config=CONFIG,
        weights=weights,
        tags=TAGS,
        dimensions=7,
        copied=4,
        engine_version="6",
        epsilon=math.inf,
        delta=1e-5,
    )
    return dataclasses.replace(found, **changes)


@pytest.mark.parametrize("epsilon", [math.inf, 0.76])
def test_round_trip(tmp_path: Path, epsilon: float) -> None:
    written, path = model(epsilon=epsilon), tmp_path / "model.npz"
    written.save(path)
    read = Model.load(path)
    np.testing.assert_array_equal(read.weights, written.weights)
    for field in dataclasses.fields(Model):
        if field.name not in ("weights", "run_id"):
            assert getattr(read, field.name) == getattr(written, field.name)
    assert read.tagger == written.tagger


def test_file_names_neither_run_nor_corpus(tmp_path: Path) -> None:
    """Both identities depend on each training sentence without noise."""
    path = tmp_path / "model.npz"
    model(run_id="feedfacecafebeef").save(path)
    with np.load(path) as file:
        head = json.loads(str(file["head"]))
    assert set(head) == {
        *("config", "copied", "delta", "dimensions", "engine_version", "epsilon", "format", "platform", "tags")
    }
    assert b"feedfacecafebeef" not in path.read_bytes().replace(b"\0", b"")
    assert Model.load(path).run_id is None


def test_file_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    model().save(path)
    with np.load(path) as file:
        head, weights = json.loads(str(file["head"])), file["weights"]
    earlier = head | {"format": 1, "run_id": "a" * 16, "corpus_checksum": "c" * 64}
    np.savez(path, head=np.array(json.dumps(earlier)), weights=weights)
    read = Model.load(path)
    assert read.run_id == "a" * 16
    np.testing.assert_array_equal(read.weights, weights)


def test_digits_of_epsilon_do_not_change_the_length(tmp_path: Path) -> None:
    """Names of all lengths bring the head to each place before and behind a multiple of the padding."""
    for length in range(1, 520, 3):
        sizes = set()
        for epsilon in (1.0, 0.7612345678901234, math.inf):
            model(epsilon=epsilon, platform="x" * length).save(tmp_path / "model.npz")
            sizes.add((tmp_path / "model.npz").stat().st_size)
        assert len(sizes) == 1, length


def test_tags_keep_their_scheme(tmp_path: Path) -> None:
    tags = ("O", "B-PER", "I-PER", "E-PER", "S-PER")
    tagger = dataclasses.replace(CONFIG.tagger, scheme="bioes", well_formed=True)
    size = build(tagger, 7, len(tags), 4).size
    config = dataclasses.replace(CONFIG, tagger=tagger)
    model(config=config, tags=tags, weights=np.zeros(size, np.float32)).save(tmp_path / "model.npz")
    read = Model.load(tmp_path / "model.npz")
    assert read.names == ("O", "B-PER", "I-PER", "I-PER", "B-PER")
    assert model().names == TAGS
    # B- without E- would have the highest score, but it is ill-formed in BIOES only.
    scores = np.zeros((2, 5), np.float32)
    scores[:, 1] = 2.0
    scores[1, 3] = 1.0
    assert read.decoder.best(scores, np.array([2]), None).tolist() == [1, 3]
    assert model().decoder.best(scores[:, :3], np.array([2]), None).tolist() == [1, 1]


def test_half_precision_halves_the_size_and_keeps_three_digits(tmp_path: Path) -> None:
    written = model()
    whole, half = tmp_path / "whole.npz", tmp_path / "half.npz"
    written.save(whole)
    written.save(half, half=True)
    assert whole.stat().st_size - half.stat().st_size == 2 * written.weights.size
    np.testing.assert_allclose(Model.load(half).weights, written.weights, rtol=1e-3)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": 3}, "its format is 3"),
        ({"tags": ["O"]}, "weights, expected"),
        ({"tags": ["O"] * 10_001}, "10,001 tags"),
        ({"tags": ["O", "B-PER", "U-PER"]}, "the tag 'U-PER', expected BIO2 or BIOES"),
        ({"tags": ["O", "", "I-PER"]}, "the tag ''"),
        ({"dimensions": 8}, "weights, expected"),
        ({"config": {"corpus": ""}}, "corpus=''"),
        ({"delta": "much"}, "could not convert"),
    ],
)
def test_inconsistent_files_are_refused(tmp_path: Path, changes: dict[str, object], reason: str) -> None:
    path = tmp_path / "model.npz"
    model().save(path)
    with np.load(path) as file:
        head, weights = json.loads(str(file["head"])), file["weights"]
    np.savez(path, head=np.array(json.dumps(head | changes)), weights=weights)
    with pytest.raises(StoreError, match=reason):
        Model.load(path)


def test_nonfinite_weights_are_refused(tmp_path: Path) -> None:
    path, weights = tmp_path / "model.npz", model().weights
    weights[3] = np.nan
    model(weights=weights).save(path)
    with pytest.raises(StoreError, match="not finite"):
        Model.load(path)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut"])
def test_damaged_model_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.npz"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"model\.npz cannot be read"):
        Model.load(path)


def test_pickles_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    np.savez(path, head=np.array([{}], dtype=object), weights=np.zeros(1))
    with pytest.raises(StoreError, match="cannot be read"):
        Model.load(path)


def test_decompression_bomb_is_refused(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "model.npz"
    np.savez_compressed(path, head=np.array("{}"), weights=np.zeros(100_000))
    monkeypatch.setattr("engine.training.model.MAX_BYTES", 50_000)
    assert path.stat().st_size < 50_000
    with pytest.raises(StoreError, match="unpacks to more"):
        Model.load(path)
