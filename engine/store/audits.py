"""Audits as JSON, one file for each run's configuration: the user's own among the files that runs share, published ones
in ``cached_results/``.

Files come from outside, so each is checked as a whole; one that cannot be used is left out, as if it were not there.
"""

import dataclasses
import json
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.artifact_store import ArtifactStore
from engine.config import SimulationConfig
from engine.errors import UNREADABLE
from engine.records import RATES, SHOWN, Audit

FOLDER = "audits"
"""Among the files that runs share, and below the published results."""
_MAX_BYTES = 1_000_000


def name_of(run_id: str) -> str:
    """What the audit of a run is called among the files that runs share."""
    return f"{FOLDER}/{run_id}.json"


def write(audit: Audit, artefacts: ArtifactStore) -> Path:
    """Keep an audit in place of the one of the same run. Raises StoreError."""
    name = name_of(audit.run_id)
    values = _without_infinities(dataclasses.asdict(audit) | {"config": audit.config.to_dict()})
    with artefacts.write(name, "The audit") as passing:
        passing.write_text(json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False), encoding="utf-8")
    return artefacts.local_path(name)


def _without_infinities(value: Any) -> Any:
    """JSON has none; a reader takes the word for the number."""
    if isinstance(value, dict):
        return {name: _without_infinities(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinities(each) for each in value]
    return "Infinity" if value == math.inf else value


def read_all(*folders: Path) -> dict[str, Audit]:
    """Audits below these folders by their run's identity; where two have the same, the first one."""
    found: dict[str, Audit] = {}
    for folder in folders:
        for path in sorted((folder / FOLDER).glob("*.json")):
            try:
                if path.stat().st_size <= _MAX_BYTES:
                    audit = _audit(path.read_bytes())
                    found.setdefault(audit.run_id, audit)
            except (OSError, *UNREADABLE):
                continue
    return found


def _audit(text: bytes) -> Audit:
    values = json.loads(text)
    about = {name: adapter.validate_python(values[name]) for name, adapter in _adapters().items() if name in values}
    audit = Audit(config=SimulationConfig.from_dict(values["config"]), **about)
    if found := audit.membership:
        fits = all(len(curve.caught) == len(RATES) and len(curve.shown) == len(SHOWN) for curve in found.curves)
        if not fits or found.best not in [curve.attack for curve in found.curves]:
            raise ValueError(f"audit {audit.run_id}: its curves do not fit")
    if audit.server:
        levels = [each.noise_multiplier for each in audit.server.readings]
        if audit.config.privacy.noise_multiplier not in levels:
            raise ValueError(f"audit {audit.run_id}: the run's own noise is not among its readings")
    return audit


@lru_cache(maxsize=1)
def _adapters() -> dict[str, Any]:
    from pydantic import TypeAdapter

    return {field.name: TypeAdapter(field.type) for field in dataclasses.fields(Audit) if field.name != "config"}  # type: ignore[arg-type]
