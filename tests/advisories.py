"""Known weaknesses of the pinned packages, as far as a stored list knows them.

``python -m tests.advisories FOLDER`` writes ``tests/advisories.json`` anew from a copy of PyPA's advisory database
(github.com/pypa/advisory-database, CC BY 4.0): which versions of which package, and under which number, no texts.
``make audit`` asks for those of today instead, which takes a network.
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
    """Name and version of each package on the lists."""
    texts = (path.read_text(encoding="utf-8") for each in LISTS for path in REPOSITORY.glob(each))
    return {(canonicalize_name(name), version) for text in texts for name, version in _PIN.findall(text)}


def known(name: str, version: str, advisories: Mapping[str, Any]) -> list[str]:
    """Numbers of the weaknesses that this version of a package has. advisories: the stored ones, by number."""
    return [
        number
        for number, advisory in advisories.items()
        if advisory["package"] == name and any(_within(Version(version), events) for events in advisory["ranges"])
    ]


def _within(version: Version, events: list[list[str]]) -> bool:
    """As OSV defines it: the last event up to this version brought the weakness in, and did not take it away."""
    reached = [(Version(at), kind == "introduced") for kind, at in events if Version(at) <= version]
    return bool(reached) and max(reached)[1]


def main() -> int:
    """Write the list anew; the value is the exit code."""
    database = Path(sys.argv[1])
    names = {name for name, _ in pinned()}
    found = {advisory["id"]: _kept(advisory, name) for name, advisory in sorted(_of(database, names), key=_number)}
    newest = max(str(advisory["modified"]) for _, advisory in _of(database, names))
    body = {
        "source": "PyPA advisory database, github.com/pypa/advisory-database, CC BY 4.0",
        "newest": newest[:10],
        "packages": sorted(names),
        "advisories": found,
    }
    STORED.write_text(json.dumps(body, indent=None, separators=(",", ":")).replace('},"', '},\n"') + "\n")
    sys.stdout.write(f"{len(found)} advisories on {len(names)} packages, the newest of {body['newest']}\n")
    return 0


def _of(database: Path, names: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in database.glob("vulns/*/PYSEC-*.yaml"):
        if (name := canonicalize_name(path.parent.name)) in names:
            advisory = yaml.safe_load(path.read_text(encoding="utf-8"))
            if not advisory.get("withdrawn"):
                yield name, advisory


def _number(one: tuple[str, dict[str, Any]]) -> str:
    return str(one[1]["id"])


def _kept(advisory: Mapping[str, Any], name: str) -> dict[str, Any]:
    affected = [each for each in advisory["affected"] if canonicalize_name(each["package"]["name"]) == name]
    spans = [span["events"] for each in affected for span in each.get("ranges", []) if span["type"] == "ECOSYSTEM"]
    ranges = [[[kind, str(at)] for event in events for kind, at in event.items()] for events in spans]
    kinds = {kind for events in ranges for kind, _ in events}
    if kinds != {"introduced", "fixed"} and kinds != {"introduced"}:
        raise ValueError(f"{advisory['id']} has the events {sorted(kinds)}, expected what was introduced and fixed")
    return {"package": name, "ranges": ranges}


if __name__ == "__main__":
    sys.exit(main())
