"""Published models: a file that differs from the published one is refused with a reason."""

import dataclasses
import hashlib
import json
import shutil

import numpy as np
import pytest

from engine.errors import StoreError
from engine.store import published_models
from engine.store.paths import model_name
from engine.training.model import Model
from tests.engine.training.test_model import model

NAME = model_name("a" * 16)


@pytest.fixture
def folder(tmp_path):
    published_models.write(model(), NAME, tmp_path)
    return tmp_path


def test_round_trip_in_half_precision(folder):
    found = published_models.read(NAME, folder)
    np.testing.assert_array_equal(found.weights, model().weights.astype(np.float16).astype(np.float32))
    assert (found.run_id, found.config, found.tags) == (None, model().config, model().tags)
    with np.load(folder / NAME, allow_pickle=False) as arrays:
        assert arrays["weights"].dtype == np.float16


def test_second_model_keeps_the_first(folder):
    other = model_name("b" * 16)
    published_models.write(dataclasses.replace(model(), run_id="b" * 16), other, folder)
    assert list(published_models.sums(folder)) == ["a" * 16 + ".npz", "b" * 16 + ".npz"]
    assert published_models.read(NAME, folder).config == published_models.read(other, folder).config == model().config


def test_changed_bit_is_refused(folder):
    content = bytearray((folder / NAME).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / NAME).write_bytes(content)
    with pytest.raises(StoreError, match=r"aaaa\.npz .*changed \(SHA-256 "):
        published_models.read(NAME, folder)


def test_unlisted_model_is_refused(folder):
    shutil.copy(folder / NAME, folder / model_name("b" * 16))
    with pytest.raises(StoreError, match=r"bbbb\.npz .*SHA256SUMS .*not list"):
        published_models.read(model_name("b" * 16), folder)
    (folder / "models" / published_models.SUMS).unlink()
    with pytest.raises(StoreError, match="does not list it"):
        published_models.read(NAME, folder)


def test_model_of_another_run_is_refused(folder):
    """Files of earlier versions name their run."""
    with np.load(folder / NAME, allow_pickle=False) as arrays:
        head, weights = json.loads(str(arrays["head"])), arrays["weights"]
    path = folder / model_name("b" * 16)
    np.savez(path, head=np.array(json.dumps(head | {"format": 1, "run_id": "a" * 16})), weights=weights)
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    (path.parent / published_models.SUMS).write_text(f"{checksum}  {path.name}\n")
    with pytest.raises(StoreError, match=r"bbbb\.npz .*refused: .*run aaaa"):
        published_models.read(model_name("b" * 16), folder)


def test_oversized_model_is_refused_unread(folder, monkeypatch):
    monkeypatch.setattr(published_models, "MAX_BYTES", 100)
    monkeypatch.setattr(Model, "load", None)
    with pytest.raises(StoreError, match=r"refused: .*more than 100 bytes"):
        published_models.read(NAME, folder)


@pytest.mark.parametrize(
    ("head", "weights"),
    [
        (np.array([{}], dtype=object), np.zeros(3, np.float16)),
        (np.array("{}"), np.array([{}], dtype=object)),
        (None, np.zeros(3, np.float16)),
    ],
    ids=["pickled head", "pickled weights", "another shape"],
)
def test_invalid_listed_model_is_refused(folder, head, weights):
    """As by an attacker who also writes the list."""
    if head is None:
        with np.load(folder / NAME) as arrays:
            head = arrays["head"]
    np.savez(folder / NAME, head=head, weights=weights)
    checksum = published_models._checksum(folder / NAME)
    (folder / "models" / published_models.SUMS).write_text(f"{checksum}  {'a' * 16}.npz\n")
    with pytest.raises(StoreError, match="cannot be read"):
        published_models.read(NAME, folder)


def test_missing_model_raises(folder):
    (folder / NAME).unlink()
    with pytest.raises(StoreError, match="No such file"):
        published_models.read(NAME, folder)
