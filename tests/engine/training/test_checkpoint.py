"""Checkpoints round-trip, and one that is damaged, or sealed for another place, is refused."""

import io
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np
import pytest

from engine.errors import StoreError
from engine.seeds import Secrets
from engine.training.checkpoint import Checkpoint, TrainingProgress, is_sealed

RUN, SECRETS = "0123456789abcdef", Secrets(bytes(range(32)))


def checkpoint(step: int = 7) -> Checkpoint:
    arrays = {"step": np.arange(3, dtype=np.float32), "lstm/kernel:0": np.ones((2, 4)), "count": np.int64(3)}
    tally = TrainingProgress(step=step, rounds=1, examples_seen=64, nonfinite=1, bytes_down=80, bytes_up=2**40)
    return Checkpoint(round=2, seconds=1.5, tally=tally, arrays=arrays)


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    checkpoint(5).save(path, RUN, SECRETS)
    checkpoint(7).save(path, RUN, SECRETS)
    read, written = Checkpoint.load(path, RUN, SECRETS), checkpoint(7)
    assert (read.round, read.seconds, read.tally) == (written.round, written.seconds, written.tally)
    assert read.arrays.keys() == written.arrays.keys()
    for name, array in written.arrays.items():
        np.testing.assert_array_equal(read.arrays[name], array)
        assert read.arrays[name].dtype == np.asarray(array).dtype
    assert [p.name for p in path.parent.iterdir()] == ["checkpoint.npz"]


def unsealed(found: Checkpoint) -> bytes:
    """Return the file of a version up to 0.6.0."""
    buffer, numbers = io.BytesIO(), {"round": found.round, "seconds": found.seconds, **asdict(found.tally)}
    np.savez(buffer, **numbers, **{f"array:{name}": array for name, array in found.arrays.items()})
    return buffer.getvalue()


def test_unsealed_checkpoint_of_earlier_versions_is_read(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    path.write_bytes(unsealed(checkpoint()))
    assert not is_sealed(path)
    read = Checkpoint.load(path, RUN, SECRETS)
    assert (read.round, read.tally, sorted(read.arrays)) == (2, checkpoint().tally, sorted(checkpoint().arrays))
    read.save(path, RUN, SECRETS)
    assert is_sealed(path)


def test_sealed_checkpoint_shows_run_step_and_format_only(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    checkpoint().save(path, RUN, SECRETS)
    content = path.read_bytes()
    head, _, sealed = content.partition(b"\n")
    assert head == b'{"format": "epsilon checkpoint 2", "run": "0123456789abcdef", "step": 7}'
    for value in (np.ones(8), np.arange(3, dtype=np.float32)):
        assert value.tobytes() in unsealed(checkpoint())
        assert value.tobytes() not in sealed
    again = tmp_path / "again.npz"
    checkpoint().save(again, RUN, SECRETS)
    assert again.read_bytes().partition(b"\n")[2][:64] != sealed[:64]


@pytest.mark.parametrize(
    ("run", "secrets", "old", "new"),
    [
        (RUN, Secrets(bytes(32)), b"", b""),
        (RUN, SECRETS.of(client=1), b"", b""),
        ("f" * 16, SECRETS, b"", b""),
        ("f" * 16, SECRETS, RUN.encode(), b"f" * 16),
        (RUN, SECRETS, b'"step": 7', b'"step": 8'),
        (RUN, SECRETS, b"checkpoint 2", b"checkpoint 3"),
    ],
)
def test_checkpoint_opens_with_its_key_and_as_itself_only(tmp_path: Path, run, secrets, old, new) -> None:
    path = tmp_path / "checkpoint.npz"
    checkpoint().save(path, RUN, SECRETS)
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(StoreError, match="cannot be read"):
        Checkpoint.load(path, run, secrets)


@pytest.mark.parametrize("place", [0, 40, 80, 120, -1])
def test_changed_bit_is_refused(tmp_path: Path, place: int) -> None:
    path = tmp_path / "checkpoint.npz"
    checkpoint().save(path, RUN, SECRETS)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreError, match="cannot be read"):
        Checkpoint.load(path, RUN, SECRETS)


@pytest.mark.parametrize(
    "content", [b"", b"not an archive", b"PK\x03\x04 cut", b'{"format": "epsilon checkpoint 2"}\n']
)
def test_damaged_checkpoint_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "checkpoint.npz"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="cannot be read"):
        Checkpoint.load(path, RUN, SECRETS)


def test_truncated_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    checkpoint().save(path, RUN, SECRETS)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(StoreError, match="cannot be read"):
        Checkpoint.load(path, RUN, SECRETS)


def test_pickles_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    numbers = {field.name: 0 for field in fields(TrainingProgress)}
    np.savez(path, round=0, seconds=0.0, **numbers, **{"array:x": np.array([{}])})
    with pytest.raises(StoreError, match="cannot be read"):
        Checkpoint.load(path, RUN, SECRETS)
