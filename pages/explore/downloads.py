"""The numbers behind a picture: as a table, and to take away."""

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
from engine.reports.runs import record_fields, run_fields
from pages.explore import curves
from pages.shared import downloads as taking
from pages.shared import metrics, tables


def table(run: Run | None, finished: Sequence[Run], seeds: Sequence[Run]) -> None:
    """The records of ``run``, the same with other seeds, and the finished runs of the same setting."""
    if run and run.records:
        st.dataframe(_shown(curves.rows(run.records)), hide_index=True, column_config=_columns(), key="records")
    if others := _seeds(seeds):
        st.caption("Runs that differ in their seeds, on the test part")
        st.dataframe(_shown(others), hide_index=True, column_config=_columns(), key="seeds_table")
    if finished:
        st.caption("Finished runs of this setting, on the test part")
        rows = [
            {
                "noise multiplier": each.config.privacy.noise_multiplier,
                "epsilon": point.epsilon,
                "precision": point.precision,
                "recall": point.recall,
                "f1": point.f1,
                "interval": point.interval,
                "seconds": each.provenance.wall_seconds if each.provenance else None,
            }
            for each, point in zip(finished, curves.tradeoff(finished), strict=True)
        ]
        st.dataframe(_shown(rows), hide_index=True, column_config=_columns(), key="finished")
        tables.older(finished)
    if not finished and not (run and run.records):
        st.caption("No numbers yet.")


def _seeds(seeds: Sequence[Run]) -> list[dict[str, Any]]:
    """A row for each seed that is done; none where fewer than two are."""
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


def _shown(rows: Sequence[Mapping[str, Hashable]]) -> pa.Table:
    """Rows as they are drawn; made once for all who look at the same, and for all polls that find nothing new."""
    return _written(tuple(tuple(row.items()) for row in rows))


@lru_cache(maxsize=256)
def _written(rows: tuple[tuple[tuple[str, Hashable], ...], ...]) -> pa.Table:
    """ε as text: the table has no sign for infinity."""
    frame = pd.DataFrame([dict(row) for row in rows])
    frame["epsilon"] = ["∞" if math.isinf(value) else f"{value:.4g}" for value in frame["epsilon"]]
    return pa.Table.from_pandas(frame)  # with its index, without which the browser has no rows


def _columns() -> dict[str, Any]:
    number = st.column_config.NumberColumn
    columns = {
        "epsilon": st.column_config.TextColumn("ε"),
        "delta": number("δ", format="%.0e"),
        "precision": number("precision", format="%.3f"),
        "recall": number("recall", format="%.3f"),
        "f1": number("F1", format="%.3f"),
        "interval": tables.INTERVAL_COLUMN | {"label": metrics.INTERVAL},
        "f1_low": number("from", format="%.3f", help="95 % interval of F1 over test sentences of the same kind"),
        "f1_high": number("to", format="%.3f"),
        "loss": number(format="%.3f"),
        "clipped_fraction": number("clipped", format="percent"),
        "gradient_norm_median": number("gradient norm", format="%.2f", help="median L2 norm before clipping"),
        "examples_seen": number("sentences drawn", format="localized"),
        "nonfinite": number("left out", help="sentences whose gradient was not finite, so far"),
        "seconds": number("seconds", format="%.1f"),
    }
    return tables.explained(columns, columns)


def csv(run: Run) -> str:
    """The records as CSV; ε = ∞ is written inf."""
    return pd.DataFrame(curves.rows(run.records)).to_csv(index=False)


def as_json(run: Run) -> str:
    """The run with its records as JSON; ε = ∞ is null."""
    return json.dumps(run_fields(run) | {"records": [record_fields(record) for record in run.records]}, indent=1)


def offer(run: Run | None, config: SimulationConfig, seeds: Sequence[Run]) -> None:
    """Buttons, the command that gives the same, and where the PNG is."""
    st.caption(
        "The same run in a shell, in the folder of this program; the address of this page is a link to this view."
    )
    st.code(f".venv/bin/{command_line(config)}", language="bash", wrap_lines=True)
    if run and run.records:
        name = f"epsilon-explorer-{run.run_id}"
        with st.container(horizontal=True):
            taking.button("CSV", lambda: csv(run), f"{name}.csv", "text/csv", icon=":material/table:")
            taking.button(
                "JSON", lambda: as_json(run), f"{name}.json", "application/json", icon=":material/data_object:"
            )
            if rows := _seeds(seeds):
                taking.button(
                    "Seeds, CSV",
                    lambda: pd.DataFrame(rows).to_csv(index=False),
                    f"{name}-seeds.csv",
                    "text/csv",
                    icon=":material/table:",
                    key="seeds_csv",
                )
        st.caption("PNG: the camera above each picture.")
