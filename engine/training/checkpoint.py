"""Checkpoints from which an interrupted run resumes, as one sealed file without pickles.

A checkpoint holds only the state that the next step needs: weights, optimiser state, progress and the measurements of
the noise check. Samples and noise come from streams named by their step (:mod:`engine.seeds`), and ε is computed from
the plan and the steps taken, so a checkpoint cannot lose either.

The noise check's sums give the noise of a step up to its sign, and the sentences of its batch. So the whole content is
sealed with a key of the run (:mod:`engine.sealing`). A first line in the clear names format, run and step, and the
content opens with the same line only.
"""

import io
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from engine.errors import StoreError
from engine.sealing import seal, unseal
from engine.seeds import Secrets

_FORMAT = "epsilon checkpoint 2"
_UNSEALED = b"PK"
"""First bytes of format 1, a numpy archive in the clear."""

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

    def save(self, path: Path, run_id: str, secrets: Secrets) -> None:
        """Write the sealed checkpoint to a path that no process reads yet.

        Args:
            path: The path.
            run_id: Identity of the run.
            secrets: Streams of the run, which give its key.

        Raises:
            OSError: If it cannot be written.
        """
        numbers, content = {"round": self.round, "seconds": self.seconds, **asdict(self.tally)}, io.BytesIO()
        arrays = {_ARRAY + name: array for name, array in self.arrays.items()}
        np.savez(content, allow_pickle=False, **numbers, **arrays)
        head = json.dumps({"format": _FORMAT, "run": run_id, "step": self.tally.step}).encode()
        path.write_bytes(head + b"\n" + seal(_key(secrets), content.getbuffer(), head))

    @classmethod
    def load(cls, path: Path, run_id: str, secrets: Secrets) -> "Checkpoint":
        """Read a file from :meth:`save`, or one in the clear of a version up to 0.6.0.

        Args:
            path: The file.
            run_id: Identity of the run.
            secrets: Streams of the run, which give its key.

        Raises:
            StoreError: If it is missing, damaged or of another run, or was sealed with another key.
        """
        try:
            content, step = path.read_bytes(), None
            if not content.startswith(_UNSEALED):
                head, _, sealed = content.partition(b"\n")
                said = json.loads(head)
                if (said["format"], said["run"]) != (_FORMAT, run_id):
                    raise ValueError(f"it is of the run {said['run']} in the format {said['format']!r}")
                content, step = unseal(_key(secrets), sealed, head), said["step"]
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            found = cls(
                round=int(arrays["round"]),
                seconds=float(arrays["seconds"]),
                tally=TrainingProgress(**{field.name: int(arrays[field.name]) for field in fields(TrainingProgress)}),
                arrays={name[len(_ARRAY) :]: array for name, array in arrays.items() if name.startswith(_ARRAY)},
            )
            if step not in (None, found.tally.step):
                raise ValueError(f"it is of step {found.tally.step:,}, not {step}")
            return found
        except Exception as error:  # numpy evaluates headers, so parser and allocation errors are possible too
            raise StoreError(f"The checkpoint {path} cannot be read: {error}.") from error


def is_sealed(path: Path) -> bool:
    """Return whether a checkpoint is sealed; those of versions up to 0.6.0 are not."""
    with path.open("rb") as file:
        return file.read(len(_UNSEALED)) != _UNSEALED


def _key(secrets: Secrets) -> bytes:
    return secrets.stream("checkpoint").key
