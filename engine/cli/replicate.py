"""The papers that the command `replicate` shows, each with its tables, cells and output."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.config import SimulationConfig
from engine.errors import InvalidConfig
from engine.experiments import seed_aggregates
from engine.experiments.papers import fedner_2020, fedner_2020_scores, jana_biemann_2021
from engine.records import Run
from engine.reports.paper_tables import fedner_fields, fedner_text, paper_text

_Cell = jana_biemann_2021.Cell | fedner_2020.Cell


@dataclass(frozen=True)
class Paper:
    """A paper. tables: their titles by identifier. cells: the cells of all tables."""

    name: str
    tables: dict[str, str]
    cells: Sequence[_Cell]


@dataclass(frozen=True)
class Replication:
    """The results of a paper's cells as fields and as text, and their runs."""

    fields: list[dict[str, Any]]
    text: str
    runs: list[Run]


def find_paper(name: str, corpus: str | None) -> Paper:
    """Return a paper by its name. Raises InvalidConfig."""
    if name == jana_biemann_2021.NAME:
        return Paper(name, jana_biemann_2021.TABLES, jana_biemann_2021.cells(corpus or jana_biemann_2021.CORPUS))
    if name != fedner_2020.NAME:
        raise InvalidConfig(f"paper={name!r}, expected one of {jana_biemann_2021.NAME}, {fedner_2020.NAME}")
    if corpus is not None:
        raise InvalidConfig(f"corpus={corpus!r}, expected none: {name} has {', '.join(fedner_2020.PLATFORMS)}")
    return Paper(name, fedner_2020.TABLES, fedner_2020.cells())


def select_cells(paper: Paper, table: str | None) -> list[_Cell]:
    """Return the cells of one table of a paper, or of all tables. Raises InvalidConfig."""
    if table is not None and table not in paper.tables:
        raise InvalidConfig(f"table={table!r}, expected one of {', '.join(paper.tables)}")
    return [cell for cell in paper.cells if table in (None, cell.table)]


def measure(
    paper: Paper, cells: Sequence[_Cell], find: Callable[[SimulationConfig], Run | None], seeds: int | None
) -> Replication:
    """Compute the results of cells from their runs.

    Args:
        paper: The paper of the cells.
        cells: The cells to compute.
        find: Return the run with a configuration, or None.
        seeds: Number of seeds of each mean, or None for the paper's default.
    """
    if paper.name == fedner_2020.NAME:
        medical_rows = [
            fedner_2020_scores.measure(cell, find, seeds) for cell in cells if isinstance(cell, fedner_2020.Cell)
        ]
        return Replication(
            [fedner_fields(row) for row in medical_rows],
            fedner_text(medical_rows),
            [run for row in medical_rows for run in row.runs],
        )
    rows = [
        jana_biemann_2021.measure(cell, find, seeds or seed_aggregates.SEEDS)
        for cell in cells
        if isinstance(cell, jana_biemann_2021.Cell)
    ]
    return Replication(
        [jana_biemann_2021.fields(row) for row in rows],
        paper_text(rows),
        [run for row in rows for run in row.found.runs],
    )
