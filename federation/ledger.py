"""The privacy ledger of a client: the ε spent on its own sentences, written before the training that spends it.

The file has a line of JSON for each round. It counts the noise of this client only, so it holds even if other clients
drop out, and whatever the server does with the updates. A round is trained once: in a second training from other
weights, the difference of the two updates would have no noise if the noise is seeded. Several runs are composed by
adding their ε and their δ (basic composition: Dwork and Roth 2014, theorem 3.16), which is an upper bound.
"""

import fcntl
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from engine.config.mechanism_registry import adjacency_text
from engine.errors import BudgetExceeded, StoreError


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A started round.

    Attributes:
        run: Identity of the run.
        name: Name of the run.
        round: Number of the round, from 1.
        epsilon: ε of the run from its first round to this one, at ``delta``; ∞ without noise.
        delta: δ.
        unit: The protected unit.
        at: Time, ISO 8601.
        neighbouring: Adjacency for which ε holds; empty in lines of versions up to 0.7.0.
    """

    run: str
    name: str
    round: int
    epsilon: float
    delta: float
    unit: str
    at: str
    neighbouring: str = ""


class Ledger:
    """The privacy ledger in the file ``ledger.jsonl`` of a folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ledger.jsonl"

    def entries(self) -> list[Entry]:
        """Return all entries, the oldest first. Raises StoreError if a line is damaged, so the total is unknown."""
        if not self._path.exists():
            return []
        with self._locked("r", fcntl.LOCK_SH) as file:
            return self._read(file)

    def charge(self, entry: Entry) -> None:
        """Write an entry to the disk, before its round is trained.

        Raises BudgetExceeded if the round was started before, and StoreError if the entry cannot be written.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._locked("a+", fcntl.LOCK_EX) as file:
            file.seek(0)
            if any((earlier.run, earlier.round) == (entry.run, entry.round) for earlier in self._read(file)):
                raise BudgetExceeded(
                    f"round={entry.round} of the run {entry.name!r} was started before; a round is trained only once. "
                    "Give a new run another name"
                )
            value = asdict(entry) | {"epsilon": None if math.isinf(entry.epsilon) else entry.epsilon}
            file.write(json.dumps(value) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def adjacency(self) -> str:
        """Return the adjacency under which the total of all runs holds, in words."""
        return adjacency_text(entry.neighbouring for entry in self.entries())

    def total(self, unit: str) -> tuple[float, float]:
        """Return ε and δ of all runs, composed; a run that protects another unit has ε = ∞."""
        last: dict[str, Entry] = {}
        for entry in self.entries():
            largest = last.get(entry.run)
            last[entry.run] = entry if largest is None or entry.epsilon >= largest.epsilon else largest
        runs = last.values()
        return sum(e.epsilon if e.unit == unit else math.inf for e in runs), min(1.0, sum(e.delta for e in runs))

    @contextmanager
    def _locked(self, mode: str, lock: int) -> Iterator[IO[str]]:
        try:
            with open(os.open(self._path, _FLAGS[mode], 0o600), mode, encoding="utf-8") as file:
                fcntl.flock(file, lock)
                yield file
        except OSError as error:
            raise StoreError(f"The ledger {self._path} cannot be read or written: {error}.") from error

    def _read(self, file: IO[str]) -> list[Entry]:
        entries = []
        for number, line in enumerate(file, 1):
            try:
                value = json.loads(line)
                value["epsilon"] = math.inf if value["epsilon"] is None else float(value["epsilon"])
                value["delta"], value["round"] = float(value["delta"]), int(value["round"])
                if not (value["epsilon"] >= 0 and 0 <= value["delta"] <= 1):
                    raise ValueError("ε or δ is out of range")
                entries.append(Entry(**value))
            except (ValueError, TypeError, KeyError) as error:
                raise StoreError(
                    f"Line {number} of the ledger {self._path} is damaged ({error}): the ε spent is unknown, and "
                    "nothing is trained."
                ) from error
        return entries


_FLAGS = {"r": os.O_RDONLY, "a+": os.O_RDWR | os.O_CREAT | os.O_APPEND}
