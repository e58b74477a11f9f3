"""Published runs: one readable JSON file each, in ``cached_results/`` of the repository.

The files are untrusted input, so each is validated; an invalid one is skipped with a message. An index stores the
results, so that a file is opened again only for the records of its run.
"""

import dataclasses
import json
import math
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, overload

from engine.artifact_store import PUBLIC, atomic_write
from engine.config import JOIN, PrivacyConfig, SimulationConfig, engine_version, run_id
from engine.embeddings import contamination
from engine.errors import UNREADABLE, InvalidConfig, StoreError
from engine.records import NoiseCheck, Provenance, RoundRecord, Run, RunState, RunStatus
from engine.store import earlier_records, published_index
from engine.store.published_index import File, Row

FORMAT = 1
MAX_BYTES = 5_000_000
"""Largest file that is read; a run of 25 records takes about 40 kB."""
LOOK_SECONDS, LIST_SECONDS = 1.0, 10.0
"""Seconds for which a listing of the folder is reused, without and with a look at the folder's time of change."""
_BATCH = 500
"""Number of files read between two writes of the index, so that an interruption loses at most these."""


class Records(Sequence[RoundRecord]):
    """The records of a published run: their number and the last one are in memory, the others are read on demand.

    Reading raises StoreError if the file was deleted or changed.
    """

    def __init__(self, file: File, run_id: str, config: SimulationConfig, number: int, last: bytes) -> None:
        self._file = file
        self._run_id = run_id
        self._config = config
        self._number = number
        self._last = last

    def __len__(self) -> int:
        return self._number

    @overload
    def __getitem__(self, index: int) -> RoundRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RoundRecord]: ...
    def __getitem__(self, index: int | slice) -> RoundRecord | Sequence[RoundRecord]:
        return self.last if index in (-1, self._number - 1) else self._all[index]

    def __iter__(self) -> Iterator[RoundRecord]:
        return iter(self._all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def last(self) -> RoundRecord:
        """The newest record."""
        try:
            record = RoundRecord.from_dict(published_index.unpacked(self._last))
            return earlier_records.restated(self._config, record)
        except UNREADABLE:  # a damaged row of the index
            return self._all[-1]

    @property
    def _all(self) -> tuple[RoundRecord, ...]:
        run = _read(self._file)
        if isinstance(run, str):
            raise StoreError(run)
        if (run.run_id, len(run.records)) != (self._run_id, self._number):
            raise StoreError(f"The published result {Path(self._file.path).name} has changed; try again.")
        return tuple(run.records)


@dataclass(frozen=True)
class Published:
    """The published runs in a folder.

    Attributes:
        runs: The runs in the order of their file names.
        problems: An error message for each file that was skipped.
    """

    runs: tuple[Run, ...]
    problems: tuple[str, ...]

    @cached_property
    def by_id(self) -> dict[str, Run]:
        """The runs by identity."""
        return {run.run_id: run for run in self.runs}

    @cached_property
    def by_config(self) -> dict[SimulationConfig, list[Run]]:
        """The runs of each configuration: several if the corpus's content or the engine version differs."""
        runs: dict[SimulationConfig, list[Run]] = {}
        for run in self.runs:
            runs.setdefault(run.config, []).append(run)
        return runs

    @cached_property
    def _by_work(self) -> dict[object, list[Run]]:
        runs: dict[object, list[Run]] = {}
        for run in self.runs:
            runs.setdefault(_work(run.config), []).append(run)
        return runs

    def alike(self, config: SimulationConfig) -> list[Run]:
        """Return the runs that differ from a configuration only in privacy settings and seed."""
        return self._by_work.get(_work(config), [])

    @cached_property
    def today(self) -> "Published":
        """The runs of the current engine version, and outdated ones that have no current counterpart."""
        current, keys, older = [], set(), []
        for run in self.runs:
            if run.provenance and run.provenance.engine_version == engine_version(run.config):
                current.append(run)
                keys.add((run.config, run.provenance.corpus_checksum))
            else:
                older.append(run)
        outdated = {
            (run.config, run.provenance.corpus_checksum): replace(run, outdated=True)
            for run in sorted(older, key=lambda run: run.status.created or 0.0)
            if run.provenance and (run.config, run.provenance.corpus_checksum) not in keys
        }
        return Published((*current, *outdated.values()), self.problems)


_work = attrgetter(
    *(field.name for field in dataclasses.fields(SimulationConfig) if field.name not in ("privacy", "seed"))
)


def read_all(folder: Path, index: Path | None = None) -> Published:
    """Return all runs in a folder; the same object as long as no file there changes.

    Args:
        folder: The folder.
        index: File of the index (:mod:`engine.store.published_index`), or None for no index.
    """
    try:
        with os.scandir(folder) as entries:
            files = sorted(File.of(entry) for entry in entries if entry.name.endswith(".json"))
    except FileNotFoundError:
        files = []
    except OSError as error:
        return Published((), (f"The published results in {folder} cannot be read: {error.strerror}.",))
    return _read_files(folder, tuple(files), index)


def lately(folder: Path, index: Path) -> Published:
    """Return all runs in a folder, from a listing that is at most ``LIST_SECONDS`` old.

    Publishing in this process invalidates the listing. After ``LOOK_SECONDS``, so does a new, deleted or replaced file,
    which changes the folder. Pages call this hundreds of times, and a listing of 10,000 files takes 45 ms.

    Args:
        folder: The folder.
        index: File of the index.
    """
    now, listing = time.monotonic(), _listings.get((folder, index))
    if listing and now - listing.looked_at <= LOOK_SECONDS:
        return listing.published
    changed = _changed(folder)  # before the folder is read: a later change is then seen by the next look
    if listing and now - listing.listed_at <= LIST_SECONDS and changed == listing.changed:
        listing = replace(listing, looked_at=now)
    else:
        with _reading:  # other threads find the files read
            listing = _Listing(now, now, changed, read_all(folder, index))
    _listings[folder, index] = listing
    return listing.published


def has_read(folder: Path, index: Path) -> bool:
    """Return whether this process has read the runs in a folder; the first time takes seconds without an index."""
    return (folder, index) in _listings


@dataclass(frozen=True)
class _Listing:
    listed_at: float
    looked_at: float
    changed: int | None
    published: Published


def _changed(folder: Path) -> int | None:
    """Return the time at which a file was added to the folder or removed from it, in nanoseconds."""
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return None


_listings: dict[tuple[Path, Path], _Listing] = {}
_reading = threading.Lock()
_seen: dict[Path, dict[File, Run | str]] = {}
"""The run or error message of each file, by folder."""


@lru_cache(maxsize=4)
def _read_files(folder: Path, files: tuple[File, ...], index: Path | None) -> Published:
    before = _seen.get(folder, {})
    results = {file: before[file] for file in files if file in before}
    if index and len(results) < len(files):
        indexed = published_index.rows(index, folder)
        for file in files:
            if file not in results and file in indexed:
                with suppress(*UNREADABLE):  # a damaged row of the index: the file is read
                    results[file] = _from_row(file, indexed[file])
        if gone := indexed.keys() - set(files):
            published_index.forget(index, folder, gone)
    new = [file for file in files if file not in results]
    for first in range(0, len(new), _BATCH):
        rows = {}
        for file in new[first : first + _BATCH]:
            result = _read(file)
            if isinstance(result, Run):
                rows[file] = _row(result)
                results[file] = _from_row(file, rows[file])
            else:
                results[file] = result
        if index and rows:
            published_index.keep(index, folder, rows)
    _seen[folder] = results
    ordered = [results[file] for file in files]
    return Published(
        tuple(result for result in ordered if isinstance(result, Run)),
        tuple(result for result in ordered if isinstance(result, str)),
    )


def _row(run: Run) -> Row:
    about = {
        "config": run.config.to_dict(),
        "provenance": dataclasses.asdict(run.provenance) if run.provenance else None,
        "run_id": run.run_id,
        "records": len(run.records),
    }
    return Row(published_index.packed(about), published_index.packed(run.records[-1].to_dict()))


def _from_row(file: File, row: Row) -> Run:
    """Return a run whose records are read later. Raises an exception in UNREADABLE if the row is damaged."""
    about = published_index.unpacked(row.about)
    config = SimulationConfig.from_dict(about["config"])
    provenance = earlier_records.provenance_of(config, about["provenance"])
    identity = about["run_id"]
    return _run(identity, config, provenance, Records(file, identity, config, int(about["records"]), row.last))


@lru_cache(maxsize=128)
def _read(file: File) -> Run | str:
    path = Path(file.path)
    try:
        if file.size > MAX_BYTES:
            raise ValueError(f"it has {file.size:,} bytes, expected at most {MAX_BYTES:,}")
        return from_dict(json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse))
    except OSError as error:
        return f"The published result {path.name} was skipped: {error.strerror}."
    except UNREADABLE as error:
        reason = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
        return f"The published result {path.name} was skipped: {reason}."


