"""The papers that `paper` shows, each with its tables, its cells, and how its rows read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.config import SimulationConfig
from engine.errors import InvalidConfig
from engine.experiments import seed_aggregates
from engine.experiments.papers import fedner_2020, jana_biemann_2021
from engine.records import Run
from engine.reports.paper_tables import fedner_fields, fedner_text, paper_text

_Cell = jana_biemann_2021.Cell | fedner_2020.Cell


@dataclass(frozen=True)
class Paper:
    """One that is known. tables: what it has, with titles. cells: of all of them."""

    name: str
    tables: dict[str, str]
    cells: Sequence[_Cell]


@dataclass(frozen=True)
class Measured:
    """What was asked for, as fields and as text, and the runs that are behind it."""

    fields: list[dict[str, Any]]
    text: str
    runs: list[Run]


def named(name: str, corpus: str | None) -> Paper:
    """A paper by its name. Raises InvalidConfig."""
    if name == jana_biemann_2021.NAME:
        return Paper(name, jana_biemann_2021.TABLES, jana_biemann_2021.cells(corpus or jana_biemann_2021.CORPUS))
    if name != fedner_2020.NAME:
        raise InvalidConfig(f"paper={name!r}, expected one of {jana_biemann_2021.NAME}, {fedner_2020.NAME}")
    if corpus is not None:
        raise InvalidConfig(f"corpus={corpus!r}, expected none: {name} has {', '.join(fedner_2020.PLATFORMS)}")
    return Paper(name, fedner_2020.TABLES, fedner_2020.cells())


def chosen(known: Paper, table: str | None) -> list[_Cell]:
    """The cells of one of its tables, or of all. Raises InvalidConfig."""
    if table is not None and table not in known.tables:
        raise InvalidConfig(f"table={table!r}, expected one of {', '.join(known.tables)}")
    return [cell for cell in known.cells if table in (None, cell.table)]


def measured(
    known: Paper, cells: Sequence[_Cell], find: Callable[[SimulationConfig], Run | None], seeds: int | None
) -> Measured:
    """What the runs of some of its cells give."""
    if known.name == fedner_2020.NAME:
        rows = [fedner_2020.measure(cell, find, seeds) for cell in cells if isinstance(cell, fedner_2020.Cell)]
        return Measured(
            [fedner_fields(row) for row in rows], fedner_text(rows), [run for row in rows for run in row.runs]
        )
    news = [
        jana_biemann_2021.measure(cell, find, seeds or seed_aggregates.SEEDS)
        for cell in cells
        if isinstance(cell, jana_biemann_2021.Cell)
    ]
    return Measured(
        [jana_biemann_2021.fields(row) for row in news],
        paper_text(news),
        [run for row in news for run in row.found.runs],
    )
