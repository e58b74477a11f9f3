"""The papers' tables with reported and measured scores, as text."""

from collections.abc import Iterable, Sequence
from typing import Any

from engine.experiments.papers import fedner_2020, fedner_2020_scores
from engine.experiments.papers.jana_biemann_2021 import TABLES, Row, setting_text
from engine.experiments.seed_aggregates import older_text
from engine.reports.numbers import epsilon_text, points_text


def paper_text(rows: Iterable[Row]) -> str:
    """Return the tables of dp-fl-ner for a shell."""
    lines, last, rows = [], "", list(rows)
    for row in rows:
        cell, results = row.cell, row.found
        if cell.table != last:
            last = cell.table
            lines += [
                "",
                f"{last}: {TABLES[last]}",
                f"{'':24}{'reported F1':>11}{'token-level':>20}{'entity-level':>20}{'ε':>9}",
            ]
        ours = [scores.f1.text for scores in (results.token, results.entity) if scores]
        epsilon = "" if results.epsilon is None else epsilon_text(results.epsilon)
        floor = (
            f"   all-O baseline: {results.floor.f1:.3f}, seeds: {results.seeds_text}"
            if results.floor
            else "not run yet"
        )
        lines.append(
            f"{setting_text(cell):24}{cell.published['f1']:11.3f}"
            + "".join(f"{text:>20}" for text in ours or ("", ""))
            + f"{epsilon:>9}{floor}"
        )
    older = older_text(run for row in rows for run in row.found.runs)
    return "\n".join([*lines[1:], *(["", older] if older else [])])


def fedner_text(rows: Sequence[fedner_2020_scores.Row]) -> str:
    """Return Table 2 and the figures of FedNER for a shell: strict F1, and relaxed F1 of overlaps, many to many."""
    lines, last = [], ""
    for row in rows:
        cell = row.cell
        if cell.table != last:
            last = cell.table
            head = f"{'':80}{'strict F1':>16}{'relaxed F1':>16}{'reported':>16}{'seeds':>7}"
            lines += ["", f"{last}: {fedner_2020.TABLES[last]}", head]
        ours = [scores.f1.text if scores else "" for scores in (row.strict, row.relaxed)]
        reported = f"{cell.published['strict_f1']:.3f} / {cell.published['relaxed_f1']:.3f}" if cell.published else ""
        lines.append(
            f"{fedner_2020.title(fedner_2020.what(cell)) + ', ' + cell.platform:80}"
            + "".join(f"{text:>16}" for text in (*ours, reported))
            + (f"{len(row.runs):>7}" if row.runs else "  not run yet")
        )
    lines += ["", *gain_lines(rows)]
    older = older_text(run for row in rows for run in row.runs)
    return "\n".join([*lines[1:], *(["", older] if older else [])]).rstrip()


def gain_lines(rows: Sequence[fedner_2020_scores.Row]) -> list[str]:
    """Return the gain of FedNER over each way of training alone, paired by seed."""
    lines = []
    for together, alone, difference in fedner_2020_scores.gains(rows):
        cell = together.cell
        lines.append(
            f"{cell.table}: {fedner_2020.title(fedner_2020.what(cell))}, {cell.platform}, compared with "
            f"{fedner_2020.baseline(alone.cell)}: {points_text(difference.mean)} points of strict F1, 95 % CI "
            f"{points_text(difference.interval.low)} to {points_text(difference.interval.high)}, "
            f"{difference.number} seeds"
        )
    return lines


def fedner_fields(row: fedner_2020_scores.Row) -> dict[str, Any]:
    """Return a row of FedNER's tables for other programs."""
    measured = None
    if row.strict and row.relaxed and row.one_to_one:
        by_method = {"strict": row.strict, "relaxed": row.relaxed, "relaxed_one_to_one": row.one_to_one}
        measured = {
            f"{name}_{score}_{kind}": getattr(getattr(scores, score), kind)
            for name, scores in by_method.items()
            for score in ("f1", "precision", "recall")
            for kind in ("mean", "sd")
        }
    cell = row.cell
    return {
        "table": cell.table,
        "method": cell.method,
        "platform": cell.platform,
        "setting": dict(cell.setting),
        "published": None if cell.published is None else dict(cell.published),
        "measured": measured,
        "seeds": [run.config.seed for run in row.runs],
        "runs": [run.run_id for run in row.runs],
    }
