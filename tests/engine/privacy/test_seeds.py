"""Streams: reproducible by name and keys, distinct otherwise, and uniform."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from engine.seeds import KeyStream, Secrets, Seeds


@pytest.mark.parametrize("streams", [Seeds(3), Secrets.seeded(3, "run")])
def test_stream_depends_on_name_and_keys(streams: Seeds | Secrets) -> None:
    def draws(of: Seeds | Secrets, name: str = "noise", **keys: int) -> list[float]:
        return of.stream(name, **keys).random(4).tolist()

    assert draws(streams, step=1) == draws(streams, step=1)
    assert draws(streams, step=1) != draws(streams, step=2)
    assert draws(streams, step=1) != draws(streams, "sampling", step=1)
    assert draws(streams.of(client=3), step=1) == draws(streams, step=1, client=3) != draws(streams, step=1)
    assert draws(streams.of(a=1).of(b=2)) == draws(streams.of(b=2).of(a=1))


def test_secrets_are_seeded_by_seed_and_run_or_drawn() -> None:
    assert Secrets.seeded(1, "a") == Secrets.seeded(1, "a")
    assert len({Secrets.seeded(1, "a"), Secrets.seeded(2, "a"), Secrets.seeded(1, "b")}) == 3
    assert Secrets.drawn() != Secrets.drawn()
    assert len(Secrets.drawn().entropy) == 32
    assert Seeds(1).stream("x").random(2).tolist() != Seeds(2).stream("x").random(2).tolist()


STREAMS = [(Seeds(1), "seed"), (Secrets.drawn(), "entropy"), (KeyStream(b""), "key")]


@pytest.mark.parametrize(("streams", "field"), STREAMS)
def test_streams_are_immutable(streams: object, field: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(streams, field, 0)


def test_repr_hides_secrets() -> None:
    """A printed secret ends up in logs and in error messages."""
    key = bytes(range(32))
    assert repr(key) not in repr(Secrets(key))
    assert repr(key) not in repr(Secrets(key).of(client=3))
    assert repr(key) not in repr(KeyStream(key))


def test_key_stream_equals_chacha20() -> None:
    """RFC 8439, appendix A.1, first vector: key, nonce and counter of zeros."""
    block = bytes.fromhex("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")
    words = np.frombuffer(block, dtype="<u8")
    stream = KeyStream(bytes(32))
    assert stream.random(4).tolist() == [int(word >> np.uint64(11)) / 2**53 for word in words]
    assert stream.permutation(4).tolist() == np.argsort(words).tolist()
    draws = stream.random(100_000)
    assert draws.mean() == pytest.approx(0.5, abs=0.005)
    assert draws.var() == pytest.approx(1 / 12, abs=0.002)
    assert sorted(stream.permutation(1000).tolist()) == list(range(1000))
