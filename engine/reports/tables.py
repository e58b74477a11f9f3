"""The paper's tables beside what was measured, as text."""

from collections.abc import Iterable

from engine.experiments.over_seeds import older_text
from engine.experiments.paper import TABLES, Row, setting_text
from engine.reports.numbers import epsilon_text


def paper_text(rows: Iterable[Row]) -> str:
    """The paper's tables for a shell."""
    lines, last, rows = [], "", list(rows)
    for row in rows:
        cell, found = row.cell, row.found
        if cell.table != last:
            last = cell.table
            lines += [
                "",
                f"{last}: {TABLES[last]}",
                f"{'':24}{'printed F1':>11}{'same metric':>20}{'entities':>20}{'ε':>9}",
            ]
        ours = [scores.f1.text for scores in (found.token, found.entity) if scores]
        epsilon = "" if found.epsilon is None else epsilon_text(found.epsilon)
        floor = f"   finding nothing: {found.floor.f1:.3f}, seeds: {found.seeds_text}" if found.floor else "not run yet"
        lines.append(
            f"{setting_text(cell):24}{cell.published['f1']:11.3f}"
            + "".join(f"{text:>20}" for text in ours or ("", ""))
            + f"{epsilon:>9}{floor}"
        )
    older = older_text(run for row in rows for run in row.found.runs)
    return "\n".join([*lines[1:], *(["", older] if older else [])])
