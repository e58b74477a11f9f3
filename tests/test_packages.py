"""What is pinned, held against known weaknesses."""

import json

from tests import advisories

STORED = json.loads(advisories.STORED.read_text(encoding="utf-8"))


def test_no_pinned_package_has_a_weakness_that_is_known():
    found = {name: advisories.known(name, version, STORED["advisories"]) for name, version in advisories.pinned()}
    assert not {name: numbers for name, numbers in found.items() if numbers}


def test_the_list_was_made_for_what_is_pinned():
    """Else a package that is new would pass since nobody looked it up: `python -m tests.advisories`."""
    assert {name for name, _ in advisories.pinned()} <= set(STORED["packages"])


def test_weak_versions_are_found():
    """Pillow's CVE-2023-44271 (before 10.0.0), TensorFlow's of versions in several ranges."""
    weak = STORED["advisories"]
    assert "PYSEC-2023-227" in advisories.known("pillow", "9.5.0", weak)
    assert "PYSEC-2023-227" not in advisories.known("pillow", "10.0.0", weak)
    assert len(advisories.known("tensorflow", "2.3.0", weak)) > 100


def test_each_range_begins_and_ends_for_itself():
    events = [["introduced", "0"], ["fixed", "2.1.4"], ["introduced", "2.2"], ["fixed", "2.2.3"]]
    weak = {"X-1": {"package": "some", "ranges": [events]}}
    hit = {each for each in ("1.0", "2.1.3", "2.1.4", "2.2", "2.2.2", "2.2.3") if advisories.known("some", each, weak)}
    assert hit == {"1.0", "2.1.3", "2.2", "2.2.2"}
    assert not advisories.known("other", "1.0", weak)
