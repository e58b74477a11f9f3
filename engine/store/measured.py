"""Kept measurements of speed: what ``benchmarks/`` wrote into ``cached_results/speed/``, one JSON file each."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = "speed"
"""Below the published results."""
_MAX_BYTES = 1_000_000
_ABOUT = ("created", "machine", "command", "engine_version")


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """values: what the benchmark printed. created: ISO 8601, UTC. machine: its class. command: that measures again.
    engine_version: of the code that was measured."""

    values: dict[str, Any]
    created: str
    machine: str
    command: str
    engine_version: str


def read_all(published: Path) -> dict[str, Measurement]:
    """Measurements by the benchmark's name; a file that cannot be used is left out, as if it were not there."""
    found = {}
    for path in sorted((published / FOLDER).glob("*.json")):
        try:
            if path.stat().st_size > _MAX_BYTES:
                continue
            values = json.loads(path.read_text(encoding="utf-8"))
            about = {name: str(values.pop(name)) for name in _ABOUT}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        found[path.stem] = Measurement(values=values, **about)
    return found