def _refuse(constant: str) -> None:
    raise ValueError(f"it contains {constant}, which is not a JSON number")


def from_dict(values: dict[str, Any]) -> Run:
    """Return the run from the JSON values of :func:`to_text`. Raises ValueError, TypeError or KeyError if invalid."""
    if values["format"] != FORMAT:
        raise ValueError(f"its format is {values['format']!r}, expected {FORMAT}")
    config = SimulationConfig.from_dict(values["config"])
    provenance = earlier_records.provenance_of(config, values["provenance"])
    expected = run_id(config, provenance.corpus_checksum, provenance.engine_version)
    if values["run_id"] != expected:
        raise ValueError(f"its run_id is {values['run_id']!r}, but its configuration and corpus give {expected}")
    records = tuple(RoundRecord.from_dict(record) for record in values["records"])
    if not records or records[-1].test is None or records[-1].step != records[-1].steps_total:
        raise ValueError("its records do not end with test scores")
    check = records[-1].noise_check
    if config.privacy.private and not (check and check.passed):
        raise ValueError("it claims privacy without a noise check that passed")
    if config.privacy.private and check and not _matches(config.privacy, check):
        raise ValueError("its noise check does not match the noise of its settings")
    if not config.privacy.private and any(math.isfinite(record.privacy.epsilon) for record in records):
        raise ValueError("it claims privacy without noise")
    if _claims(records) and contamination.rests_on_corpus(config, provenance.corpus_checksum):
        raise ValueError("it claims privacy for sentences that its features or initial weights were fitted on")
    if _claims(records) and config.federation.masked:
        raise ValueError("it claims privacy although entities were masked according to the sentences of all clients")
    if [record.round for record in records] != list(range(len(records))):
        raise ValueError("its records are not numbered 0, 1, 2 …")
    stated = tuple(earlier_records.restated(config, record) for record in records)
    return _run(expected, config, provenance, stated)


