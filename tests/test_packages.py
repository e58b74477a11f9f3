"""Pinned packages are compared with known vulnerabilities."""

import json

from tests import advisories

STORED = json.loads(advisories.STORED.read_text(encoding="utf-8"))


def test_pinned_packages_have_no_known_vulnerability():
    found = {
        name: advisories.vulnerabilities(name, version, STORED["advisories"]) for name, version in advisories.pinned()
    }
    assert not {name: numbers for name, numbers in found.items() if numbers}


def test_stored_advisories_cover_all_pinned_packages():
    """A new package would pass without a look-up; `python -m tests.advisories` adds its advisories."""
    assert {name for name, _ in advisories.pinned()} <= set(STORED["packages"])


def test_vulnerable_versions_are_found():
    """Check Pillow's CVE-2023-44271 (before 10.0.0) and TensorFlow's advisories with several version ranges."""
    stored = STORED["advisories"]
    assert "PYSEC-2023-227" in advisories.vulnerabilities("pillow", "9.5.0", stored)
    assert "PYSEC-2023-227" not in advisories.vulnerabilities("pillow", "10.0.0", stored)
    assert len(advisories.vulnerabilities("tensorflow", "2.3.0", stored)) > 100


def test_version_ranges_are_independent():
    events = [["introduced", "0"], ["fixed", "2.1.4"], ["introduced", "2.2"], ["fixed", "2.2.3"]]
    stored = {"X-1": {"package": "some", "ranges": [events]}}
    versions = ("1.0", "2.1.3", "2.1.4", "2.2", "2.2.2", "2.2.3")
    affected = {version for version in versions if advisories.vulnerabilities("some", version, stored)}
    assert affected == {"1.0", "2.1.3", "2.2", "2.2.2"}
    assert not advisories.vulnerabilities("other", "1.0", stored)
