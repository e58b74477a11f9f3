"""Audits as JSON, one file for each run: the user's among the shared files, published ones in ``cached_results/``.

The files are untrusted input, so each is validated; an invalid one is ignored.
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
from engine.records import RATES, SHOWN, Audit, CanaryAudit

FOLDER = "audits"
"""Folder name, among the shared files and below the published results."""
_MAX_BYTES = 1_000_000


def name_of(run_id: str) -> str:
    """Return the name of a run's audit among the shared files."""
    return f"{FOLDER}/{run_id}.json"


def write(audit: Audit, artefacts: ArtifactStore) -> Path:
    """Save an audit, replacing an earlier one of the same run. Raises StoreError."""
    name = name_of(audit.run_id)
    values = _without_infinities(dataclasses.asdict(audit) | {"config": audit.config.to_dict()})
    with artefacts.write(name, "The audit") as path:
        path.write_text(json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False), encoding="utf-8")
    return artefacts.local_path(name)


def _without_infinities(value: Any) -> Any:
    """Return the values with "Infinity" in place of ∞, which JSON lacks; readers convert it back."""
    if isinstance(value, dict):
        return {name: _without_infinities(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinities(item) for item in value]
    return "Infinity" if value == math.inf else value


def read_all(*folders: Path) -> dict[str, Audit]:
    """Return the audits below these folders by run identity; the first folder has priority."""
    audits: dict[str, Audit] = {}
    for folder in folders:
        for path in sorted((folder / FOLDER).glob("*.json")):
            try:
                if path.stat().st_size <= _MAX_BYTES:
                    audit = _audit(path.read_bytes())
                    audits.setdefault(audit.run_id, audit)
            except (OSError, *UNREADABLE):
                continue
    return audits


def _audit(text: bytes) -> Audit:
    values = json.loads(text)
    fields = {name: adapter.validate_python(values[name]) for name, adapter in _adapters().items() if name in values}
    audit = Audit(config=SimulationConfig.from_dict(values["config"]), **fields)
    for canaries in filter(None, (audit.white, audit.black)):
        _check_canaries(canaries, audit.config)
    if membership := audit.membership:
        valid = all(len(curve.caught) == len(RATES) and len(curve.shown) == len(SHOWN) for curve in membership.curves)
        if not valid or membership.best not in [curve.attack for curve in membership.curves]:
            raise ValueError(f"audit {audit.run_id}: its curves do not fit")
    if audit.server:
        levels = [reading.noise_multiplier for reading in audit.server.readings]
        if audit.config.privacy.noise_multiplier not in levels:
            raise ValueError(f"audit {audit.run_id}: the run's own noise is not among its readings")
    return audit


def _check_canaries(audit: CanaryAudit, config: SimulationConfig) -> None:
    """Check that the numbers of guesses fit. Raises ValueError."""
    right, made = audit.trials or (0, 0)
    few = audit.examples is not None and audit.examples < max(config.training.batch_size, audit.canaries)
    if not 0 <= audit.right <= audit.made <= audit.canaries or not 0 <= right <= made <= audit.canaries or few:
        raise ValueError(f"audit of {audit.canaries:,} canaries: its numbers of guesses do not fit")


@lru_cache(maxsize=1)
def _adapters() -> dict[str, Any]:
    from pydantic import TypeAdapter

    return {field.name: TypeAdapter(field.type) for field in dataclasses.fields(Audit) if field.name != "config"}  # type: ignore[arg-type]