def _run(identity: str, config: SimulationConfig, provenance: Provenance, records: Sequence[RoundRecord]) -> Run:
    created = datetime.fromisoformat(provenance.created).timestamp()
    status = RunStatus(run_id=identity, state=RunState.DONE, progress=1.0, created=created, finished=created)
    return Run(run_id=identity, config=config, status=status, records=records, provenance=provenance, published=True)


def _matches(privacy: PrivacyConfig, check: NoiseCheck) -> bool:
    """Return whether a noise check expected the noise and the clip norm of these settings."""
    clip_norm = privacy.clip_norm or 0.0
    pairs = (check.noise_planned, privacy.noise_multiplier * clip_norm), (check.clip_norm, clip_norm)
    return all(math.isclose(*pair, rel_tol=1e-6) for pair in pairs)


def _claims(records: Sequence[RoundRecord]) -> bool:
    """Return whether a run claims that its training sentences are protected."""
    return math.isfinite(records[-1].privacy.epsilon)


def to_text(run: Run) -> str:
    """Return the JSON of a finished run, one line for each record.

    Raises:
        InvalidConfig: If the run is not finished, or is private by its settings but has no privacy guarantee.
    """
    if run.final is None or run.provenance is None:
        raise InvalidConfig(f"run {run.run_id} is {run.status.state}, expected one that is done")
    check = run.final.noise_check
    if run.config.privacy.private and not (check and check.passed):
        why = "its noise could not be measured" if check and not check.failed else "no noise check passed"
        raise InvalidConfig(f"run {run.run_id} is private by its settings, but {why}")
    if run.config.privacy.private and not _claims(run.records):
        why = " ".join(run.final.privacy.assumptions)
        raise InvalidConfig(f"run {run.run_id} is private by its settings, but its ε is ∞. {why}".strip())
    about = {
        "format": FORMAT,
        "run_id": run.run_id,
        "config": run.config.to_dict(),
        "provenance": dataclasses.asdict(run.provenance),
    }
    head = json.dumps(about, indent=2, ensure_ascii=False).removesuffix("\n}")
    lines = ",\n".join("    " + json.dumps(record.to_dict(), allow_nan=False) for record in run.records)
    return "\n".join([f"{head},", '  "records": [', lines, "  ]", "}", ""])


def write(run: Run, folder: Path) -> Path:
    """Publish a finished run, replacing an earlier file of the same run. Raises InvalidConfig, StoreError."""
    text = to_text(run)
    corpus = "+".join(Path(name).name for name in run.config.corpus.split(JOIN))[:60]
    path = folder / f"{corpus}-{run.config.tagger.name}-s{run.config.privacy.noise_multiplier:g}-{run.run_id}.json"
    with atomic_write(path, "The published run", mode=PUBLIC) as temporary:
        temporary.write_text(text, encoding="utf-8")
    _listings.clear()
    return path
