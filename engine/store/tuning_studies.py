"""Hyperparameter searches as JSON, one file each: the user's in the home folder, published ones in ``cached_results/``.

Pages read the results of :mod:`engine.experiments.tuning` here without the search library. The files are untrusted
input, so each is validated; an invalid one is ignored.
"""

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.artifact_store import atomic_write
from engine.config import FLAT, SimulationConfig
from engine.errors import UNREADABLE
from engine.records import Study, Trial

FOLDER = "tuning"
"""Folder name, in the home folder and below the published results."""
_MAX_BYTES = 5_000_000


def write(study: Study, home: Path) -> Path:
    """Save a study, replacing an earlier one of the same name. Raises StoreError."""
    values = dataclasses.asdict(study) | {"best": study.best.to_dict() if study.best else None}
    path = home / FOLDER / f"{study.name}.json"
    with atomic_write(path, "The search") as temporary:
        temporary.write_text(json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False), encoding="utf-8")
    return path


def read_all(*folders: Path) -> dict[str, Study]:
    """Return the studies below these folders by name; the first folder has priority."""
    studies: dict[str, Study] = {}
    for folder in folders:
        for path in sorted((folder / FOLDER).glob("*.json")):
            try:
                if path.stat().st_size <= _MAX_BYTES:
                    study = _study(json.loads(path.read_text(encoding="utf-8")))
                    studies.setdefault(study.name, study)
            except (OSError, *UNREADABLE):
                continue
    return studies


def _study(values: dict[str, Any]) -> Study:
    trials = tuple(
        Trial(
            number=int(trial["number"]),
            chosen={name: value for name, value in trial["chosen"].items() if name in FLAT},
            noise_multiplier=_number(trial["noise_multiplier"]),
            f1=_number(trial["f1"]),
            seconds=_number(trial["seconds"]),
            seed=int(trial.get("seed", 0)),
        )
        for trial in values["trials"]
    )
    texts = {name: str(values[name]) for name in ("name", "corpus", "development", "command")}
    numbers = {name: _number(values[name]) for name in ("epsilon", "delta", "booked_basic", "booked_composed")}
    best = SimulationConfig.from_dict(values["best"]) if values["best"] else None
    return Study(trials=trials, best=best, **texts, **numbers, **_added(values))  # type: ignore[arg-type]


def _added(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that older studies lack; missing ones have their defaults."""
    kinds: dict[str, Callable[[Any], Any]] = {
        "corpus_checksum": str,
        "development_checksum": str,
        "first": str,
        "sentences": int,
        "shared": int,
        "seeds": int,
        "budget": _number,
        "order": _number,
        "released_epsilon": _number,
        "released": lambda released: {int(number): int(seeds) for number, seeds in released.items()},
    }
    return {name: kind(values[name]) for name, kind in kinds.items() if values.get(name) is not None}


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a finite number")
    return number
