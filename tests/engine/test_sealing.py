"""Sealed content opens with its key and place only, whole and in order."""

import pytest

from engine import sealing
from engine.sealing import SealBroken, seal, unseal

KEY, PLACE = bytes(range(32)), b"run, step, format"


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(sealing, "_CHUNK", 8)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 16, 17, 100])
def test_round_trip(length):
    content = bytes(range(length))
    sealed = seal(KEY, content, PLACE)
    assert unseal(KEY, sealed, PLACE) == content
    assert len(sealed) == 32 + length + 16 * max(1, -(-length // 8))
    assert seal(KEY, content, PLACE)[:32] != sealed[:32]


@pytest.mark.parametrize(("key", "place"), [(bytes(32), PLACE), (KEY, b""), (KEY, b"run, step, formaT")])
def test_another_key_or_place_is_refused(key, place):
    with pytest.raises(SealBroken):
        unseal(key, seal(KEY, b"secret", PLACE), place)


def test_chunks_cannot_be_changed_cut_moved_repeated_or_joined():
    sealed = seal(KEY, bytes(range(24)), PLACE)
    other = seal(KEY, bytes(range(24)), PLACE)
    salt, one, two, three = sealed[:32], sealed[32:56], sealed[56:80], sealed[80:]
    assert unseal(KEY, salt + one + two + three, PLACE) == bytes(range(24))
    for broken in (
        b"",
        salt,
        sealed[:-1],
        salt + one + two,
        salt + two + one + three,
        salt + one + one + three,
        salt + three,
        sealed + three,
        salt + other[32:56] + two + three,
        *(sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :] for place in range(len(sealed))),
    ):
        with pytest.raises(SealBroken):
            unseal(KEY, broken, PLACE)
