"""The state from which an interrupted run goes on, as one file without pickles.

Only what the next step needs is kept: weights and optimiser state. Samples and noise are drawn from streams named by
their step (:mod:`engine.seeds`), and ε is computed from the plan and the steps taken, so neither can be lost here.
"""

from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from engine.errors import StoreError

_ARRAY = "array:"
"""Prefix that keeps the names of arrays apart from the names of the numbers beside them."""


@dataclass(frozen=True, kw_only=True)
class TrainingProgress:
    """How far a run has come. step: optimiser steps taken, by all clients together. rounds: communication rounds done.
    examples_seen: sentences sampled, with repeats. nonfinite: sentences whose gradient was not finite. bytes_down,
    bytes_up: weights sent to clients and received from them."""

    step: int = 0
    rounds: int = 0
    examples_seen: int = 0
    nonfinite: int = 0
    bytes_down: int = 0
    bytes_up: int = 0


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A run right after one of its records.

    round: number of the record reported at this moment. seconds: wall time so far. tally: what was done so far.
    arrays: weights and optimiser state by name, any shapes.
    """

    round: int
    seconds: float
    tally: TrainingProgress
    arrays: dict[str, np.ndarray]

    def save(self, path: Path) -> None:
        """Write it at a path that nobody reads yet. Raises OSError."""
        numbers = {"round": self.round, "seconds": self.seconds, **asdict(self.tally)}
        np.savez(path, **numbers, **{_ARRAY + name: array for name, array in self.arrays.items()})

    @classmethod
    def load(cls, path: Path) -> "Checkpoint":
        """Read what :meth:`save` wrote. Raises StoreError if the file is missing or damaged."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            return cls(
                round=int(arrays["round"]),
                seconds=float(arrays["seconds"]),
                tally=TrainingProgress(**{field.name: int(arrays[field.name]) for field in fields(TrainingProgress)}),
                arrays={name[len(_ARRAY) :]: array for name, array in arrays.items() if name.startswith(_ARRAY)},
            )
        except Exception as error:  # numpy evaluates headers: what Python's parser or an allocation raises is among it
            raise StoreError(f"The checkpoint {path} cannot be read: {error}.") from error
