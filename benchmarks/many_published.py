"""Many published runs in one folder: ``python -m benchmarks.many_published [--files N] [--json] [--save]``.

Copies of the published runs with other seeds. Measured is how long a new process takes to load them all: the first
time, when it reads each file and builds the index, and later times with the index. Processor seconds are printed too,
since other work on the machine changes them less.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil

from benchmarks.report import finish, markdown
from engine.config import SimulationConfig, run_id
from engine.service import Application
from engine.settings import REPOSITORY, Settings
from engine.store import published

STARTS = 3
"""Number of starts with an index; their medians are reported."""
COMMAND = [sys.executable, "-m", "benchmarks.many_published"]
MEMORY = "memory, MB"


def fill(folder: Path, number: int) -> None:
    """Write this number of published runs: copies of the repository's runs with other seeds."""
    originals = published.read_all(REPOSITORY / "cached_results").runs
    for run in originals:
        run_records, provenance = tuple(run.records), run.provenance
        for copy in range(number // len(originals) + (originals.index(run) < number % len(originals))):
            config = replace(run.config, seed=run.config.seed + 10_000 * copy)
            identity = run_id(config, provenance.corpus_checksum, provenance.engine_version) if provenance else ""
            published.write(replace(run, run_id=identity, config=config, records=run_records), folder)


def started(folder: Path, home: Path) -> dict[str, tuple[float, float]]:
    """Return seconds and processor seconds of this process by query, in the order of a page, and its memory."""
    settings = Settings.from_environment()
    app = Application(replace(settings, home=home, store_url=f"sqlite:///{home / 'runs.sqlite'}", published=folder))
    config = SimulationConfig(corpus="conll2003")
    queries: dict[str, Callable[[], object]] = {
        "all published runs": app.queries.published,
        "one run by its configuration, with its records": lambda: [
            list(run.records) for run in [app.queries.find(config)] if run
        ],
        "the runs that differ in their noise alone": lambda: app.queries.runs_by_noise(config),
        "the newest 5,000 runs with their last records": app.queries.overview,
    }
    values = {}
    for name, query in queries.items():
        wall, processor = time.perf_counter(), time.process_time()
        query()
        values[name] = (time.perf_counter() - wall, time.process_time() - processor)
    return values | {MEMORY: (psutil.Process().memory_info().rss / 1e6,) * 2}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--save", action="store_true", help="save the result")
    parser.add_argument("--started", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.started:
        sys.stdout.write(json.dumps(started(*options.started)) + "\n")
        return
    with tempfile.TemporaryDirectory() as parent:
        folder, home = Path(parent) / "published", Path(parent) / "home"
        fill(folder, options.files)
        starts = []
        for _ in range(1 + STARTS):
            command = [*COMMAND, "--started", str(folder), str(home)]
            answer = subprocess.run(command, capture_output=True, text=True, check=True)
            starts.append(json.loads(answer.stdout))
    rows, cells = [], {}
    for name, first in starts[0].items():
        later = [statistics.median(start[name][clock] for start in starts[1:]) for clock in (0, 1)]
        cells[name] = {"first": first, "later": later}
        rows.append((name, *(f"{number:,.0f}" if name == MEMORY else f"{number:.2f}" for number in (*first, *later))))
    head = (f"{options.files:,} files", "first, s", "first, processor s", "later, s", "later, processor s")
    values = {"files": options.files, "cells": cells}
    finish("many_published", values, markdown(head, rows), as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
