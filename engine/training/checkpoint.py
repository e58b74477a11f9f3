"""Checkpoints from which an interrupted run resumes, as one file without pickles.

A checkpoint holds only the state that the next step needs: weights and optimiser state. Samples and noise come from
streams named by their step (:mod:`engine.seeds`), and ε is computed from the plan and the steps taken, so a checkpoint
cannot lose either.
"""

from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from engine.errors import StoreError

_ARRAY = "array:"
"""Prefix of the names of arrays, which distinguishes them from the names of numbers."""


@dataclass(frozen=True, kw_only=True)
class TrainingProgress:
    """The progress of a run.

    Attributes:
        step: optimiser steps of all clients together.
        rounds: finished communication rounds.
        examples_seen: sampled sentences, with repeats.
        nonfinite: sentences whose gradient was not finite.
        bytes_down: bytes sent to clients.
        bytes_up: bytes received from clients.
    """

    step: int = 0
    rounds: int = 0
    examples_seen: int = 0
    nonfinite: int = 0
    bytes_down: int = 0
    bytes_up: int = 0


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The state of a run right after one of its records.

    Attributes:
        round: number of the last record.
        seconds: wall time so far.
        tally: progress so far.
        arrays: weights and optimiser state by name, of any shape.
    """

    round: int
    seconds: float
    tally: TrainingProgress
    arrays: dict[str, np.ndarray]

    def save(self, path: Path) -> None:
        """Write the checkpoint to a path that no process reads yet. Raises OSError."""
        numbers = {"round": self.round, "seconds": self.seconds, **asdict(self.tally)}
        np.savez(path, allow_pickle=False, **numbers, **{_ARRAY + name: array for name, array in self.arrays.items()})

    @classmethod
    def load(cls, path: Path) -> "Checkpoint":
        """Read a file from :meth:`save`. Raises StoreError if it is missing or damaged."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            return cls(
                round=int(arrays["round"]),
                seconds=float(arrays["seconds"]),
                tally=TrainingProgress(**{field.name: int(arrays[field.name]) for field in fields(TrainingProgress)}),
                arrays={name[len(_ARRAY) :]: array for name, array in arrays.items() if name.startswith(_ARRAY)},
            )
        except Exception as error:  # numpy evaluates headers, so parser and allocation errors are possible too
            raise StoreError(f"The checkpoint {path} cannot be read: {error}.") from error
