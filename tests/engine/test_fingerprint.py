"""A changed default, stream, first weight or price raises the engine's version."""

import copy
import json
import sys

import pytest

from engine import seeds
from tests.engine import fingerprint


@pytest.fixture(scope="module")
def found():
    return json.loads(json.dumps(fingerprint.today()))


def test_what_a_version_stands_for_has_not_changed(found):
    assert not (said := fingerprint.complaints(fingerprint.read(), found)), "\n".join(said)


def test_the_kept_fingerprint_is_todays(found):
    assert fingerprint.is_kept(fingerprint.read(), found), (
        "Something is new, or a version was raised: run `python -m tests.engine.fingerprint --write`, commit the file."
    )


def test_a_changed_default_is_named_with_what_to_do(found):
    other = copy.deepcopy(found)
    other["private"]["print"]["defaults"]["learning_rate"] = 0.1
    (said,) = fingerprint.complaints(found, other)
    assert f"version {found['private']['version']} (private runs)" in said
    assert "defaults, learning_rate: 0.15 → 0.1" in said
    assert "Raise PRIVATE_VERSION in engine/__init__.py" in said


def test_a_default_may_not_go_from_one_to_true(found):
    other = copy.deepcopy(found)
    other["plain"]["print"]["defaults"]["rounds"] = True
    assert fingerprint.complaints(found, other)


@pytest.mark.parametrize(("place", "kinds"), [("_identity", 2), ("KeyStream", 1)])
def test_other_draws_are_seen(found, monkeypatch, place, kinds):
    made = getattr(seeds, place)
    if place == "_identity":
        monkeypatch.setattr(seeds, place, lambda *names: made(*names) + ",")
    else:
        monkeypatch.setattr(seeds, place, lambda key: made(key[::-1]))
    said = fingerprint.complaints(found, json.loads(json.dumps(fingerprint.today())))
    assert len(said) == kinds
    assert "draws" in said[-1]


def test_a_stream_of_another_name_is_seen(found):
    other = copy.deepcopy(found)
    del other["plain"]["print"]["streams"]["'partition'"]
    other["plain"]["print"]["streams"]["'shards'"] = ""
    (said,) = fingerprint.complaints(found, other)
    assert "'partition'" in said


def test_a_version_that_was_raised_may_stand_for_something_else(found):
    other = copy.deepcopy(found)
    other["plain"]["version"] += "1"
    other["plain"]["print"]["defaults"]["epochs"] = 9.0
    assert not fingerprint.complaints(found, other)
    assert not fingerprint.is_kept(found, other)


def test_what_is_new_raises_nothing(found):
    other = copy.deepcopy(found)
    other["plain"]["print"]["defaults"]["warm_up"] = 0
    assert not fingerprint.complaints(found, other)
    assert not fingerprint.is_kept(found, other)


def test_it_is_not_written_over_while_the_version_is_the_same(found, tmp_path, monkeypatch, capsys):
    other = copy.deepcopy(found)
    other["plain"]["print"]["defaults"]["epochs"] = 9.0
    monkeypatch.setattr(fingerprint, "FILE", tmp_path / "fingerprint.json")
    monkeypatch.setattr(fingerprint, "today", lambda: other)
    fingerprint.FILE.write_text(json.dumps(found))
    monkeypatch.setattr(sys, "argv", ["fingerprint", "--write"])
    assert fingerprint.main() == 1
    assert "epochs: 10.0 → 9.0" in capsys.readouterr().err
    assert fingerprint.read() == found
    monkeypatch.setattr(sys, "argv", ["fingerprint", "--write", "--same-records"])
    assert fingerprint.main() == 0
    assert fingerprint.read() == other
