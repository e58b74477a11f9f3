"""Searches for a recipe as JSON, one file each: the user's own in the home, published ones in ``cached_results/``.

What :mod:`engine.experiments.tuning` found is kept here for pages, which need no search library for it. Files come
from outside, so each is checked as a whole; one that cannot be used is left out, as if it were not there.
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
"""Below the home and the published results."""
_MAX_BYTES = 5_000_000


def write(study: Study, home: Path) -> Path:
    """Keep a study in place of the one of its name. Raises StoreError."""
    values = dataclasses.asdict(study) | {"best": study.best.to_dict() if study.best else None}
    path = home / FOLDER / f"{study.name}.json"
    with atomic_write(path, "The search") as passing:
        passing.write_text(json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False), encoding="utf-8")
    return path


def read_all(*folders: Path) -> dict[str, Study]:
    """Studies below these folders by name; where two have the same, the first one's."""
    found: dict[str, Study] = {}
    for folder in folders:
        for path in sorted((folder / FOLDER).glob("*.json")):
            try:
                if path.stat().st_size <= _MAX_BYTES:
                    study = _study(json.loads(path.read_text(encoding="utf-8")))
                    found.setdefault(study.name, study)
            except (OSError, *UNREADABLE):
                continue
    return found


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
    """What older studies do not have; what is left out has its default."""
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
        "released": lambda known: {int(number): int(seeds) for number, seeds in known.items()},
    }
    return {name: kind(values[name]) for name, kind in kinds.items() if values.get(name) is not None}


def _number(value: Any) -> float:
    found = float(value)
    if not math.isfinite(found):
        raise ValueError(f"{value!r} is no finite number")
    return found
