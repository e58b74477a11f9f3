"""Published runs: one readable JSON file each, in ``cached_results/`` of the repository.

Files come from outside, so each is checked as a whole; one that cannot be used is skipped, and said. What was found is
kept in an index, so that a file is opened again only for the records of its run.
"""

import dataclasses
import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, overload

from engine.artifact_store import atomic_write
from engine.config import JOIN, PrivacyConfig, SimulationConfig, engine_version, run_id
from engine.embeddings import contamination
from engine.errors import UNREADABLE, InvalidConfig, StoreError
from engine.records import NoiseCheck, Provenance, RoundRecord, Run, RunState, RunStatus
from engine.store import published_index
from engine.store.published_index import File, Row

FORMAT = 1
MAX_BYTES = 5_000_000
"""Largest file that is read; a run of 25 records takes about 40 kB."""
LOOK_SECONDS = 1.0
_AT_ONCE = 500
"""Files that are read before the index is written: who stops a program loses no more than these."""


class Records(Sequence[RoundRecord]):
    """The records of a published run: how many there are and the last one are at hand, the others are read from its
    file when they are asked for. Raises StoreError where the file is gone or has changed by then."""

    def __init__(self, file: File, run_id: str, number: int, last: bytes) -> None:
        self._file = file
        self._run_id = run_id
        self._number = number
        self._last = last

    def __len__(self) -> int:
        return self._number

    @overload
    def __getitem__(self, place: int) -> RoundRecord: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[RoundRecord]: ...
    def __getitem__(self, place: int | slice) -> RoundRecord | Sequence[RoundRecord]:
        return self.last if place in (-1, self._number - 1) else self._every[place]

    def __iter__(self) -> Iterator[RoundRecord]:
        return iter(self._every)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._every == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def last(self) -> RoundRecord:
        """The newest."""
        try:
            return RoundRecord.from_dict(published_index.unpacked(self._last))
        except UNREADABLE:  # the index is damaged there
            return self._every[-1]

    @property
    def _every(self) -> tuple[RoundRecord, ...]:
        found = _read(self._file)
        if isinstance(found, str):
            raise StoreError(found)
        if (found.run_id, len(found.records)) != (self._run_id, self._number):
            raise StoreError(f"The published result {Path(self._file.path).name} has changed: look again.")
        return tuple(found.records)


@dataclass(frozen=True)
class Published:
    """What lies in a folder. runs: by file name. problems: a sentence for each file that was skipped. by_id, by_config:
    the same runs; where two are alike but for the corpus's content or the engine, by_config has both."""

    runs: tuple[Run, ...]
    problems: tuple[str, ...]

    @cached_property
    def by_id(self) -> dict[str, Run]:
        """Each run by its identity."""
        return {run.run_id: run for run in self.runs}

    @cached_property
    def by_config(self) -> dict[SimulationConfig, list[Run]]:
        """The runs of each configuration."""
        found: dict[SimulationConfig, list[Run]] = {}
        for run in self.runs:
            found.setdefault(run.config, []).append(run)
        return found

    @cached_property
    def _by_work(self) -> dict[object, list[Run]]:
        found: dict[object, list[Run]] = {}
        for run in self.runs:
            found.setdefault(_work(run.config), []).append(run)
        return found

    def alike(self, config: SimulationConfig) -> list[Run]:
        """Those that differ from a configuration in its privacy and its seed at most."""
        return self._by_work.get(_work(config), [])

    def today(self) -> "Published":
        """Those that today's engine would give, and older ones, marked so, of which there is none of today's."""
        fresh, known, older = [], set(), []
        for run in self.runs:
            if run.provenance and run.provenance.engine_version == engine_version(run.config):
                fresh.append(run)
                known.add((run.config, run.provenance.corpus_checksum))
            else:
                older.append(run)
        found = {
            (run.config, run.provenance.corpus_checksum): replace(run, outdated=True)
            for run in sorted(older, key=lambda run: run.status.created or 0.0)
            if run.provenance and (run.config, run.provenance.corpus_checksum) not in known
        }
        return Published((*fresh, *found.values()), self.problems)


_work = attrgetter(
    *(each.name for each in dataclasses.fields(SimulationConfig) if each.name not in ("privacy", "seed"))
)


def read_all(folder: Path, index: Path | None = None) -> Published:
    """All runs in ``folder``; the same answer as long as no file there changes. index: where it is kept what files were
    found to be (:mod:`engine.store.published_index`), None for nowhere."""
    try:
        with os.scandir(folder) as entries:
            files = sorted(File.of(entry) for entry in entries if entry.name.endswith(".json"))
    except FileNotFoundError:
        files = []
    except OSError as error:
        return Published((), (f"The published results in {folder} cannot be read: {error.strerror}.",))
    return _read_files(folder, tuple(files), index)


def lately(folder: Path, index: Path) -> Published:
    """As :func:`read_all`, whose look at the folder holds for ``LOOK_SECONDS``, or until this process publishes: pages
    ask hundreds of times, and a look at 10,000 files takes 45 ms."""
    now = time.monotonic()
    looked, found = _looks.get((folder, index), (-math.inf, None))
    if found is None or now - looked > LOOK_SECONDS:
        found = read_all(folder, index)
        _looks[folder, index] = now, found
    return found


_looks: dict[tuple[Path, Path], tuple[float, Published]] = {}
_seen: dict[Path, dict[File, Run | str]] = {}
"""What the files of each folder were found to be."""


