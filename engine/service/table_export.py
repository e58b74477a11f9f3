"""Export of runs as CSV or Parquet: one table of settings and results, and one of records."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.artifact_store import atomic_write
from engine.errors import InvalidConfig
from engine.records import EntityScores, RoundRecord, Run
from engine.reports.csv_export import csv_text
from engine.service.run_queries import Overview

if TYPE_CHECKING:
    import pandas as pd

KINDS = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}
"""File extensions and their media types."""


def runs_table(found: Iterable[Overview]) -> "pd.DataFrame":
    """Return a table with one row for each run: status, settings by field name, and values of the newest record.

    The scores are those on the test set if the record is final, else on the validation set (column ``part``). ε = ∞ is
    infinity. Times are UTC.
    """
    return _table([_run(overview.run, overview.last_record, overview.note) for overview in found])


def records_table(runs: Iterable[Run]) -> "pd.DataFrame":
    """Return a table with one row for each record of each run, with scores on the validation set.

    Scores on the test set are in :func:`runs_table`.
    """
    return _table([{"run_id": run.run_id} | _record(record) for run in runs for record in run.records])


def content(table: "pd.DataFrame", kind: str) -> bytes:
    """Return the table as the content of a file. ``kind`` is one of :data:`KINDS`."""
    return csv_text(table).encode() if kind == ".csv" else bytes(table.to_parquet(index=False))


def write(table: "pd.DataFrame", path: Path) -> None:
    """Write a table to a file in the format of its extension. Raises InvalidConfig, StoreError."""
    if path.suffix.lower() not in KINDS:
        raise InvalidConfig(f"out={str(path)!r}, expected a name that ends in {' or '.join(KINDS)}")
    with atomic_write(path, "The table") as temporary:
        temporary.write_bytes(content(table, path.suffix.lower()))


def _table(rows: Sequence[dict[str, Any]]) -> "pd.DataFrame":
    import pandas as pd  # a third of the time in which a command of the command line starts

    table = pd.DataFrame(rows)
    for name in ("created", "started", "finished"):
        if name in table:
            table[name] = pd.to_datetime(table[name], unit="s", utc=True)
    return table


def _run(run: Run, last: RoundRecord | None, note: str) -> dict[str, Any]:
    status, made = run.status, run.provenance
    return {
        "run_id": run.run_id,
        "kind": str(run.kind),
        "state": str(status.state),
        "published": run.published,
        "created": status.created,
        "started": status.started,
        "finished": status.finished,
        **run.config.flat(),
        **({} if last is None else _outcome(last)),
        "wall_seconds": made.wall_seconds if made else math.nan,
        "machine": made.machine if made else "",
        "engine_version": made.engine_version if made else "",
        "corpus_checksum": made.corpus_checksum if made else "",
        "commit": made.commit if made else "",
        "command": made.command if made else "",
        "error": status.error or "",
        "note": note,
    }


def _outcome(last: RoundRecord) -> dict[str, Any]:
    scores = last.test if last.final and last.test else last.scores
    check = last.noise_check
    return {
        "step": last.step,
        "steps_total": last.steps_total,
        "epsilon": last.privacy.epsilon,
        "protects": last.privacy.unit,
        "neighbours": last.privacy.neighbouring,
        "noise_check": "none" if check is None else "failed" if check.failed else "passed",
        "part": "test" if scores is last.test else "validation",
        **_scores(scores),
    }


def _scores(scores: EntityScores) -> dict[str, float]:
    ratios = {"precision": scores.precision, "recall": scores.recall, "f1": scores.f1}
    return ratios | {f"f1 {kind}": counts.ratios.f1 for kind, counts in scores.strict.items()}


def _record(record: RoundRecord) -> dict[str, Any]:
    return {
        "round": record.round,
        "step": record.step,
        "steps_total": record.steps_total,
        "epsilon": record.privacy.epsilon,
        "delta": record.privacy.delta,
        "rdp_epsilon": record.privacy.rdp_epsilon,
        **_scores(record.scores),
        "loss": record.loss,
        "clipped_fraction": record.clipped_fraction,
        "gradient_norm_median": record.gradient_norm_median,
        "noise_to_signal": record.noise_to_signal,
        "seconds": record.seconds,
    }
