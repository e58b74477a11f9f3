"""The values of Explore's chart as tables and as downloads."""

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import pandas as pd
import pyarrow as pa
import streamlit as st

from engine.config import SimulationConfig
from engine.records import Run
from engine.reports.cli_command import command_line
from engine.reports.csv_export import csv_text
from engine.reports.runs import record_fields, run_fields
from pages.explore import curves
from pages.shared import downloads as shared_downloads
from pages.shared import tables


def table(run: Run | None, finished: Sequence[Run], seeds: Sequence[Run]) -> None:
    """Show tables of the records of a run, of the runs with other seeds, and of finished runs with other noise.

    Args:
        run: The open run, or None.
        finished: Finished runs with the same settings and any noise.
        seeds: Runs with the same settings and any seed.
    """
    if run and run.records:
        st.dataframe(_table(curves.rows(run.records)), hide_index=True, column_config=_columns(), key="records")
    if others := _seed_rows(seeds):
        st.caption("Runs with other seeds, test set")
        st.dataframe(_table(others), hide_index=True, column_config=_columns(), key="seeds_table")
    if finished:
        st.caption("Finished runs of this configuration with any noise multiplier, test set")
        rows = [
            {
                "noise multiplier": other.config.privacy.noise_multiplier,
                "epsilon": point.epsilon,
                "precision": point.precision,
                "recall": point.recall,
                "f1": point.f1,
                "interval": point.interval,
                "seconds": other.provenance.wall_seconds if other.provenance else None,
            }
            for other, point in zip(finished, curves.tradeoff(finished), strict=True)
        ]
        st.dataframe(_table(rows), hide_index=True, column_config=_columns(), key="finished")
        tables.older(finished)
    if not finished and not (run and run.records):
        st.caption("No evaluation yet.")


def _seed_rows(seeds: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row for each finished seed; empty if fewer than two are finished."""
    done = [run for run in seeds if run.final and run.final.test]
    if len(done) < 2:
        return []
    return [
        {
            "seed": run.config.seed,
            "run": run.run_id,
            "epsilon": point.epsilon,
            "precision": point.precision,
            "recall": point.recall,
            "f1": point.f1,
            "interval": point.interval,
            "seconds": run.provenance.wall_seconds if run.provenance else None,
        }
        for run, point in zip(done, curves.seeds(done), strict=True)
    ]


def _table(rows: Sequence[Mapping[str, Hashable]]) -> pa.Table:
    """Return rows as an Arrow table; sessions that show the same rows, and polls without new data, share one table."""
    return _cached_table(tuple(tuple(row.items()) for row in rows))


@lru_cache(maxsize=256)
def _cached_table(rows: tuple[tuple[tuple[str, Hashable], ...], ...]) -> pa.Table:
    frame = pd.DataFrame([dict(row) for row in rows])
    # As text, since Streamlit's number columns cannot show ∞.
    frame["epsilon"] = ["∞" if math.isinf(value) else f"{value:.4g}" for value in frame["epsilon"]]
    return pa.Table.from_pandas(frame)  # keeps the index, without which the browser shows no rows


def _columns() -> dict[str, Any]:
    number = st.column_config.NumberColumn
    columns = {
        "epsilon": st.column_config.TextColumn("ε"),
        "delta": number("δ", format="%.0e"),
        "precision": number("precision", format="%.3f"),
        "recall": number("recall", format="%.3f"),
        "f1": number("F1", format="%.3f"),
        "interval": tables.INTERVAL_COLUMN,
        "f1_low": number("F1 from", format="%.3f", help="Lower end of the 95 % CI of F1 over test sentences."),
        "f1_high": number("F1 to", format="%.3f", help="Upper end of the 95 % CI of F1 over test sentences."),
        "loss": number(format="%.3f"),
        "round": number("evaluation", help="Number of the evaluation, 0 before training."),
        "clipped_fraction": number("clipped", format="percent", help="Share of gradients that were clipped."),
        "gradient_norm_median": number("gradient norm", format="%.2f", help="Median L2 norm before clipping."),
        "examples_seen": number("sentences sampled", format="localized"),
        "nonfinite": number("not finite", help="Sentences skipped so far, since their gradient was not finite."),
        "seconds": number("seconds", format="%.1f"),
    }
    return tables.explained(columns, columns)


def csv(run: Run) -> str:
    """Return the records as CSV; ε = ∞ is ``inf``."""
    return csv_text(pd.DataFrame(curves.rows(run.records)))


def as_json(run: Run) -> str:
    """Return the run with its records as JSON; ε = ∞ is null."""
    return json.dumps(run_fields(run) | {"records": [record_fields(record) for record in run.records]}, indent=1)


def offer(run: Run | None, config: SimulationConfig, seeds: Sequence[Run]) -> None:
    """Show the command that reproduces the run, the download buttons, and where to save a PNG.

    Args:
        run: The open run, or None.
        config: Its configuration.
        seeds: Runs with the same settings and any seed.
    """
    st.caption("To reproduce this run, enter this command in the project folder, or open the address of this page.")
    st.code(f".venv/bin/{command_line(config)}", language="bash", wrap_lines=True)
    if run and run.records:
        name = f"epsilon-explorer-{run.run_id}"
        with st.container(horizontal=True):
            shared_downloads.button(
                "Download CSV", lambda: csv(run), f"{name}.csv", "text/csv", icon=":material/table:"
            )
            shared_downloads.button(
                "Download JSON", lambda: as_json(run), f"{name}.json", "application/json", icon=":material/data_object:"
            )
            if rows := _seed_rows(seeds):
                shared_downloads.button(
                    "Download seeds CSV",
                    lambda: csv_text(pd.DataFrame(rows)),
                    f"{name}-seeds.csv",
                    "text/csv",
                    icon=":material/table:",
                    key="seeds_csv",
                )
        st.caption("To save a chart as PNG, click the camera above it.")
