"""Searches for a recipe as JSON, one file each: the user's own in the home, published ones in ``cached_results/``.

What :mod:`engine.tuning` found is kept here for pages, which need no search library for it. Files come from outside, so
each is checked as a whole; one that cannot be used is left out, as if it were not there.
"""

import dataclasses
import json
import math
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.config import FLAT, SimulationConfig
from engine.errors import InvalidConfig, StoreError

FOLDER = "tuning"
"""Below the home and the published results."""
_MAX_BYTES = 5_000_000


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A recipe that was tried. chosen: the fields that the search varied. noise_multiplier: σ that the target needs for
    them. f1: entities, strict and micro, on the development corpus's validation part. seconds: of wall time."""

    number: int
    chosen: Mapping[str, Any]
    noise_multiplier: float
    f1: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Study:
    """A search. epsilon, delta: that the recipe shall spend on ``corpus``. development: where it was tried, a corpus
    that the user called public or not private. trials: in order. best: configuration of the best one on ``corpus``,
    seed 0, None before the first trial. booked_basic, booked_composed: ε that the trials would have cost on the corpus
    itself, by basic composition and by Rényi accounting. command: that goes on with it."""

    name: str
    epsilon: float
    delta: float
    corpus: str
    development: str
    trials: tuple[Trial, ...] = ()
    best: SimulationConfig | None = None
    booked_basic: float = 0.0
    booked_composed: float = 0.0
    command: str = ""

    @property
    def winner(self) -> Trial | None:
        """The best trial, the earlier one of equals."""
        return max(self.trials, key=lambda trial: (trial.f1, -trial.number), default=None)

    @property
    def private(self) -> bool:
        """Whether recipes were tried on the very sentences that the recipe shall protect."""
        return self.corpus == self.development

    @property
    def cost_text(self) -> str:
        """What the trials cost, or would have cost, in a sentence."""
        total = (
            f"ε = {self.booked_composed:.3g} by Rényi accounting, at most {self.booked_basic:g} by basic composition"
        )
        if self.private:
            return (
                f"These {len(self.trials):,} trials looked at {self.corpus} itself: together they cost {total}, on top "
                "of the last runs, and the validation part that chose among them had no protection at all."
            )
        return (
            f"The trials looked at {self.development} alone and cost {self.corpus} nothing; on {self.corpus} itself "
            f"they would have cost {total}."
        )


def write(study: Study, home: Path) -> Path:
    """Keep a study in place of the one of its name. Raises StoreError."""
    values = dataclasses.asdict(study) | {"best": study.best.to_dict() if study.best else None}
    path = home / FOLDER / f"{study.name}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False, encoding="utf-8") as file:
            json.dump(values, file, indent=1, ensure_ascii=False, allow_nan=False)
        os.chmod(file.name, 0o644)
        os.replace(file.name, path)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}.") from error
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
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidConfig):
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
        )
        for trial in values["trials"]
    )
    texts = {name: str(values[name]) for name in ("name", "corpus", "development", "command")}
    numbers = {name: _number(values[name]) for name in ("epsilon", "delta", "booked_basic", "booked_composed")}
    best = SimulationConfig.from_dict(values["best"]) if values["best"] else None
    return Study(trials=trials, best=best, **texts, **numbers)  # type: ignore[arg-type]


def _number(value: Any) -> float:
    found = float(value)
    if not math.isfinite(found):
        raise ValueError(f"{value!r} is no finite number")
    return found
