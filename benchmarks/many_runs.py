"""Many runs in one store: ``python -m benchmarks.many_runs [--runs N] [--json] [--save]``.

Copies of a published run with other seeds, some records each, in an SQLite file: how long the queries take that pages
and workers ask, and the pages *Runs* and *Compare* as Streamlit draws them.
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
"""Number of records of each run, its last ones among them."""
_AT_ONCE = 5_000
REPEATS = 5


def fill(settings: Settings, like: Run, number: int) -> None:
    """Store so many finished runs, copies of a run with other seeds."""
    database, _ = open_database(settings.store_url)
    bodies = [json.dumps(each.to_dict(), separators=(",", ":")) for each in like.records[-RECORDS:]]
    about = json.dumps(asdict(like.provenance)) if like.provenance else None
    for first in range(0, number, _AT_ONCE):
        numbers = range(first, min(number, first + _AT_ONCE))
        rows = [
            {
                "run_id": f"{each:016x}",
                "config": replace(like.config, seed=each).canonical_json(),
                "corpus_checksum": "0" * 64,
                "state": str(RunState.DONE),
                "progress": 1.0,
                "created": 1e9 + each,
                "provenance": about,
            }
            for each in numbers
        ]
        kept = [
            {"run_id": f"{each:016x}", "round": place, "body": body}
            for each in numbers
            for place, body in enumerate(bodies)
        ]
        with database.begin() as connection:
            connection.execute(insert(runs), rows)
            connection.execute(insert(records), kept)
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
    every = [page for group in pages.values() for page in group]
    chosen = next(page for page in every if page._page.parent.name == first)
    for page in every:
        page._default = page is chosen
    return navigation(pages, **more)


def drawn(name: str, settings: Settings) -> Callable[[], object]:
    """Return a function that draws a page as a server's first session does and raises RuntimeError on an error."""
    from unittest.mock import patch

    import streamlit as st
    from streamlit.testing.v1 import AppTest

    opened_at = partial(opened_with, st.navigation, name)

    def draw() -> None:
        here = patch.object(Settings, "from_environment", classmethod(lambda _: settings))
        st.cache_resource.clear()
        with here, patch.object(st, "navigation", opened_at):
            shown = AppTest.from_file(str(REPOSITORY / "app.py"), default_timeout=600).run()
        if shown.exception:
            raise RuntimeError(shown.exception[0].value)

    return draw


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--save", action="store_true", help="save the result")
    options = parser.parse_args()
    here = Application.from_environment()
    like = next(
        run for run in here.queries.published() if run.config.corpus == "synthetic" and len(run.records) >= RECORDS
    )
    with tempfile.TemporaryDirectory() as folder:
        address = f"sqlite:///{Path(folder) / 'runs.sqlite'}"
        settings = replace(here.settings, home=Path(folder), store_url=address)
        fill(settings, like, options.runs)
        app = Application(settings)
        new = replace(like.config, seed=10**7)
        app._context.store.submit("f" * 16, new, "0" * 64)
        claim = app._context.store.claim("f" * 16, "benchmark")
        asked = {
            "one run": lambda: app.queries.get(f"{1:016x}"),
            "the newest 200": lambda: app.queries.recent(200),
            "the catalogue (the newest 5,000 with their last records)": lambda: app.queries.overview(),
            "what waits": lambda: app._context.store.unfinished(),
            "a run is stored": lambda: app._context.store.submit(f"{time.time_ns():x}"[-16:], new, "0" * 64),
            "a heartbeat": lambda: app._context.store.heartbeat(claim, "training", 0.5),
            "metrics": lambda: prometheus_metrics.text(app),
            "the page Runs": drawn("runs", settings),
            "the page Compare": drawn("compare", settings),
            "the page Glossary, which asks for no runs": drawn("glossary", settings),
        }
        found = {name: seconds(call) for name, call in asked.items()}
        app.close()
    rows = [(name, f"{1000 * first:,.0f}", f"{1000 * again:,.0f}") for name, (first, again) in found.items()]
    cells = {name: {"first": first, "again": again} for name, (first, again) in found.items()}
    values = {"runs": options.runs, "records": RECORDS, "cells": cells}
    head = (f"{options.runs:,} runs", "first, ms", "again, ms")
    finish("many_runs", values, markdown(head, rows), as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
