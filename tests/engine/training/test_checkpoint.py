"""Checkpoints round-trip, and a damaged one is refused."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from engine.errors import StoreError
from engine.training.checkpoint import Checkpoint, TrainingProgress


def checkpoint(step: int = 7) -> Checkpoint:
    arrays = {"step": np.arange(3, dtype=np.float32), "lstm/kernel:0": np.ones((2, 4)), "count": np.int64(3)}
    tally = TrainingProgress(step=step, rounds=1, examples_seen=64, nonfinite=1, bytes_down=80, bytes_up=2**40)
    return Checkpoint(round=2, seconds=1.5, tally=tally, arrays=arrays)


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    checkpoint(5).save(path)
    checkpoint(7).save(path)
    read, written = Checkpoint.load(path), checkpoint(7)
    assert (read.round, read.seconds, read.tally) == (written.round, written.seconds, written.tally)
    assert read.arrays.keys() == written.arrays.keys()
    for name, array in written.arrays.items():
        np.testing.assert_array_equal(read.arrays[name], array)
        assert read.arrays[name].dtype == np.asarray(array).dtype
    assert [p.name for p in path.parent.iterdir()] == ["checkpoint.npz"]


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut"])
def test_damaged_checkpoint_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "checkpoint.npz"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="cannot be read"):
        Checkpoint.load(path)


def test_truncated_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    checkpoint().save(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(StoreError, match="cannot be read"):
        Checkpoint.load(path)


def test_pickles_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    numbers = {field.name: 0 for field in fields(TrainingProgress)}
    np.savez(path, round=0, seconds=0.0, **numbers, **{"array:x": np.array([{}])})
    with pytest.raises(StoreError, match="cannot be read"):
        Checkpoint.load(path)
