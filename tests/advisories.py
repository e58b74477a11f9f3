"""Known vulnerabilities of the pinned packages, from a stored list of advisories.

``python -m tests.advisories FOLDER`` writes ``tests/advisories.json`` from a copy of PyPA's advisory database
(github.com/pypa/advisory-database, CC BY 4.0). The list has package, versions and number of each advisory, no texts.
``make audit`` downloads the current advisories instead and therefore needs a network.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import canonicalize_name
from packaging.version import Version

from engine.settings import REPOSITORY

STORED = Path(__file__).with_name("advisories.json")
LISTS = ("requirements.txt", "tests/requirements.txt", "federation/requirements.txt", "engine/setup/*.txt")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)", re.MULTILINE)


def pinned() -> set[tuple[str, str]]:
    """Return name and version of each package in the requirements files."""
    texts = (path.read_text(encoding="utf-8") for pattern in LISTS for path in REPOSITORY.glob(pattern))
    return {(canonicalize_name(name), version) for text in texts for name, version in _PIN.findall(text)}


def vulnerabilities(name: str, version: str, advisories: Mapping[str, Any]) -> list[str]:
    """Return the numbers of the stored advisories that affect this version of a package."""
    return [
        number
        for number, advisory in advisories.items()
        if advisory["package"] == name and any(_is_affected(Version(version), events) for events in advisory["ranges"])
    ]


def _is_affected(version: Version, events: list[list[str]]) -> bool:
    """Return whether the last event up to this version introduced the vulnerability, as OSV defines it."""
    reached = [(Version(at), kind == "introduced") for kind, at in events if Version(at) <= version]
    return bool(reached) and max(reached)[1]


def main() -> int:
    """Write the list of advisories; return the exit code."""
    database = Path(sys.argv[1])
    names = {name for name, _ in pinned()}
    advisories = {
        advisory["id"]: _stored_fields(advisory, name)
        for name, advisory in sorted(_read(database, names), key=lambda item: str(item[1]["id"]))
    }
    newest = max(str(advisory["modified"]) for _, advisory in _read(database, names))
    body = {
        "source": "PyPA advisory database, github.com/pypa/advisory-database, CC BY 4.0",
        "newest": newest[:10],
        "packages": sorted(names),
        "advisories": advisories,
    }
    STORED.write_text(json.dumps(body, indent=None, separators=(",", ":")).replace('},"', '},\n"') + "\n")
    sys.stdout.write(f"{len(advisories)} advisories on {len(names)} packages, the newest of {body['newest']}\n")
    return 0


def _read(database: Path, names: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in database.glob("vulns/*/PYSEC-*.yaml"):
        if (name := canonicalize_name(path.parent.name)) in names:
            advisory = yaml.safe_load(path.read_text(encoding="utf-8"))
            if not advisory.get("withdrawn"):
                yield name, advisory


def _stored_fields(advisory: Mapping[str, Any], name: str) -> dict[str, Any]:
    affected = [entry for entry in advisory["affected"] if canonicalize_name(entry["package"]["name"]) == name]
    spans = [span["events"] for entry in affected for span in entry.get("ranges", []) if span["type"] == "ECOSYSTEM"]
    ranges = [[[kind, str(at)] for event in events for kind, at in event.items()] for events in spans]
    kinds = {kind for events in ranges for kind, _ in events}
    if kinds != {"introduced", "fixed"} and kinds != {"introduced"}:
        raise ValueError(f"{advisory['id']} has the events {sorted(kinds)}, expected 'introduced' and 'fixed'")
    return {"package": name, "ranges": ranges}


if __name__ == "__main__":
    sys.exit(main())
