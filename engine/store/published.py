"""Published runs: one readable JSON file each, in ``cached_results/`` of the repository.

Files come from outside, so each is checked as a whole; one that cannot be used is skipped, and said.
"""

import dataclasses
import json
import math
import os
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from engine.artefacts import written_whole
from engine.config import JOIN, SimulationConfig, engine_version, run_id
from engine.embeddings import apart
from engine.errors import UNREADABLE, InvalidConfig
from engine.records import Provenance, RoundRecord, Run, RunState, RunStatus

FORMAT = 1
MAX_BYTES = 5_000_000
"""Largest file that is read; a run of 25 records takes about 40 kB."""


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


def read_all(folder: Path) -> Published:
    """All runs in ``folder``; the same answer as long as no file there changes."""
    try:
        with os.scandir(folder) as entries:
            files = [(entry.path, entry.stat()) for entry in entries if entry.name.endswith(".json")]
    except FileNotFoundError:
        files = []
    except OSError as error:
        return Published((), (f"The published results in {folder} cannot be read: {error.strerror}.",))
    return _read_files(tuple(sorted((path, status.st_size, status.st_mtime_ns) for path, status in files)))


@lru_cache(maxsize=4)
def _read_files(files: tuple[tuple[str, int, int], ...]) -> Published:
    found = [_read(Path(path), size, changed) for path, size, changed in files]
    return Published(
        tuple(each for each in found if isinstance(each, Run)), tuple(each for each in found if isinstance(each, str))
    )


@lru_cache(maxsize=8192)
def _read(path: Path, size: int, changed: int) -> Run | str:
    try:
        if size > MAX_BYTES:
            raise ValueError(f"it has {size:,} bytes, expected at most {MAX_BYTES:,}")
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
    if _claims(records) and apart.rests_on_corpus(config.features, provenance.corpus_checksum):
        raise ValueError("it claims privacy for sentences that its features were fitted on")
    if [record.round for record in records] != list(range(len(records))):
        raise ValueError("its records are not numbered 0, 1, 2 …")
    created = datetime.fromisoformat(provenance.created).timestamp()
    status = RunStatus(run_id=expected, state=RunState.DONE, progress=1.0, created=created, finished=created)
    return Run(run_id=expected, config=config, status=status, records=records, provenance=provenance, published=True)


def _claims(records: tuple[RoundRecord, ...]) -> bool:
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
    with written_whole(path, "The published run") as passing:
        passing.write_text(text, encoding="utf-8")
    return path
