"""Benchmark results that ``benchmarks/`` saved in ``cached_results/speed/``, one JSON file each."""

import json
from pathlib import Path

from engine.records import Measurement

FOLDER = "speed"
"""Folder below the published results."""
_MAX_BYTES = 1_000_000
_ABOUT = ("created", "machine", "command", "engine_version")


def read_all(published: Path) -> dict[str, Measurement]:
    """Return the measurements by benchmark name; an invalid file is ignored."""
    measurements = {}
    for path in sorted((published / FOLDER).glob("*.json")):
        try:
            if path.stat().st_size > _MAX_BYTES:
                continue
            values = json.loads(path.read_text(encoding="utf-8"))
            fields = {name: str(values.pop(name)) for name in _ABOUT}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        measurements[path.stem] = Measurement(values=values, **fields)
    return measurements
