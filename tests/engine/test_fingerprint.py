"""A changed default, stream, initial weight or privacy cost requires a new engine version."""

import copy
import json
import sys

import pytest

from engine import seeds
from tests.engine import fingerprint


@pytest.fixture(scope="module")
def current():
    return json.loads(json.dumps(fingerprint.today()))


def test_fingerprint_of_version_is_unchanged(current):
    assert not (said := fingerprint.complaints(fingerprint.read(), current)), "\n".join(said)


def test_saved_fingerprint_is_current(current):
    assert fingerprint.is_kept(fingerprint.read(), current), (
        "Something is new, or a version was raised: run `python -m tests.engine.fingerprint --write`, commit the file."
    )


def test_changed_default_is_reported_with_instructions(current):
    other = copy.deepcopy(current)
    other["private"]["print"]["defaults"]["learning_rate"] = 0.1
    (said,) = fingerprint.complaints(current, other)
    assert f"version {current['private']['version']} (private runs)" in said
    assert "defaults, learning_rate: 0.15 → 0.1" in said
    assert "Raise PRIVATE_VERSION in engine/__init__.py" in said


def test_change_of_type_is_reported(current):
    other = copy.deepcopy(current)
    other["plain"]["print"]["defaults"]["rounds"] = True
    assert fingerprint.complaints(current, other)


@pytest.mark.parametrize(("place", "kinds"), [("_identity", 2), ("KeyStream", 1)])
def test_changed_draws_are_reported(current, monkeypatch, place, kinds):
    made = getattr(seeds, place)
    if place == "_identity":
        monkeypatch.setattr(seeds, place, lambda *names: made(*names) + ",")
    else:
        monkeypatch.setattr(seeds, place, lambda key: made(key[::-1]))
    said = fingerprint.complaints(current, json.loads(json.dumps(fingerprint.today())))
    assert len(said) == kinds
    assert "draws" in said[-1]


def test_renamed_stream_is_reported(current):
    other = copy.deepcopy(current)
    del other["plain"]["print"]["streams"]["'partition'"]
    other["plain"]["print"]["streams"]["'shards'"] = ""
    (said,) = fingerprint.complaints(current, other)
    assert "'partition'" in said


def test_raised_version_allows_changes(current):
    other = copy.deepcopy(current)
    other["plain"]["version"] += "1"
    other["plain"]["print"]["defaults"]["epochs"] = 9.0
    assert not fingerprint.complaints(current, other)
    assert not fingerprint.is_kept(current, other)


def test_new_entries_need_no_new_version(current):
    other = copy.deepcopy(current)
    other["plain"]["print"]["defaults"]["warm_up"] = 0
    assert not fingerprint.complaints(current, other)
    assert not fingerprint.is_kept(current, other)


def test_write_refuses_changes_under_the_same_version(current, tmp_path, monkeypatch, capsys):
    other = copy.deepcopy(current)
    other["plain"]["print"]["defaults"]["epochs"] = 9.0
    monkeypatch.setattr(fingerprint, "FILE", tmp_path / "fingerprint.json")
    monkeypatch.setattr(fingerprint, "today", lambda: other)
    fingerprint.FILE.write_text(json.dumps(current))
    monkeypatch.setattr(sys, "argv", ["fingerprint", "--write"])
    assert fingerprint.main() == 1
    assert "epochs: 10.0 → 9.0" in capsys.readouterr().err
    assert fingerprint.read() == current
    monkeypatch.setattr(sys, "argv", ["fingerprint", "--write", "--same-records"])
    assert fingerprint.main() == 0
    assert fingerprint.read() == other