@lru_cache(maxsize=4)
def _read_files(folder: Path, files: tuple[File, ...], index: Path | None) -> Published:
    before = _seen.get(folder, {})
    found = {file: before[file] for file in files if file in before}
    if index and len(found) < len(files):
        kept = published_index.rows(index, folder)
        for file in files:
            if file not in found and file in kept:
                with suppress(*UNREADABLE):  # the index is damaged there, and the file is read
                    found[file] = _listed(file, kept[file])
        if gone := kept.keys() - set(files):
            published_index.forget(index, folder, gone)
    new = [file for file in files if file not in found]
    for first in range(0, len(new), _AT_ONCE):
        rows = {}
        for file in new[first : first + _AT_ONCE]:
            whole = _read(file)
            if isinstance(whole, Run):
                rows[file] = _row(whole)
                found[file] = _listed(file, rows[file])
            else:
                found[file] = whole
        if index and rows:
            published_index.keep(index, folder, rows)
    _seen[folder] = found
    every = [found[file] for file in files]
    return Published(
        tuple(each for each in every if isinstance(each, Run)), tuple(each for each in every if isinstance(each, str))
    )


def _row(run: Run) -> Row:
    about = {
        "config": run.config.to_dict(),
        "provenance": dataclasses.asdict(run.provenance) if run.provenance else None,
        "run_id": run.run_id,
        "records": len(run.records),
    }
    return Row(published_index.packed(about), published_index.packed(run.records[-1].to_dict()))


def _listed(file: File, row: Row) -> Run:
    """A run whose records are read later. Raises what is in UNREADABLE."""
    about = published_index.unpacked(row.about)
    config, provenance = SimulationConfig.from_dict(about["config"]), Provenance(**about["provenance"])
    identity = about["run_id"]
    return _run(identity, config, provenance, Records(file, identity, int(about["records"]), row.last))


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
    raise ValueError(f"it holds {constant}, which is no JSON number")


def from_dict(values: dict[str, Any]) -> Run:
    """A run from what :func:`to_text` wrote. Raises ValueError, TypeError or KeyError if something is wrong with it."""
    if values["format"] != FORMAT:
        raise ValueError(f"its format is {values['format']!r}, expected {FORMAT}")
    config = SimulationConfig.from_dict(values["config"])
    provenance = Provenance(**values["provenance"])
    expected = run_id(config, provenance.corpus_checksum, provenance.engine_version)
    if values["run_id"] != expected:
        raise ValueError(f"its run_id is {values['run_id']!r}, but its configuration and corpus give {expected}")
    records = tuple(RoundRecord.from_dict(record) for record in values["records"])
    if not records or records[-1].test is None or records[-1].step != records[-1].steps_total:
        raise ValueError("its records do not end with test scores")
    check = records[-1].noise_check
    if config.privacy.private and not (check and check.passed):
        raise ValueError("it claims privacy without a noise check that passed")
    if config.privacy.private and check and not _is_of(config.privacy, check):
        raise ValueError("its noise check is of other noise than its settings have")
    if not config.privacy.private and any(math.isfinite(record.privacy.epsilon) for record in records):
        raise ValueError("it claims privacy without noise")
    if _claims(records) and contamination.rests_on_corpus(config.features, provenance.corpus_checksum):
        raise ValueError("it claims privacy for sentences that its features were fitted on")
    if _claims(records) and config.federation.masked:
        raise ValueError("it claims privacy although names were masked by the sentences of all platforms")
    if [record.round for record in records] != list(range(len(records))):
        raise ValueError("its records are not numbered 0, 1, 2 …")
    return _run(expected, config, provenance, records)


def _run(identity: str, config: SimulationConfig, provenance: Provenance, records: Sequence[RoundRecord]) -> Run:
    created = datetime.fromisoformat(provenance.created).timestamp()
    status = RunStatus(run_id=identity, state=RunState.DONE, progress=1.0, created=created, finished=created)
    return Run(run_id=identity, config=config, status=status, records=records, provenance=provenance, published=True)


def _is_of(privacy: PrivacyConfig, check: NoiseCheck) -> bool:
    """Whether a noise check was of the noise and the clip norm of these settings."""
    clip_norm = privacy.clip_norm or 0.0
    planned = (check.noise_planned, privacy.noise_multiplier * clip_norm), (check.clip_norm, clip_norm)
    return all(math.isclose(*each, rel_tol=1e-6) for each in planned)


def _claims(records: Sequence[RoundRecord]) -> bool:
    """Whether a run says that its training sentences are protected."""
    return math.isfinite(records[-1].privacy.epsilon)


def to_text(run: Run) -> str:
    """The JSON of a finished run, a line for each record. Raises InvalidConfig if the run is not finished."""
    if run.final is None or run.provenance is None:
        raise InvalidConfig(f"run {run.run_id} is {run.status.state}, expected one that is done")
    check = run.final.noise_check
    if run.config.privacy.private and not (check and check.passed):
        why = "its noise could not be measured" if check and not check.failed else "no noise check of it passed"
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
    """Publish a finished run; the same run again replaces its file whole. Raises InvalidConfig, StoreError."""
    text = to_text(run)
    corpus = "+".join(Path(name).name for name in run.config.corpus.split(JOIN))[:60]
    path = folder / f"{corpus}-{run.config.tagger.name}-s{run.config.privacy.noise_multiplier:g}-{run.run_id}.json"
    with atomic_write(path, "The published run") as passing:
        passing.write_text(text, encoding="utf-8")
    _looks.clear()
    return path
