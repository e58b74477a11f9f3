"""Kept measurements of speed: what ``benchmarks/`` wrote into ``cached_results/speed/``, one JSON file each."""

import json
from pathlib import Path

from engine.records import Measurement

FOLDER = "speed"
"""Below the published results."""
_MAX_BYTES = 1_000_000
_ABOUT = ("created", "machine", "command", "engine_version")


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
