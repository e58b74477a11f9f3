"""Many published runs in one folder: ``python -m benchmarks.many_published [--files N] [--json] [--save]``.

Copies of the published runs with other seeds. How long a program that has just been started takes to know them all: the
first time, when each file is read and the index made, and then by the index. Each start is a process of its own, and
beside seconds it tells processor seconds, which other work on the machine changes less.
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
    """Write so many published runs: copies of the repository's with other seeds."""
    every = published.read_all(REPOSITORY / "cached_results").runs
    for like in every:
        whole, made = tuple(like.records), like.provenance
        for copy in range(number // len(every) + (every.index(like) < number % len(every))):
            config = replace(like.config, seed=like.config.seed + 10_000 * copy)
            identity = run_id(config, made.corpus_checksum, made.engine_version) if made else ""
            published.write(replace(like, run_id=identity, config=config, records=whole), folder)


def started(folder: Path, home: Path) -> dict[str, tuple[float, float]]:
    """Return seconds and processor seconds of this process by query, in the order of a page, and its memory."""
    settings = Settings.from_environment()
    app = Application(replace(settings, home=home, store_url=f"sqlite:///{home / 'runs.sqlite'}", published=folder))
    wanted = SimulationConfig(corpus="conll2003")
    asked: dict[str, Callable[[], object]] = {
        "all are known": app.queries.published,
        "one by its settings, with its records": lambda: [
            list(run.records) for run in [app.queries.find(wanted)] if run
        ],
        "those that differ in their noise alone": lambda: app.queries.runs_by_noise(wanted),
        "the newest 5,000 with their last records": app.queries.overview,
    }
    values = {}
    for name, ask in asked.items():
        wall, processor = time.perf_counter(), time.process_time()
        ask()
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
    with tempfile.TemporaryDirectory() as place:
        folder, home = Path(place) / "published", Path(place) / "home"
        fill(folder, options.files)
        starts = []
        for _ in range(1 + STARTS):
            command = [*COMMAND, "--started", str(folder), str(home)]
            answer = subprocess.run(command, capture_output=True, text=True, check=True)
            starts.append(json.loads(answer.stdout))
    rows, cells = [], {}
    for name, first in starts[0].items():
        later = [statistics.median(start[name][place] for start in starts[1:]) for place in (0, 1)]
        cells[name] = {"first": first, "later": later}
        rows.append((name, *(f"{number:,.0f}" if name == MEMORY else f"{number:.2f}" for number in (*first, *later))))
    head = (f"{options.files:,} files", "first, s", "of the processor", "later, s", "of the processor")
    values = {"files": options.files, "cells": cells}
    finish("many_published", values, markdown(head, rows), as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
