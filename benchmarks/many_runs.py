"""Many runs in one store: ``python -m benchmarks.many_runs [--runs N] [--json] [--save]``.

Copies of a published run with other seeds and some records each, in an SQLite file. Measured is the time of the queries
of pages and workers, and of the pages *Runs* and *Compare*, which Streamlit renders.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from benchmarks.report import finish, markdown
from engine.records import Run, RunState
from engine.service import Application, prometheus_metrics
from engine.settings import REPOSITORY, Settings
from engine.store.schema import open_database, records, runs

RECORDS = 5
"""Number of records of each run, the last ones."""
_CHUNK = 5_000
"""Number of runs in one insert."""
REPEATS = 5


def fill(settings: Settings, run: Run, number: int) -> None:
    """Store this number of finished runs, copies of ``run`` with other seeds."""
    database, _ = open_database(settings.store_url)
    bodies = [json.dumps(record.to_dict(), separators=(",", ":")) for record in run.records[-RECORDS:]]
    about = json.dumps(asdict(run.provenance)) if run.provenance else None
    for first in range(0, number, _CHUNK):
        numbers = range(first, min(number, first + _CHUNK))
        rows = [
            {
                "run_id": f"{seed:016x}",
                "config": replace(run.config, seed=seed).canonical_json(),
                "corpus_checksum": "0" * 64,
                "state": str(RunState.DONE),
                "progress": 1.0,
                "created": 1e9 + seed,
                "provenance": about,
            }
            for seed in numbers
        ]
        record_rows = [
            {"run_id": f"{seed:016x}", "round": index, "body": body}
            for seed in numbers
            for index, body in enumerate(bodies)
        ]
        with database.begin() as connection:
            connection.execute(insert(runs), rows)
            connection.execute(insert(records), record_rows)
    database.dispose()


def seconds(call: Callable[[], object], repeats: int = REPEATS) -> tuple[float, float]:
    """Return the seconds of the first call, and the median of later ones."""
    took = []
    for _ in range(1 + repeats):
        begun = time.perf_counter()
        call()
        took.append(time.perf_counter() - begun)
    return took[0], statistics.median(took[1:])


def opened_with(navigation: Callable[..., Any], first: str, pages: Mapping[str, Any], **more: Any) -> Any:
    """Return the app's navigation with another first page than Explore; AppTest alone would skip app.py."""
    flat = [page for group in pages.values() for page in group]
    chosen = next(page for page in flat if page._page.parent.name == first)
    for page in flat:
        page._default = page is chosen
    return navigation(pages, **more)


def drawn(name: str, settings: Settings) -> Callable[[], object]:
    """Return a function that renders a page as a server's first session does and raises RuntimeError on an error."""
    from unittest.mock import patch

    import streamlit as st
    from streamlit.testing.v1 import AppTest

    opened_at = partial(opened_with, st.navigation, name)

    def draw() -> None:
        patched = patch.object(Settings, "from_environment", classmethod(lambda _: settings))
        st.cache_resource.clear()
        with patched, patch.object(st, "navigation", opened_at):
            page = AppTest.from_file(str(REPOSITORY / "app.py"), default_timeout=600).run()
        if page.exception:
            raise RuntimeError(page.exception[0].value)

    return draw


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--save", action="store_true", help="save the result")
    options = parser.parse_args()
    own = Application.from_environment()
    original = next(
        run for run in own.queries.published() if run.config.corpus == "synthetic" and len(run.records) >= RECORDS
    )
    with tempfile.TemporaryDirectory() as folder:
        address = f"sqlite:///{Path(folder) / 'runs.sqlite'}"
        settings = replace(own.settings, home=Path(folder), store_url=address)
        fill(settings, original, options.runs)
        app = Application(settings)
        new = replace(original.config, seed=10**7)
        app._context.store.submit("f" * 16, new, "0" * 64)
        claim = app._context.store.claim("f" * 16, "benchmark")
        queries = {
            "one run": lambda: app.queries.get(f"{1:016x}"),
            "the newest 200": lambda: app.queries.recent(200),
            "the overview (the newest 5,000 runs with their last records)": lambda: app.queries.overview(),
            "unfinished runs": lambda: app._context.store.unfinished(),
            "storing a run": lambda: app._context.store.submit(f"{time.time_ns():x}"[-16:], new, "0" * 64),
            "a heartbeat": lambda: app._context.store.heartbeat(claim, "training", 0.5),
            "metrics": lambda: prometheus_metrics.text(app),
            "the page Runs": drawn("runs", settings),
            "the page Compare": drawn("compare", settings),
            "the page Glossary, which queries no runs": drawn("glossary", settings),
        }
        measured = {name: seconds(call) for name, call in queries.items()}
        app.close()
    rows = [(name, f"{1000 * first:,.0f}", f"{1000 * again:,.0f}") for name, (first, again) in measured.items()]
    cells = {name: {"first": first, "again": again} for name, (first, again) in measured.items()}
    values = {"runs": options.runs, "records": RECORDS, "cells": cells}
    head = (f"{options.runs:,} runs", "first, ms", "again, ms")
    finish("many_runs", values, markdown(head, rows), as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
