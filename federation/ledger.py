"""What a client has spent on its own sentences, in its own folder, written before the step that spends it.

A line of JSON for each round. It counts the noise of this client alone, so that it stays true whoever else vanishes,
and whatever the server does with what it is sent. A round is done once: were it done again from other weights, with
seeded noise the two updates' difference would have none. Several runs add up, ε to ε and δ to δ (basic composition:
Dwork and Roth 2014, theorem 3.16), which is never too little.
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

from engine.errors import BudgetExceeded, StoreError


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A round that was begun. run: its identity. name: what people call it. round: from 1. epsilon: what the run has
    cost with it, from its first round on, ∞ without noise, at delta. unit: what is protected. at: when, ISO 8601."""

    run: str
    name: str
    round: int
    epsilon: float
    delta: float
    unit: str
    at: str


class Ledger:
    """The file ``ledger.jsonl`` of a folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ledger.jsonl"

    def entries(self) -> list[Entry]:
        """All, the oldest first. Raises StoreError where a line is damaged: what was spent is not known then."""
        if not self._path.exists():
            return []
        with self._locked("r", fcntl.LOCK_SH) as file:
            return self._read(file)

    def book(self, entry: Entry) -> None:
        """Write it down, on the disk, before its round is trained. Raises BudgetExceeded for a round that was begun
        before, StoreError where it cannot be written."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._locked("a+", fcntl.LOCK_EX) as file:
            file.seek(0)
            if any((one.run, one.round) == (entry.run, entry.round) for one in self._read(file)):
                raise BudgetExceeded(
                    f"round={entry.round} of the run {entry.name!r} was begun before, and a round is done once: "
                    "give a new run another name"
                )
            value = asdict(entry) | {"epsilon": None if math.isinf(entry.epsilon) else entry.epsilon}
            file.write(json.dumps(value) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def total(self, unit: str) -> tuple[float, float]:
        """ε and δ of all runs that protect this unit, one after another; a run that protects another one counts as
        unprotected."""
        last: dict[str, Entry] = {}
        for entry in self.entries():
            known = last.get(entry.run)
            last[entry.run] = entry if known is None or entry.epsilon >= known.epsilon else known
        found = last.values()
        return sum(e.epsilon if e.unit == unit else math.inf for e in found), min(1.0, sum(e.delta for e in found))

    @contextmanager
    def _locked(self, mode: str, lock: int) -> Iterator[IO[str]]:
        try:
            with open(os.open(self._path, _FLAGS[mode], 0o600), mode, encoding="utf-8") as file:
                fcntl.flock(file, lock)
                yield file
        except OSError as error:
            raise StoreError(f"The ledger {self._path} cannot be used: {error}.") from error

    def _read(self, file: IO[str]) -> list[Entry]:
        found = []
        for number, line in enumerate(file, 1):
            try:
                value = json.loads(line)
                value["epsilon"] = math.inf if value["epsilon"] is None else float(value["epsilon"])
                value["delta"], value["round"] = float(value["delta"]), int(value["round"])
                if not (value["epsilon"] >= 0 and 0 <= value["delta"] <= 1):
                    raise ValueError("ε or δ is none")
                found.append(Entry(**value))
            except (ValueError, TypeError, KeyError) as error:
                raise StoreError(
                    f"Line {number} of the ledger {self._path} is damaged ({error}): what was spent is not known, and "
                    "nothing is trained."
                ) from error
        return found


_FLAGS = {"r": os.O_RDONLY, "a+": os.O_RDWR | os.O_CREAT | os.O_APPEND}
